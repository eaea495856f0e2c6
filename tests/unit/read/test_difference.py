"""The multiset difference of rows before and after: exact for every value, bounded in memory."""

from __future__ import annotations

import io
import math
import resource
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from firnline.errors import StreamBehindError
from firnline.read.difference import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE, run_changes
from firnline.read.duckdb import Limits
from firnline.read.task import ChangeTask, ReadPart, ReadTask
from tests.support.effort import examples
from tests.support.world import World, make_world

Row = dict[str, Any]
COLUMNS = {
    "n": "BIGINT",
    "f": "DOUBLE",
    "t": "VARCHAR",
    "l": "DOUBLE[]",
    "s": "STRUCT(x INTEGER, y VARCHAR)",
}
AFTER = pa.schema(
    [
        ("n", pa.int64()),
        ("f", pa.float64()),
        ("t", pa.string()),
        ("l", pa.list_(pa.float64())),
        ("s", pa.struct([("x", pa.int32()), ("y", pa.string())])),
    ]
)
BEFORE = pa.schema([pa.field("n", pa.int32()), AFTER.field("f"), pa.field("old", pa.string())])
"""A part of earlier: a narrower type, another name, columns that came later."""
FLOATS = st.sampled_from([None, 0.0, -0.0, math.nan, math.inf, 1.5])
NUMBERS = st.sampled_from([None, 0, 1, -1])
TEXTS = st.sampled_from([None, "", "a", "'x"])
ROWS = st.fixed_dictionaries(
    {
        "n": NUMBERS,
        "f": FLOATS,
        "t": TEXTS,
        "l": st.none() | st.lists(FLOATS, max_size=2),
        "s": st.none() | st.fixed_dictionaries({"x": NUMBERS, "y": TEXTS}),
    }
)
EARLIER = st.fixed_dictionaries({"n": NUMBERS, "f": FLOATS, "t": TEXTS})


def put(world: World, rows: Sequence[Row], schema: pa.Schema, place: int = 0) -> ReadPart:
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(list(rows), schema=schema), sink)
    key = world.table.paths.data_part("", world.ids.uuid7(world.clock.now))
    world.store.put_new(key, sink.getvalue())
    return ReadPart(key=key, bytes=sink.tell(), place=place, partition=0)


def read(*parts: ReadPart, columns: dict[str, str] = COLUMNS, **more: Any) -> ReadTask:
    pairs = tuple(columns.items())
    return ReadTask(parts=parts, columns=pairs, needed=pairs, **more)


def changed(world: World, folder: Path, **task: Any) -> list[Row]:
    made = ChangeTask(sequence=7, reason="rewrite", **task)
    limits = Limits(memory=2**28, threads=1, spill=folder / "spill")
    found = list(run_changes([made], world.store, limits))
    return [row for batch in found for row in batch.to_pylist()]


def tally(rows: Sequence[Row]) -> Counter[str]:
    """By text, which tells -0.0 from 0.0 and makes NaN equal to itself."""
    return Counter(
        repr([sorted(v.items()) if isinstance(v, dict) else v for v in map(row.get, COLUMNS)])
        for row in rows
    )


@pytest.mark.long
@examples(10, 1_000)
@given(st.lists(ROWS, max_size=8), st.lists(ROWS, max_size=8), st.lists(EARLIER, max_size=4))
@example([dict.fromkeys(COLUMNS)] * 5, [], [])
@example([{**dict.fromkeys(COLUMNS), "f": -0.0}], [{**dict.fromkeys(COLUMNS), "f": 0.0}], [])
def test_before_and_the_changes_are_after_and_no_row_is_in_vain(
    tmp_path_factory: pytest.TempPathFactory,
    before: list[Row],
    after: list[Row],
    earlier: list[Row],
) -> None:
    world = make_world()
    old = [{**row, "old": row["t"]} for row in earlier]
    renamed = replace(put(world, old, BEFORE), sources=0)
    task = {
        "before": (
            read(renamed, sources=((("t", ("old", "t")),),)),
            read(put(world, before, AFTER)),
        ),
        "after": (read(put(world, after + before[::2], AFTER)),),
    }
    found = changed(world, tmp_path_factory.getbasetemp(), **task)
    gone = tally([row for row in found if row["_operation"] == DELETE])
    new = tally([row for row in found if row["_operation"] == INSERT])
    assert not gone & new
    assert tally([*earlier, *before]) - gone + new == tally([*after, *before[::2]])
    assert gone <= tally([*earlier, *before])
    assert {(row["_sequence"], row["_reason"]) for row in found} <= {(7, "rewrite")}


def test_with_a_key_two_rows_of_one_key_are_an_update(tmp_path: Path) -> None:
    world, columns = make_world(), {"n": "BIGINT", "t": "VARCHAR"}
    schema = pa.schema([AFTER.field("n"), AFTER.field("t")])
    sides = [
        put(world, [{"n": n, "t": t} for n, t in side], schema)
        for side in (
            [(1, "same"), (2, "old"), (3, "gone"), (None, "old")],
            [(1, "same"), (2, "new"), (4, "came"), (None, "new")],
        )
    ]
    left, right = (read(part, columns=columns, primary_key=("n",)) for part in sides)
    found = changed(world, tmp_path, before=(left,), after=(right,), primary_key=("n",))
    assert {(row["_operation"], row["n"], row["t"]) for row in found} == {
        (UPDATE_BEFORE, 2, "old"),
        (UPDATE_AFTER, 2, "new"),
        (DELETE, 3, "gone"),
        (INSERT, 4, "came"),
        (UPDATE_BEFORE, None, "old"),
        (UPDATE_AFTER, None, "new"),
    }


def test_a_part_that_is_gone_tells_how_to_begin_again(tmp_path: Path) -> None:
    world = make_world()
    part = put(world, [dict.fromkeys(COLUMNS)], AFTER)
    list(world.store.delete_many([part.key]))
    with pytest.raises(StreamBehindError, match=part.key) as caught:
        changed(world, tmp_path, before=(read(part),))
    assert "begin again without `since`" in str(caught.value.next_step)


@pytest.mark.long
def test_rows_that_do_not_fit_into_memory_are_compared_on_disk(tmp_path: Path) -> None:
    world, schema = make_world(), pa.schema([("n", pa.int64()), ("t", pa.string())])
    columns = {"n": "BIGINT", "t": "VARCHAR"}
    rows = 400_000
    table = pa.table({"n": range(rows), "t": [f"{n:0>64}" for n in range(rows)]}, schema=schema)
    parts = []
    for side in (table, table.slice(0, rows - 3)):
        sink = io.BytesIO()
        pq.write_table(side, sink, row_group_size=20_000)
        key = world.table.paths.data_part("", world.ids.uuid7(world.clock.now))
        world.store.put_new(key, sink.getvalue())
        parts.append(
            read(ReadPart(key=key, bytes=sink.tell(), place=0, partition=0), columns=columns)
        )
    task = ChangeTask(sequence=1, reason="rewrite", before=(parts[0],), after=(parts[1],))
    limits = Limits(memory=48 * 2**20, threads=1, spill=tmp_path / "spill")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = [row for b in run_changes([task], world.store, limits) for row in b.to_pylist()]
    assert sorted(row["n"] for row in found) == [rows - 3, rows - 2, rows - 1]
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 160 * 1024, "kilobytes"
