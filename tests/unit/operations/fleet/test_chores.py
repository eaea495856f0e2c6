"""What else of a table is due: drops by age, clean-ups, verifications."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firnline.commit.base import read_base
from firnline.errors import MirrorDamagedError
from firnline.operations.cleanup.run import look
from firnline.operations.fleet.chores import (
    WEEK_MS,
    Due,
    _seems_ripe,
    changed_ms,
    daily,
    due,
    due_unread,
    weekly,
)
from firnline.settings.sections import Operation
from firnline.units import DAY_MS
from tests.support.histories import append, clean_up, filled, merge
from tests.support.world import World, make_world

ALL: tuple[Operation, ...] = ("ttl", "tombstone_cleanup", "verify")
HOUR_MS = 3_600_000


def found(world: World, *operations: Operation) -> dict[str, Due]:
    return {each.operation: each for each in due(read_base(world.table), operations or ALL)}


def to_time(world: World, *, of_day: int) -> None:
    """Go to the first hour after the table's own time of the day, some days later."""
    now, name = world.clock.now_ms(), world.settings.name
    world.clock.advance(daily(name, now) + of_day * DAY_MS + HOUR_MS - now)


def to_week(world: World, weeks: int = 1) -> None:
    now = world.clock.now_ms()
    world.clock.advance(weekly(world.settings.name, now) + weeks * WEEK_MS + HOUR_MS - now)


@given(st.text(min_size=1, max_size=40), st.integers(10 * WEEK_MS, 3_000_000_000_000))
def test_each_table_has_a_time_of_the_day_and_of_the_week_of_its_own(name: str, now: int) -> None:
    day, week = daily(name, now), weekly(name, now)
    assert now - DAY_MS < day <= now
    assert now - WEEK_MS < week <= now
    assert day % DAY_MS < DAY_MS // 4
    assert (daily(name, now + DAY_MS), weekly(name, now + WEEK_MS)) == (
        day + DAY_MS,
        week + WEEK_MS,
    )
    assert daily(name, day) == day
    assert weekly(name, week - 1) == week - WEEK_MS


def test_the_times_of_many_tables_are_spread() -> None:
    now = 1_764_000_000_000
    hours = Counter(daily(f"table_{n}", now) % DAY_MS // HOUR_MS for n in range(600))
    assert hours.keys() == set(range(6))
    assert max(hours.values()) < 200
    days = Counter(weekly(f"table_{n}", now) // DAY_MS for n in range(700))
    assert max(days.values()) < 200


def test_a_table_without_a_log_has_nothing_due() -> None:
    assert found(make_world()) == {}


def test_a_clean_up_is_due_from_the_table_s_time_on_at_which_the_grace_was_over(
    tmp_path: Path,
) -> None:
    world = filled(4)
    assert found(world, "tombstone_cleanup") == {}
    to_time(world, of_day=1)
    merge(world, tmp_path)
    world.clock.advance(world.settings.cleanup.grace)
    assert found(world, "tombstone_cleanup") == {}, "at that time of the day it was not over"
    to_time(world, of_day=1)
    one = found(world, "tombstone_cleanup")["tombstone_cleanup"]
    assert one.since_ms == daily(world.settings.name, world.clock.now_ms())
    assert one.why.endswith(") may be deleted")
    clean_up(world)
    assert found(world, "tombstone_cleanup") == {}
    to_time(world, of_day=2)
    assert found(world, "tombstone_cleanup"), "the log files that its own transaction has folded"
    clean_up(world)
    to_time(world, of_day=30)
    assert found(world, "tombstone_cleanup") == {}, "which needed no transaction"


@pytest.mark.parametrize(("grace", "days"), [("3d", 7), ("20d", 21)])
def test_a_quiet_table_is_cleaned_up_on_the_day_on_which_its_old_transactions_may_go(
    grace: str, days: int
) -> None:
    world = make_world(cleanup={"grace": grace})
    append(world, 0)
    base = read_base(world.table)
    long = replace(base, snapshot=replace(base.snapshot, seq=150))
    written = changed_ms(base.snapshot)
    world.clock.advance(60 * DAY_MS)
    found = [day for day in range(60) if _seems_ripe(long, written + day * DAY_MS + HOUR_MS)]
    assert found == [days]


def test_what_is_due_costs_nothing_where_nothing_seems_to_be_there(tmp_path: Path) -> None:
    world = filled(4)
    merge(world, tmp_path)
    base = read_base(world.table)
    before = world.store.counters.as_dict()
    assert [each.operation for each in due(base, ("tombstone_cleanup", "verify"))] == ["verify"]
    assert world.store.counters.as_dict() == before


def test_what_waits_although_its_grace_is_over_starts_no_clean_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parts that clients of version 1, or a mirror, may still show: the plan itself decides."""
    world = filled(4)
    merge(world, tmp_path)
    to_time(world, of_day=3)
    assert "tombstone_cleanup" in found(world)
    monkeypatch.setattr(
        "firnline.operations.cleanup.plan.v1_view.live_parts",
        lambda _: frozenset(read_base(world.table).snapshot.parts),
    )
    monkeypatch.setattr("firnline.operations.cleanup.plan._logs", lambda *_, **__: ([], []))
    assert "tombstone_cleanup" not in found(world)


def test_a_date_far_in_the_future_keeps_no_clean_up_from_being_due(tmp_path: Path) -> None:
    world = filled(4)
    world.clock.advance(1_000 * DAY_MS)
    merge(world, tmp_path)
    world.clock.advance(-1_000 * DAY_MS)
    to_time(world, of_day=3)
    ours = found(world, "tombstone_cleanup")
    assert bool(ours) is (not look(world.table).nothing_to_do)


def test_a_clean_up_that_cannot_be_planned_is_due_and_its_run_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = filled(4)
    merge(world, tmp_path)
    to_time(world, of_day=3)

    def damaged(_: object) -> NoReturn:
        raise MirrorDamagedError("the mirror is damaged", next_step="repair it")

    monkeypatch.setattr("firnline.operations.fleet.chores.look", damaged)
    why = found(world, "tombstone_cleanup")["tombstone_cleanup"].why
    assert why == "it cannot be planned: the mirror is damaged"


def test_a_table_that_cannot_be_read_is_verified_and_nothing_else() -> None:
    now = 1_764_000_000_000
    (one,) = due_unread("t", now, ALL)
    assert (one.operation, one.since_ms) == ("verify", weekly("t", now))
    assert due_unread("t", now, ("ttl", "tombstone_cleanup")) == ()


def test_a_ttl_that_cannot_be_planned_is_due_and_its_run_says_why() -> None:
    world = filled(1, ttl={"keep": "30d", "column": "name"})
    why = found(world, "ttl")["ttl"].why
    assert why.startswith("it cannot be planned: column 'name' of table t")


def test_a_table_that_has_changed_is_verified_from_its_time_of_the_week_on() -> None:
    world = filled(1)
    to_week(world)
    one = found(world, "verify")["verify"]
    assert one.since_ms == weekly(world.settings.name, world.clock.now_ms())
    assert one.why == "it has changed since a week before"
    world.clock.advance(3 * DAY_MS)
    assert found(world, "verify")["verify"].run == one.run, "the id of its run, which is there once"


def test_a_table_that_has_not_changed_is_verified_every_fourth_week() -> None:
    world = filled(1)
    to_week(world)
    whys = []
    for _ in range(12):
        to_week(world)
        whys.append([each.why for each in found(world, "verify").values()])
    every = ["every 4 weeks in any case"]
    assert whys.count(every) == 3
    assert whys.count([]) == 9
    first = whys.index(every)
    assert whys[first::4] == [every] * 3
    append(world, 100)
    to_week(world)
    assert found(world, "verify")["verify"].why == "it has changed since a week before"


def test_only_what_the_planner_starts_is_looked_at(tmp_path: Path) -> None:
    world = filled(4)
    merge(world, tmp_path)
    to_week(world, 2)
    assert found(world, "verify").keys() <= {"verify"}
    assert found(world, "tombstone_cleanup").keys() == {"tombstone_cleanup"}


def test_the_time_at_which_something_was_due_names_its_run() -> None:
    assert Due("ttl", 1_764_213_420_000, "").run == "2025-11-27T03:17:00"
