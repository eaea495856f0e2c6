"""Hazards of putting parts together (docs/guarantees.md)."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from firnline.appends.append import Appender
from firnline.clock import SystemClock
from firnline.kernel.local import LocalEngine
from firnline.operations.merge.run import run_merge
from firnline.operations.operation import Work
from firnline.operations.options import MergeOptions
from firnline.state.history import history
from tests.support.cleanups import RUN, check
from tests.support.engines import CountingEngine
from tests.support.histories import parquet_bytes
from tests.support.log_tables import put_append, snapshot
from tests.support.reading import part_rows, visible_rows
from tests.support.v1_client import V1Client
from tests.support.world import World, make_world

MIB = 2**20
ALL = {"id": None, "day": None, "a": None, "b": None, "c": None}


def merged(world: World, scratch: Path) -> list[dict[str, Any]]:
    """Rows of the one part that a partition is merged into."""
    engine = LocalEngine(lambda: world.store, scratch, world.ids, SystemClock())
    run_merge(Work(world.table, RUN, lambda: engine), MergeOptions())
    (key,) = snapshot(world).live
    return part_rows(world.table, key)


def test_hazard_16_parts_with_different_columns_merge_without_loss(tmp_path: Path) -> None:
    """In another order, with some missing, with new ones; path columns never replace a file's."""
    world = make_world(
        partition="day=.*/a=.*", sort_by=["id desc", "a"], merge={"row_group_rows": 2048}
    )
    path = "day=of the path/a=77"
    many = list(range(-3_000, 0))
    appended = [
        pa.table({"id": [5, 1, None], "day": ["x", None, "y"], "a": [1, 2, 3]}),
        pa.table({"a": pa.array([None, 9], pa.int64()), "id": [1, 7]}),
        pa.table({"b": ["new", None], "id": [2, 6]}),
        pa.table({"c": [[1, None], []], "day": ["z", "z"]}),
        pa.table({"id": many, "a": many}),
    ]
    expected = Counter[str]()
    for rows in appended:
        world.clock.advance(1)
        Appender(world.table).append(rows, partition=path, agree=False)
        expected.update(repr(ALL | row) for row in rows.to_pylist())
    after = merged(world, tmp_path)
    assert Counter(repr({name: row[name] for name in ALL}) for row in after) == expected
    assert set(after[0]) == ALL.keys(), "no column is lost, and none is taken from the path"
    # As the settings say: nulls last either way.
    order = [(r["id"] is None, -(r["id"] or 0), r["a"] is None, r["a"] or 0) for r in after]
    assert order == sorted(order)
    check(world, snapshot(world).live)


def test_hazard_16_parts_of_other_writers_merge_likewise(tmp_path: Path) -> None:
    """Parts without a footer of ours, by a client of version 1, beside a part of ours."""
    world = make_world(sort_by=["v"])
    client = V1Client(world)
    contents = [pa.table({"v": pa.array([3, 1], pa.int32())}), pa.table({"ts": _times(5, 4)})]
    for rows in [*contents, *contents]:
        data = parquet_bytes(rows)
        key = client.append("v=99", size=len(data))
        world.store.objects[key] = (data, world.clock.now)
    before = visible_rows(world.table)
    after = merged(world, tmp_path)
    assert [row["v"] for row in after] == [1, 1, 3, 3, None, None, None, None]
    both = {"ts": None, "v": None}
    assert Counter(repr(both | row) for row in before) == Counter(
        repr({name: row[name] for name in both}) for row in after
    )


def _times(*values: int) -> pa.Array:
    return pa.array(values, pa.timestamp("us"))


@pytest.mark.parametrize("settings", [{}, {"primary_key": ["v"]}], ids=["plain", "primary key"])
def test_hazard_17_a_full_size_part_is_not_rewritten_for_each_tiny_one(
    settings: dict[str, Any],
) -> None:
    """It stays as it is, however many tiny ones come and are merged beside it."""
    world = make_world(merge={"min_inputs": 2}, **settings)
    (full,) = put_append(world, size=400 * MIB)
    tiny = 0
    for _ in range(100):
        tiny += len(put_append(world, size=10_000))
        run_merge(Work(world.table, RUN, lambda: CountingEngine(world)), MergeOptions())
        assert full in snapshot(world).live
    assert sum(m.n or 0 for m in snapshot(world).live.values()) == 10 * (tiny + 1)
    check(world, snapshot(world).live)


@pytest.mark.parametrize("settings", [{}, {"primary_key": ["v"]}], ids=["plain", "primary key"])
@pytest.mark.parametrize("first", [1, 300])
def test_hazard_17_bytes_are_rewritten_as_often_as_they_double_and_no_more(
    first: int, settings: dict[str, Any]
) -> None:
    """A part of any size, and one more small one again and again, each time merged at once.

    Every byte is written again when it comes into a part of at least 1.5 times the size, below
    a floor of 1/64 of the target with every run: the bound is that of docs/format.md.
    """
    world = make_world(merge={"min_inputs": 2}, **settings)
    put_append(world, size=first * MIB)
    total, size = first * MIB, MIB
    for _ in range(200):
        put_append(world, size=size)
        total += size
        run_merge(Work(world.table, RUN, lambda: CountingEngine(world)), MergeOptions())
    rewritten = sum(header.counts.bytes_in for header in history(world.table, 1_000))
    floor = 8 * MIB
    # Doublings from the floor to the target, and what is rewritten below the floor.
    assert rewritten <= total * (6 + 1 + floor / (2 * size))
