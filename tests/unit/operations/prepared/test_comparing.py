"""What is shown of the rows that change."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from firnline.operations.prepared.comparing import compare_pieces
from firnline.operations.prepared.pieces import Piece, Wanted
from firnline.read.duckdb import Limits
from tests.support.world import make_world
from tests.unit.read.test_difference import put, read


@pytest.mark.long
def test_a_value_that_changes_behind_what_is_shown_of_it_is_shown(tmp_path: Path) -> None:
    world, columns = make_world(), {"n": "BIGINT", "v": "VARCHAR", "w": "VARCHAR"}
    schema = pa.schema([("n", pa.int64()), ("v", pa.string()), ("w", pa.string())])
    before, after = (
        read(put(world, [{"n": 1, "v": "a" * 300 + end, "w": "same"}], schema), columns=columns)
        for end in "xy"
    )
    wanted = Wanted(keys=("n",), samples=1, memory=2**28, threads=1)
    limits = Limits(memory=2**28, threads=1, spill=tmp_path / "spill")
    (found,) = compare_pieces([Piece("", before, after)], wanted, world.store, limits)
    (shown,) = found.samples
    assert (found.columns, shown.kind) == ({"v": 1}, "changed")
    text = "a" * 200
    assert shown.before == {"n": "1", "v": text}
    assert shown.after == {"n": "1", "v": f"{text}… (differs further on)"}
