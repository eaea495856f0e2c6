"""Every store call of a drop and of a TTL: die before it, die after it, lose its answer.

Exhaustive, as ``test_sweep``: afterwards what was named is gone wholly or not at all, and the same
run again ends with it gone, once.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from firnline.errors import FirnlineError
from firnline.log.txn_file import RunIdentity
from firnline.operations.drop import DropOptions, list_partitions, run_drop
from firnline.operations.ttl import TtlOptions, run_ttl
from firnline.store.probe import forget
from tests.support.log_tables import do_merge, put_append, snapshot, v1_live
from tests.support.world import Crashed, Fault, FaultyStore, World, make_world

RUN = RunIdentity(dag_id="d", run_id="r")
KINDS = ["before", "after", "lost"]
PAST = ["ts_day=2023-11-01", "ts_day=2023-11-02"]
KEPT = ["ts_day=2023-11-14", "ts_day=__null__"]
Operation = Callable[[World, FaultyStore], int]


def fresh() -> World:
    """Four partitions of three parts each, one of them merged before."""
    world = make_world(partition_by=["day(ts)"], ttl={"keep": "3d"})
    for _ in range(3):
        put_append(world, *PAST, *KEPT)
    do_merge(world, [m.p for m in snapshot(world).partitions[KEPT[0]]])
    world.clock.advance(10)
    return world


def restored(start: World) -> World:
    world = make_world(partition_by=["day(ts)"], ttl={"keep": "3d"})
    world.store.objects = copy.copy(start.store.objects)
    world.clock.now, world.clock.elapsed = start.clock.now, start.clock.elapsed
    world.ids.count = start.ids.count
    return world


def drop(world: World, store: FaultyStore) -> int:
    report = run_drop(replace(world.table, store=store), DropOptions(partitions=(*PAST,)), RUN)
    return report.parts


def confirmed_drop(world: World, store: FaultyStore) -> int:
    """As an approval has it: what was listed before the first try."""
    listed = {p.partition: p.version for p in list_partitions(fresh().table)}
    options = DropOptions(partitions=(*PAST,), expected={p: listed[p] for p in PAST})
    return run_drop(replace(world.table, store=store), options, RUN).parts


def ttl(world: World, store: FaultyStore) -> int:
    return run_ttl(replace(world.table, store=store), TtlOptions(), RUN).parts


def points(operation: Operation) -> Iterator[Fault]:
    world = fresh()
    forget()
    store = FaultyStore(world.store)
    operation(world, store)
    for index in range(len(store.calls)):
        for kind in KINDS:
            yield Fault(index, kind)


def check(world: World) -> bool:
    """All of it or nothing, for every reader; True when it is gone."""
    state = snapshot(world)
    left = set(state.partitions)
    assert left in ({*PAST, *KEPT}, {*KEPT})
    assert sum(m.n or 0 for p in KEPT for m in state.partitions[p]) == 60
    assert set(state.parts) <= world.store.objects.keys(), "nothing is deleted"
    return left == {*KEPT}


@pytest.mark.parametrize("operation", [drop, confirmed_drop, ttl])
def test_a_removal_that_dies_at_any_store_call_happens_wholly_or_not_at_all(
    operation: Operation,
) -> None:
    start = fresh()
    swept = 0
    for fault in points(operation):
        world = restored(start)
        forget()
        try:
            operation(world, FaultyStore(world.store, fault))
            came_through = True
        except (Crashed, FirnlineError):
            came_through = False
        gone = check(world)
        assert gone or not came_through, fault
        world.clock.advance(1000)
        again = FaultyStore(world.store)
        parts = operation(world, again)
        assert check(world), fault
        if operation is not ttl:
            assert parts == 6, (fault, "a second try reports the run's own work")
        assert v1_live(world) == set(snapshot(world).live)
        drops = [k for k in world.store.objects if "/_txn/" in k]
        assert len(drops) == 2, (fault, "the merge and one removal")
        assert len(again.calls) <= 14, (fault, again.calls)
        swept += 1
    assert swept >= 3 * 9


@pytest.mark.parametrize("operation", [drop, ttl])
def test_a_lost_answer_to_any_put_is_our_own_success(operation: Operation) -> None:
    clean = fresh()
    forget()
    store = FaultyStore(clean.store)
    operation(clean, store)
    puts = [i for i, call in enumerate(store.calls) if call.startswith("put")]
    assert len(puts) == 4
    for index in puts:
        world = restored(fresh())
        forget()
        assert operation(world, FaultyStore(world.store, Fault(index, "lost"))) == 6
        assert check(world)
