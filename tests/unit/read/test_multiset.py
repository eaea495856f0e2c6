"""Rows are equal where their digests are: in the feed of changes and in what a rewrite shows."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from firnline.read.comparison import Difference, difference
from firnline.read.duckdb import Limits, open_connection
from firnline.types.rowhash import digest_of
from tests.support.world import make_world
from tests.unit.read.test_difference import changed, put, read

NAN, NAN_BELOW, NAN_ODD = (
    struct.unpack("<d", bits.to_bytes(8, "little"))[0]
    for bits in (0x7FF8000000000000, 0xFFF8000000000000, 0x7FF8000000000001)
)
DOUBLE = pa.float64()
CASES: dict[str, tuple[Any, Any, str, pa.DataType]] = {
    "the sign of a zero": (0.0, -0.0, "DOUBLE", DOUBLE),
    "the sign of a zero in a float": (0.0, -0.0, "FLOAT", pa.float32()),
    "the sign of a zero in a list": ([0.0], [-0.0], "DOUBLE[]", pa.list_(DOUBLE)),
    "the sign of a zero in a struct": (
        {"x": 0.0},
        {"x": -0.0},
        "STRUCT(x DOUBLE)",
        pa.struct([("x", DOUBLE)]),
    ),
    "a zero and a null": (0.0, None, "DOUBLE", DOUBLE),
    "two nulls": (None, None, "DOUBLE", DOUBLE),
    "the sign of a NaN": (NAN, NAN_BELOW, "DOUBLE", DOUBLE),
    "the sign of a NaN in a list": ([NAN], [NAN_BELOW], "DOUBLE[]", pa.list_(DOUBLE)),
    "the bits of a NaN": (NAN, NAN_ODD, "DOUBLE", DOUBLE),
    "a NaN and a number": (NAN, 1.5, "DOUBLE", DOUBLE),
    "texts that look like NaNs": ("nan", "-nan", "VARCHAR", pa.string()),
}


def table(value: Any, kind: pa.DataType) -> pa.Table:
    return pa.table({"n": pa.array([1], pa.int64()), "v": pa.array([value], kind)})


def compared(folder: Path, sides: list[pa.Table], kind: str, keys: tuple[str, ...]) -> Difference:
    world, columns = make_world(), {"n": "BIGINT", "v": kind}
    before, after = (
        read(put(world, side.to_pylist(), side.schema), columns=columns) for side in sides
    )
    limits = Limits(memory=2**28, threads=1, spill=folder / "spill")
    with open_connection(limits) as connection:
        return difference(connection, before, after, world.store, limits, keys=keys, samples=1)


@pytest.mark.parametrize("case", CASES)
def test_the_feed_and_the_comparison_take_for_equal_what_has_one_digest(
    case: str, tmp_path: Path
) -> None:
    left, right, kind, arrow = CASES[case]
    sides = [table(left, arrow), table(right, arrow)]
    same = digest_of(sides[0]) == digest_of(sides[1])
    world, columns = make_world(), {"n": "BIGINT", "v": kind}
    parts = [read(put(world, t.to_pylist(), t.schema), columns=columns) for t in sides]
    told = changed(world, tmp_path, before=(parts[0],), after=(parts[1],))
    assert len(told) == (0 if same else 2)
    found = compared(tmp_path, sides, kind, keys=())
    assert (found.removed, found.added) == ((0, 0) if same else (1, 1))


def test_a_zero_that_changes_its_sign_is_a_changed_value(tmp_path: Path) -> None:
    sides = [table(0.0, DOUBLE), table(-0.0, DOUBLE)]
    found = compared(tmp_path, sides, "DOUBLE", keys=("n",))
    assert (found.changed, found.removed, found.added) == (1, 0, 0)
    assert found.columns == {"n": 0, "v": 1}
    assert [(each.before, each.after) for each in found.shown] == [(("1", "0.0"), ("1", "-0.0"))]
