"""Every store call of an append and of a merge: die before it, die after it, lose its answer.

Exhaustive: the calls of a clean run are counted, then each of them is hit once in each way. After
it the operation runs again, and the table must hold every row once.
"""

from __future__ import annotations

import copy
import io
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firnline.append import Appender
from firnline.clock import SystemClock
from firnline.errors import FirnlineError
from firnline.kernel.local import LocalEngine
from firnline.log.txn_file import RunIdentity
from firnline.operations.merge import MergeOptions, run_merge
from firnline.snapshot import read_snapshot
from tests.support.log_tables import snapshot, v1_live
from tests.support.world import Crashed, Fault, FaultyStore, World, make_world

RUN = RunIdentity(run_id="r")
KINDS = ["before", "after", "lost"]
Operation = Callable[[World, FaultyStore, Path], None]


def batch(first: int) -> pa.Table:
    ids = list(range(first, first + 6))
    return pa.table({"id": ids, "day": [i % 2 for i in ids], "name": [f"n{i}" for i in ids]})


def fresh() -> World:
    """Two partitions of four small parts each, 24 rows."""
    world = make_world(partition_by=["day"], sort_by=["id"])
    appender = Appender(world.table)
    for first in range(0, 24, 6):
        world.clock.advance(10)
        appender.append(batch(first))
    return world


def rows(world: World) -> Counter[int]:
    """Ids of all live rows, read from the objects."""
    found: Counter[int] = Counter()
    for path in read_snapshot(world.store, world.table.paths).live:
        table = pq.read_table(io.BytesIO(world.store.objects[path][0]), partitioning=None)
        found.update(table.column("id").to_pylist())
    return found


def check(world: World, expected: range) -> None:
    """Each row once; nothing live without its object; v1 clients see the same parts."""
    assert rows(world) == Counter(expected)
    live = set(snapshot(world).live)
    assert live <= world.store.objects.keys()
    assert v1_live(world) == live
    sequences = sorted(world.table.paths.parse_txn(k) for k in world.store.objects if "/_txn/" in k)
    assert sequences == list(range(1, len(sequences) + 1))


def merge(world: World, store: FaultyStore, scratch: Path) -> None:
    table = replace(world.table, store=store)
    engine = LocalEngine(lambda: store, scratch, world.ids, SystemClock())
    run_merge(table, lambda: engine, MergeOptions(), RUN)


def append(world: World, store: FaultyStore, scratch: Path) -> None:
    table = replace(world.table, store=store)
    Appender(table, scratch=scratch).append(batch(24))


def points(operation: Operation, scratch: Path) -> Iterator[Fault]:
    """One fault per store call and kind."""
    world = fresh()
    store = FaultyStore(world.store)
    operation(world, store, scratch)
    for index in range(len(store.calls)):
        for kind in KINDS:
            yield Fault(index, kind)


def hit(world: World, operation: Operation, fault: Fault, scratch: Path) -> bool:
    """Run with a fault; True when the operation came through all the same."""
    try:
        operation(world, FaultyStore(world.store, fault), scratch)
    except (Crashed, FirnlineError):
        return False
    return True


def test_a_merge_that_dies_at_any_store_call_loses_and_doubles_no_row(tmp_path: Path) -> None:
    start = fresh()
    swept = 0
    for fault in points(merge, tmp_path):
        world = restored(start)
        hit(world, merge, fault, tmp_path)
        check(world, range(24))
        world.clock.advance(1000)
        merge(world, FaultyStore(world.store), tmp_path)
        check(world, range(24))
        assert len(snapshot(world).live) == 2, fault
        again = FaultyStore(world.store)
        merge(world, again, tmp_path)
        assert not [call for call in again.calls if call.startswith("put")], fault
        orphans = {k for k in world.store.objects if "/_data/" in k} - set(snapshot(world).parts)
        assert len(orphans) <= 2, fault  # outputs of the dead run, for the sweep
        swept += 1
    assert swept >= 3 * 16
    assert list(tmp_path.iterdir()) == [], "scratch is cleaned"


def test_an_append_that_dies_at_any_store_call_is_there_wholly_or_not_at_all(
    tmp_path: Path,
) -> None:
    start = fresh()
    swept = 0
    for fault in points(append, tmp_path):
        world = restored(start)
        came_through = hit(world, append, fault, tmp_path)
        there = sum(rows(world).values()) == 30
        check(world, range(30) if there else range(24))
        assert there or not came_through, fault
        if not there:
            append(world, FaultyStore(world.store), tmp_path)
            check(world, range(30))
        swept += 1
    assert swept >= 3 * 5


@pytest.mark.parametrize("operation", [append, merge])
def test_a_lost_answer_to_any_put_of_the_log_is_our_own_success(
    operation: Operation, tmp_path: Path
) -> None:
    clean = fresh()
    store = FaultyStore(clean.store)
    operation(clean, store, tmp_path)
    for index, call in enumerate(store.calls):
        if call.startswith("put") and ("/_log/" in call or "/_txn/" in call):
            world = fresh()
            assert hit(world, operation, Fault(index, "lost"), tmp_path), call


def restored(start: World) -> World:
    """A copy of a world that goes its own way."""
    world = make_world(partition_by=["day"], sort_by=["id"])
    world.store.objects = copy.copy(start.store.objects)
    world.clock.now, world.clock.elapsed = start.clock.now, start.clock.elapsed
    world.ids.count = start.ids.count
    return world
