from __future__ import annotations

import datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firnline.operations.drop.dates import end_of, latest_instant
from firnline.units import DAY_MS

ZONES = [
    "UTC",
    "Europe/Berlin",
    "America/St_Johns",
    "Australia/Lord_Howe",
    "Pacific/Apia",
    "America/Sao_Paulo",
    "Asia/Kathmandu",
    "Africa/Casablanca",
    "Pacific/Kiritimati",
]
UTC = datetime.UTC
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=UTC)


def wall(year: int, month: int, day: int, hour: int = 0, minute: int = 0) -> int:
    moment = datetime.datetime(year, month, day, hour, minute, tzinfo=UTC)
    return (moment - EPOCH) // datetime.timedelta(milliseconds=1)


@given(
    st.integers(wall(1950, 1, 1), wall(2040, 1, 1)),
    st.integers(0, 3 * DAY_MS),
    st.sampled_from(ZONES),
    st.sampled_from([0, 1]),
)
def test_no_earlier_wall_time_is_a_later_moment(
    end: int, before: int, zone: str, fold: int
) -> None:
    latest = latest_instant(end, zone)
    assert moment(end - before, zone, fold) <= latest
    assert latest - moment(end, zone, 1) <= DAY_MS, "nor is it late by more than one change"


def moment(wall_ms: int, zone: str, fold: int) -> int:
    """Unix ms of a time on a zone's clocks, by Python's own calendar."""
    there = (EPOCH + datetime.timedelta(milliseconds=wall_ms)).replace(
        tzinfo=ZoneInfo(zone), fold=fold
    )
    return (there - EPOCH) // datetime.timedelta(milliseconds=1)


def test_an_hour_that_comes_twice_means_the_second() -> None:
    zone = "Europe/Berlin"
    assert latest_instant(wall(2026, 10, 25, 2, 30), zone) == wall(2026, 10, 25, 1, 30)
    assert latest_instant(wall(2026, 7, 2), zone) == wall(2026, 7, 1, 22)
    assert latest_instant(wall(2026, 1, 2), zone) == wall(2026, 1, 1, 23)


def test_years_that_a_calendar_of_four_digits_lacks_are_a_day_late_at_most() -> None:
    assert latest_instant(-(10**15), "Europe/Berlin") == -(10**15) + DAY_MS
    assert latest_instant(10**15, "Europe/Berlin") == 10**15 + DAY_MS


@pytest.mark.parametrize(
    ("groups", "end"),
    [
        ({"year": "2013"}, (2014, 1, 1)),
        ({"month": "2013-12"}, (2014, 1, 1)),
        ({"month": "201302"}, (2013, 3, 1)),
        ({"year": "2013", "month": "2"}, (2013, 3, 1)),
        ({"day": "2013-01-05"}, (2013, 1, 6)),
        ({"day": "20130105"}, (2013, 1, 6)),
        ({"day": "2013/01/05"}, (2013, 1, 6)),
        ({"month": "2013-01", "day": "05"}, (2013, 1, 6)),
        ({"year": "2012", "month": "02", "day": "29"}, (2012, 3, 1)),
        ({"hour": "2013-01-05T23"}, (2013, 1, 6)),
        ({"hour": "2013010507"}, (2013, 1, 5, 8)),
        ({"day": "2013-01-05", "hour": "7"}, (2013, 1, 5, 8)),
        ({"day": "2013-01-05", "hour": None}, (2013, 1, 6)),
        ({"year": "2013", "day": "2013-01-05"}, (2013, 1, 6)),
    ],
)
def test_groups_give_the_end_of_their_finest_unit(
    groups: dict[str, str | None], end: tuple[int, ...]
) -> None:
    assert end_of(groups) == wall(*end)


@pytest.mark.parametrize(
    ("groups", "reason"),
    [
        ({}, "has no year"),
        ({"day": None}, "has no year"),
        ({"day": "05"}, "gives a day without its year"),
        ({"year": "2013", "day": "05"}, "gives a day without its month"),
        ({"hour": "7"}, "gives an hour without its year"),
        ({"day": "2013-02-29"}, "no date of the calendar"),
        ({"month": "2013-13"}, "no date of the calendar"),
        ({"year": "2013", "month": "0"}, "no date of the calendar"),
        ({"day": "2013-01-01", "hour": "24"}, "no date of the calendar"),
        ({"year": "2014", "day": "2013-01-05"}, "two different things of its year"),
        ({"year": "13"}, "has '13' where a year should stand"),
        ({"day": "__null__"}, "has '__null__' where a day should stand"),
        ({"day": "\u0662013-01-05"}, "where a day should stand"),
    ],
)
def test_groups_that_give_no_time_say_why(groups: dict[str, str | None], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        end_of(groups)
