"""Every store call of a rewrite: die before it, die after it, lose its answer.

Exhaustive, as ``test_sweep``: after each the rewrite runs again, and each partition must hold its
rows either as they were or as the rewrite makes them, never a mixture.
"""

from __future__ import annotations

import copy
import io
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from firnline.append import Appender
from firnline.clock import SystemClock
from firnline.errors import FirnlineError
from firnline.kernel.local import LocalEngine
from firnline.log.txn_file import RunIdentity
from firnline.operations.rewrite import RewriteOptions, run_rewrite
from firnline.snapshot import read_snapshot
from tests.support.log_tables import snapshot, v1_live
from tests.support.world import Crashed, Fault, FaultyStore, World, make_world

RUN = RunIdentity(run_id="r")
KINDS = ["before", "after", "lost"]
BEFORE = {"day=0": [0, 2, 4, 6, 8, 10], "day=1": [1, 3, 5, 7, 9, 11], "day=2": [20]}
AFTER = {"day=0": [0, 2, 4, 8, 10], "day=1": [1, 3, 7, 9, 11], "day=2": []}
FILTER = RewriteOptions(where="id not in (5, 6) and day < 2", force=True)
QUERY = RewriteOptions(sql="select * from _rows where id not in (5, 6, 20)", force=True)
EMPTY: dict[str, list[int]] = {"day=0": [], "day=1": [], "day=2": []}


def fresh() -> World:
    """Two partitions of two small parts each, and one of one that goes as a whole."""
    world = make_world(partition_by=["day"], sort_by=["id"])
    appender = Appender(world.table)
    for ids in (range(6), range(6, 12)):
        world.clock.advance(10)
        appender.append(pa.table({"id": list(ids), "day": [i % 2 for i in ids]}))
    world.clock.advance(10)
    appender.append(pa.table({"id": [20], "day": [2]}))
    return world


def restored(start: World) -> World:
    """A copy of a world that goes its own way."""
    world = make_world(partition_by=["day"], sort_by=["id"])
    world.store.objects = copy.copy(start.store.objects)
    world.clock.now, world.clock.elapsed = start.clock.now, start.clock.elapsed
    world.ids.count = start.ids.count
    return world


def rows(world: World) -> dict[str, list[int]]:
    """Ids of all live rows by partition, read from the objects."""
    found = copy.deepcopy(EMPTY)
    for partition, markers in read_snapshot(world.store, world.table.paths).partitions.items():
        for marker in markers:
            data = io.BytesIO(world.store.objects[marker.p][0])
            found[partition] += pq.read_table(data, partitioning=None).column("id").to_pylist()
    return {partition: sorted(ids) for partition, ids in found.items()}


def check(world: World) -> None:
    """Each partition old or new as a whole; nothing live without its object; v1 clients agree."""
    for partition, ids in rows(world).items():
        assert ids in (BEFORE[partition], AFTER[partition]), partition
    live = set(snapshot(world).live)
    assert live <= world.store.objects.keys()
    assert v1_live(world) == live


def rewrite(world: World, store: FaultyStore, scratch: Path, options: RewriteOptions) -> None:
    table = replace(world.table, store=store)
    engine = LocalEngine(lambda: store, scratch, world.ids, SystemClock())
    run_rewrite(table, lambda: engine, options, RUN)


def points(options: RewriteOptions, scratch: Path) -> Iterator[Fault]:
    """One fault per store call and kind."""
    world = fresh()
    store = FaultyStore(world.store)
    rewrite(world, store, scratch, options)
    assert rows(world) == AFTER
    for index in range(len(store.calls)):
        for kind in KINDS:
            yield Fault(index, kind)


def sweep(options: RewriteOptions, scratch: Path) -> int:
    start, swept = fresh(), 0
    assert rows(start) == BEFORE
    for fault in points(options, scratch):
        world = restored(start)
        try:
            rewrite(world, FaultyStore(world.store, fault), scratch, options)
        except (Crashed, FirnlineError):
            check(world)
        else:
            assert rows(world) == AFTER, fault
        world.clock.advance(1000)
        rewrite(world, FaultyStore(world.store), scratch, options)
        check(world)
        assert rows(world) == AFTER, fault
        orphans = {k for k in world.store.objects if "/_data/" in k} - set(snapshot(world).parts)
        assert len(orphans) <= 2, fault  # outputs of the dead run, for the orphan sweep
        swept += 1
    assert list(scratch.iterdir()) == [], "scratch is cleaned"
    return swept


def test_a_filter_that_dies_at_any_store_call_leaves_each_partition_old_or_new(
    tmp_path: Path,
) -> None:
    assert sweep(FILTER, tmp_path) >= 3 * 16


def test_a_query_that_dies_at_any_store_call_leaves_each_partition_old_or_new(
    tmp_path: Path,
) -> None:
    assert sweep(QUERY, tmp_path) >= 3 * 16
