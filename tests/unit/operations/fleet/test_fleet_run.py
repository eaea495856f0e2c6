"""Reading the tables of the fleet: what is found, and at what price."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from firnline.clock import SystemClock
from firnline.commit import checkpoint
from firnline.commit.base import read_base
from firnline.errors import LogLostError, StoreUnavailableError
from firnline.kernel.local import LocalEngine
from firnline.log.txn_file import RunIdentity
from firnline.operations.fleet.chores import due
from firnline.operations.fleet.need import Need, Unreadable
from firnline.operations.fleet.run import (
    Member,
    bytes_spent,
    look_at_fleet,
)
from firnline.operations.fleet.run import need_of as need
from firnline.operations.merge.run import preview, run_merge
from firnline.operations.operation import Work
from firnline.operations.options import MergeOptions
from firnline.settings.fleet import FleetSettings
from firnline.settings.sections import Operation
from firnline.state.snapshot import read_snapshot
from firnline.table import Table
from firnline.units import DAY_MS
from tests.support.checkpoints import ALWAYS
from tests.support.fleet import need_of
from tests.support.histories import append, delete_lazily, dies_at, drop, filled, lose_log, merge
from tests.support.programs import HUNG_SECONDS
from tests.support.world import FaultyStore, World, make_world

NOW = 1_764_000_000_000


def member(world: World, name: str, **changes: Any) -> Member:
    table = replace(
        world.table, settings=world.settings.model_copy(update={"name": name}), **changes
    )
    return Member(name, lambda: table)


def merge_as(world: World, scratch: Path, run_id: str) -> None:
    """A merge by a run with this id."""
    world.clock.advance(10)
    engine = LocalEngine(lambda: world.store, scratch, world.ids, SystemClock())
    run = RunIdentity(dag_id="merge__t", run_id=run_id)
    run_merge(Work(world.table, run, lambda: engine), MergeOptions())


def requests_of(world: World, *, budgeted: bool) -> Counter[str]:
    before = world.store.counters.as_dict()
    need_of(world.table, budgeted=budgeted)
    after = world.store.counters.as_dict()
    kinds = ("get", "put", "list", "head", "delete")
    return Counter({kind: after[kind] - before[kind] for kind in kinds})


def test_the_need_is_what_the_merge_s_own_plan_has() -> None:
    world = filled(4)
    found, plan = need_of(world.table, budgeted=False), preview(world.table, MergeOptions())
    assert (found.parts_in, found.parts_out) == (plan.parts_in, plan.parts_out) == (8, 2)
    assert (found.bytes, found.requests) == (plan.bytes_in, plan.requests)
    assert found.least_bytes == min(group.bytes for group in plan.groups)
    assert (found.saved, found.idle) == (6, False)


@pytest.mark.long
def test_a_table_that_was_merged_or_is_empty_needs_nothing(tmp_path: Path) -> None:
    world = filled(4)
    merge(world, tmp_path)
    assert need_of(world.table, budgeted=True).idle
    assert need_of(make_world().table, budgeted=True).idle


def test_parts_that_deletes_hide_go_without_a_byte() -> None:
    world = filled(1)
    delete_lazily(world, below=100)
    found = need_of(world.table, budgeted=True)
    assert (found.parts_in, found.parts_out, found.bytes, found.idle) == (2, 0, 0, False)


def test_a_table_with_nothing_to_do_costs_two_lists_and_its_log(tmp_path: Path) -> None:
    world = filled(4)
    merge(world, tmp_path)
    before = dict(world.store.objects)
    # The log file of the merge, in which the others are folded.
    plain = requests_of(world, budgeted=False)
    assert plain == Counter(list=2, get=1)
    # With a budget the history of a day: one list, and the head of each transaction.
    assert requests_of(world, budgeted=True) - plain == Counter(list=1, get=1)
    world.clock.advance(2 * DAY_MS)
    assert requests_of(world, budgeted=True) - plain == Counter(list=1)
    assert world.store.objects == before


def test_a_merge_that_is_committed_and_not_published_is_seen_and_left_as_it_is(
    tmp_path: Path,
) -> None:
    world = filled(4)
    assert dies_at(
        world, f"put {world.table.paths.log_dir}", "before", lambda s: merge(world, tmp_path, s)
    )
    before = dict(world.store.objects)
    assert need_of(world.table, budgeted=True).idle
    assert world.store.objects == before


def test_the_budget_counts_what_the_planner_started_in_the_last_24_hours(tmp_path: Path) -> None:
    world = filled(4)
    expected = need_of(world.table, budgeted=False).bytes
    merge_as(world, tmp_path / "a", "fleet__scheduled__1")
    now = world.clock.now_ms()
    assert bytes_spent(world.table, now) == expected > 0
    assert need_of(world.table, budgeted=True).spent == expected
    assert need_of(world.table, budgeted=False).spent == 0
    assert bytes_spent(world.table, now + DAY_MS + 1) == 0


def test_what_others_started_or_did_does_not_count(tmp_path: Path) -> None:
    world = filled(4)
    merge_as(world, tmp_path / "a", "manual__1")
    for number in range(4):
        append(world, 100 + 6 * number)
    drop(world, "day=0")
    assert bytes_spent(world.table, world.clock.now_ms()) == 0


def test_tables_that_cannot_be_read_or_opened_are_told_in_their_place() -> None:
    good, lost = filled(4), filled(2)
    drop(lost, "day=0")
    lose_log(lost)

    def broken() -> Table:
        raise RuntimeError("not a mistake that we foresaw")

    tables = [member(good, "good"), member(lost, "lost"), Member("broken", broken)]
    found = look_at_fleet(tables, FleetSettings(), NOW)
    assert [type(each) for each in found] == [Need, Unreadable, Unreadable]
    assert [each.table for each in found] == ["good", "lost", "broken"]
    assert isinstance(found[2], Unreadable)
    assert found[2].message == "RuntimeError: not a mistake that we foresaw"


@pytest.mark.long
def test_a_silent_store_holds_up_no_other_table() -> None:
    others_done = threading.Event()

    class Silent(FaultyStore):
        def list(self, prefix: str, after: str | None = None) -> Any:
            assert others_done.wait(HUNG_SECONDS)
            return super().list(prefix, after)

    silent = filled(2)
    tables = [member(silent, "silent", store=Silent(silent.store))]
    tables += [member(filled(4), f"t{number}") for number in range(5)]
    seen: list[str] = []

    def looked(each: Need | Unreadable) -> None:
        seen.append(each.table)
        if len(seen) == 5:
            others_done.set()

    found = look_at_fleet(tables, FleetSettings(concurrency=2), NOW, looked)
    assert seen[-1] == "silent"
    assert [each.table for each in found] == [each.name for each in tables]


def test_no_more_tables_are_open_than_are_read_at_once() -> None:
    lock, many = threading.Lock(), [0, 0]

    class Counted(FaultyStore):
        def list(self, prefix: str, after: str | None = None) -> Any:
            with lock:
                many[0] += 1
                many[1] = max(many)
            try:
                return super().list(prefix, after)
            finally:
                with lock:
                    many[0] -= 1

    worlds = [filled(1) for _ in range(12)]
    tables = [member(world, "t", store=Counted(world.store)) for world in worlds]
    look_at_fleet(tables, FleetSettings(concurrency=3), NOW)
    assert 1 <= many[1] <= 3


def test_what_cannot_be_read_is_verified_unless_its_store_is_down() -> None:
    def lost() -> Table:
        raise LogLostError("the log is lost", next_step="rebuild it")

    def down() -> Table:
        raise StoreUnavailableError("the store does not answer", next_step="wait")

    starts: frozenset[Operation] = frozenset({"merge", "verify"})
    members = [Member("lost", lost, starts), Member("down", down, starts), Member("not", lost)]
    found = look_at_fleet(members, FleetSettings(), NOW)
    assert [[due.operation for due in each.due] for each in found] == [["verify"], [], []]
    (one, *_) = found[0].due
    assert one.why == "its log could not be read"


def test_what_a_table_needs_is_the_same_by_a_checkpoint(tmp_path: Path) -> None:
    world = filled(4)
    drop(world, "day=0")
    delete_lazily(world, 10)
    checkpoint.write(world.table, read_snapshot(world.store, world.table.paths, everything=True))
    append(world, 200)
    merge(world, tmp_path)
    delete_lazily(world, 210)
    starts: tuple[Operation, ...] = ("merge", "ttl", "tombstone_cleanup", "verify")
    needs = []
    for _ in range(12):
        for above in (None, ALWAYS):
            base = read_base(world.table, checkpoint_above=above)
            assert bool(base.snapshot.covered) == (above is not None)
            other = due(base, starts)
            needs.append(need(world.table, base, other, budgeted=False, starts=starts))
        assert needs[-1] == needs[-2]
        world.clock.advance(DAY_MS)
    assert len({each.due for each in needs}) > 1
