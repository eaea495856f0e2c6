"""Hazards of a log whose files each name parts of many partitions (docs/guarantees.md)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from firnline.appends.append import Appender
from firnline.clock import SystemClock
from firnline.errors import CommitConflictError
from firnline.kernel.local import LocalEngine
from firnline.operations.drop.run import list_partitions, run_drop
from firnline.operations.merge.run import run_merge
from firnline.operations.operation import Work
from firnline.operations.options import DropOptions, MergeOptions, RewriteOptions
from firnline.operations.rewrite.run import run_rewrite
from firnline.state.history import history
from firnline.state.snapshot import read_snapshot
from tests.support import histories
from tests.support.beside import Beside, Watched, nothing_dangles
from tests.support.cleanups import GRACE, RUN, check, clean_up, keys_under, sweep
from tests.support.engines import CountingEngine
from tests.support.histories import filled, ids_of, rows_from
from tests.support.log_tables import do_merge, put_append, snapshot, v1_live
from tests.support.stale_client import sleeper
from tests.support.v1_client import V1Client
from tests.support.world import World, make_world


def drop(world: World, *partitions: str) -> None:
    run_drop(Work(world.table, RUN), DropOptions(partitions=partitions))


def test_hazard_01_dropping_a_partition_keeps_the_markers_of_the_others() -> None:
    """Also when one log file names parts of all of them, and once that file is deleted."""
    world = make_world()
    for _ in range(3):
        put_append(world, "d=1", "d=2", "d=3")
    do_merge(world, [m.p for m in snapshot(world).partitions["d=2"]])
    put_append(world, "d=1", "d=2", "d=3")
    before = snapshot(world)
    kept = {p: m for p, m in before.live.items() if "/d=1/" not in p}
    gone = before.live.keys() - kept.keys()
    drop(world, "d=1")
    for _ in range(3):
        check(world, kept)
        after = snapshot(world).live
        assert {p: (m.b, m.n, m.order()) for p, m in after.items()} == {
            p: (m.b, m.n, m.order()) for p, m in kept.items()
        }
        world.clock.advance(GRACE + 10)
        clean_up(world)
    assert gone.isdisjoint(world.store.objects)
    first = keys_under(world, "_log")
    assert not any("_host-" in key for key in first), "the appends' log files are deleted by now"


@pytest.mark.parametrize("place", ["before the append", "before the drop", "after the drop"])
def test_hazard_02_an_older_alive_copy_of_a_marker_never_overrides_a_drop(place: str) -> None:
    """Whatever the order of the names of the log files that hold the copy and the drop.

    The copy is that of a client which read the table before the drop and wrote what it had read
    long after it: under a later name, or an earlier one, when its clock is behind.
    """
    world = make_world(merge={"min_inputs": 2})
    first = world.clock.now - 1_000
    dropped = set(put_append(world, "d=1", "d=2")[:1]) | set(put_append(world, "d=1", "d=2")[:1])
    goes_on = sleeper(world, "d=2")
    world.clock.advance(1_000)
    before_drop = world.clock.now - 500
    drop(world, "d=1")
    world.clock.advance(1_000)
    at = {"before the append": first, "before the drop": before_drop}.get(place, world.clock.now)
    goes_on(at)
    assert (dropped <= v1_live(world)) == (place == "after the drop"), "this is no idle test"
    for everything in (True, False):
        live = read_snapshot(world.store, world.table.paths, everything=everything).live
        assert dropped.isdisjoint(live)
    assert [p.partition for p in list_partitions(world.table)] == ["d=2"]
    # The next transaction writes the drop down again, for whoever goes by the order of names.
    put_append(world, "d=2")
    assert run_merge(
        Work(world.table, RUN, lambda: CountingEngine(world)), MergeOptions()
    ).transactions
    for _ in range(3):
        check(world, snapshot(world).live)
        assert dropped.isdisjoint(snapshot(world).live)
        world.clock.advance(GRACE + 10)
        clean_up(world)
        put_append(world, "d=2")
    assert dropped.isdisjoint(world.store.objects)


def test_hazard_02_a_drop_is_remembered_as_long_as_an_alive_copy_exists() -> None:
    """In a log file too large to be folded, say, long after the dropped part was deleted."""
    world = make_world()
    many = put_append(world, *["d=1"] * 300, "d=2", "d=3")
    do_merge(world, many[:2])
    large = max(keys_under(world, "_log"))
    drop(world, "d=2")
    dropped = many[300]
    for _ in range(3):
        world.clock.advance(GRACE + 10)
        clean_up(world)
        put_append(world, "d=3")
        do_merge(world, [m.p for m in snapshot(world).partitions["d=3"]])
        assert large in world.store.objects
        assert dropped not in world.store.objects
        check(world, snapshot(world).live)
        assert dropped not in snapshot(world).live


@pytest.mark.parametrize("how", ["where", "sql"])
def test_hazard_04_a_rewrite_leaves_no_dangling_alive_marker(how: str, tmp_path: Path) -> None:
    """Neither at any moment of its run, nor when a rival wins, nor once clean-up passed."""
    options = {
        "where": RewriteOptions(where="id >= 5", force=True),
        "sql": RewriteOptions(sql="select * from _rows where id >= 5", force=True),
    }[how]
    world = filled()
    store = Watched(world.store, look=lambda: nothing_dangles(world))
    engine = LocalEngine(lambda: store, tmp_path, world.ids, SystemClock())
    run_rewrite(Work(replace(world.table, store=store), RUN, lambda: engine), options)
    assert sorted(ids_of(world).elements()) == list(range(5, 24))
    inputs = {p for p, m in snapshot(world).parts.items() if m.tmb is not None}
    assert inputs
    assert inputs <= world.store.objects.keys(), "replaced is not yet deleted"
    world.clock.advance(GRACE + 10)
    clean_up(world, store)
    assert inputs.isdisjoint(world.store.objects)
    assert sorted(ids_of(world).elements()) == list(range(5, 24))


def test_hazard_04_a_rewrite_that_lost_to_a_rival_is_named_by_nobody(tmp_path: Path) -> None:
    """Its new parts are deleted, and no log file has ever held a marker of them."""
    world = filled(merge={"max_replans": 0})
    store = Beside(world.store, what="/_txn/0", act=lambda: drop(world, "day=0"))
    engine = LocalEngine(lambda: world.store, tmp_path, world.ids, SystemClock())
    with pytest.raises(CommitConflictError):
        run_rewrite(
            Work(replace(world.table, store=store), RUN, lambda: engine),
            RewriteOptions(where="id <> 8", partitions=("day=0",)),
        )
    assert store.met
    assert [header.op for header in history(world.table, 9)] == ["drop"]
    assert keys_under(world, "_data") == snapshot(world).parts.keys()
    assert all(i % 2 for i in ids_of(world))
    nothing_dangles(world)


def test_hazard_14_an_empty_table_and_an_all_dropped_partition_read_as_empty() -> None:
    """With the schema, for readers of both kinds, also after clean-up; appends go on from there."""
    empty = make_world()
    state = snapshot(empty)
    assert (dict(state.live), dict(state.schema), state.seq) == ({}, {}, 0)
    assert list_partitions(empty.table) == []
    assert run_merge(Work(empty.table, RUN, _no_engine), MergeOptions()).groups == 0
    assert clean_up(empty).parts == 0
    assert empty.store.objects == {}

    world = histories.table_world()
    appender = Appender(world.table)
    appender.append(rows_from(0))
    appender.append(rows_from(6))
    schema = dict(snapshot(world).schema)
    assert set(schema) == {"id", "day", "name"}
    drop(world, "day=0", "day=1")
    for _ in range(4):
        state = read_snapshot(world.store, world.table.paths)
        assert (dict(state.live), dict(state.partitions), dict(state.schema)) == ({}, {}, schema)
        assert V1Client(world).live() == set()
        assert run_merge(Work(world.table, RUN, _no_engine), MergeOptions()).groups == 0
        assert list_partitions(world.table) == []
        world.clock.advance(5 * GRACE)
        clean_up(world)
        sweep(world)
    assert keys_under(world, "_data") == set()
    assert snapshot(world).parts == {}, "not even the markers are left, and yet the schema is"
    Appender(world.table).append(rows_from(12))
    assert sorted(ids_of(world).elements()) == list(range(12, 18))
    check(world, snapshot(world).live)


def _no_engine() -> CountingEngine:
    raise AssertionError("an engine was started for nothing")
