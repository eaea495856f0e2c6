"""When maintenance runs in a play."""

from __future__ import annotations

from typing import Any

import pytest

from firnline.errors import UsageError
from firnline.operations.what_if.calendar import Calendar, calendar_of
from firnline.settings.fleet import FleetSettings
from firnline.units import DAY_MS
from tests.support.world import make_world

HOUR_MS = DAY_MS // 24
START = 1_700_006_400_000 + 1
BETWEEN = (START, START + 2 * DAY_MS)


def of(
    fleet: FleetSettings = FleetSettings(),  # noqa: B008 - frozen
    every_ms: int | None = None,
    merged: tuple[int, ...] = (),
    **settings: Any,
) -> Calendar:
    declared = make_world(**settings).settings
    return calendar_of(declared, fleet, BETWEEN, every_ms=every_ms, merged=merged)


def test_the_planner_looks_by_its_schedule_and_starts_chores_once_a_day() -> None:
    calendar = of()
    assert len(calendar.looks) == 48
    assert calendar.looks[0] == START - 1 + HOUR_MS
    assert (calendar.reads_of_merge, calendar.idle_chores) == (2, False)
    assert (len(calendar.cleanups), calendar.ttls) == (2, ())
    assert calendar.source == "by the planner of the fleet, @hourly"
    assert len(of(ttl={"keep": "9d"}, partition_by=["day(ts)"]).ttls) == 2


def test_in_quiet_hours_it_does_not_look() -> None:
    quiet = FleetSettings(quiet_hours=("08:00-20:00",))
    assert len(of(quiet).looks) == 24


def test_a_schedule_of_the_table_goes_before_and_an_interval_before_both() -> None:
    own = of(merge={"schedule": "30 */6 * * *"}, cleanup={"schedule": "0 4 * * *"})
    assert len(own.looks) == 8
    assert (own.looks[0] - START + 1) == HOUR_MS // 2
    assert (own.reads_of_merge, own.idle_chores) == (1, True)
    assert [(t - START + 1) // HOUR_MS for t in own.cleanups] == [4, 28]
    given = of(every_ms=HOUR_MS // 4, merge={"schedule": "30 */6 * * *"})
    assert len(given.looks) == 192
    assert (given.reads_of_merge, given.reads_of_chore, given.source) == (0, 1, "every 15m")


def test_without_a_schedule_merges_are_taken_to_be_when_they_were() -> None:
    assert of(merge={"schedule": None}, merged=(START + 5,)).looks == (START + 5,)
    with pytest.raises(UsageError, match="nothing says when merges of t run"):
        of(merge={"schedule": None})
    with pytest.raises(UsageError, match="nothing says when merges of t run"):
        of(FleetSettings(schedule=None))
