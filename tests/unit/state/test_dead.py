"""Dead parts, and which of them have no object any more."""

from __future__ import annotations

import pyarrow as pa

from firnline.appends.append import Appender
from firnline.log.txn_file import RunIdentity
from firnline.operations.cleanup.run import run_cleanup
from firnline.operations.drop.run import run_drop
from firnline.operations.operation import Work
from firnline.operations.options import CleanupOptions, DropOptions
from firnline.state.dead import unpurged, without_object
from tests.support.log_tables import snapshot
from tests.support.world import World, make_world

RUN = RunIdentity(run_id="r")


def dropped() -> World:
    """Three parts, one of them live."""
    world = make_world(partition_by=["d"])
    for d in (1, 2, 3):
        world.clock.advance(10)
        Appender(world.table).append(pa.table({"d": [d]}))
    run_drop(Work(world.table, RUN), DropOptions(partitions=("d=1", "d=2")))
    return world


def test_dead_parts_are_those_whose_deletion_the_log_does_not_confirm() -> None:
    world = dropped()
    assert sorted(key.split("/")[-2] for key in unpurged(snapshot(world))) == ["d=1", "d=2"]
    last = max(m.tmb or 0 for m in snapshot(world).parts.values())
    assert unpurged(snapshot(world)) == {
        p: m for p, m in snapshot(world).parts.items() if m.tmb == last
    }
    world.clock.advance(9 * 86_400_000)
    run_cleanup(Work(world.table, RUN), CleanupOptions())
    assert snapshot(world).purged == last
    assert unpurged(snapshot(world)) == {}


def test_a_dead_part_without_an_object_is_found_by_a_listing() -> None:
    world = dropped()
    assert without_object(world.store, snapshot(world)) == frozenset()
    key = next(key for key in world.store.objects if "/_data/d=1/" in key)
    live = next(key for key in world.store.objects if "/_data/d=3/" in key)
    del world.store.objects[key], world.store.objects[live]
    before = world.store.counters.list
    state = snapshot(world)
    of_state = world.store.counters.list - before
    assert without_object(world.store, state) == frozenset({key})
    assert world.store.counters.list - before - of_state == 1
