from __future__ import annotations

from collections import Counter
from datetime import datetime

import pytest

from firnline.settings.cron import (
    PRESETS,
    check_schedule,
    early_in_hour,
    runs_a_day,
    runs_between,
    spread,
)


@pytest.mark.parametrize(
    "text",
    [
        *PRESETS,
        "* * * * *",
        "15 * * * *",
        "*/10 0-6 1,15 jan-mar MON-FRI",
        "0 0 31 12 7",
        "5-50/5 * * * *",
    ],
)
def test_what_airflow_runs_is_accepted(text: str) -> None:
    assert check_schedule(text) == text


@pytest.mark.long
@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("61 * * * *", "minute"),
        ("* 24 * * *", "hour"),
        ("* * 0 * *", "day of month"),
        ("* * * 13 *", "month"),
        ("* * * * 8", "day of week"),
        ("* * * foo *", "month"),
        ("9-3 * * * *", "minute"),
        ("*/0 * * * *", "minute"),
        ("5/0 * * * *", "minute"),
        ("1,,2 * * * *", "minute"),
        ("*-5 * * * *", "minute"),
        ("- * * * *", "minute"),
    ],
)
def test_the_field_that_is_wrong_is_named(text: str, named: str) -> None:
    with pytest.raises(ValueError, match=f"is not valid for {named};"):
        check_schedule(text)


@pytest.mark.parametrize("text", ["", "@reboot", "hourly", "* * * *", "* * * * * *"])
def test_anything_else_is_told_what_a_schedule_is(text: str) -> None:
    with pytest.raises(ValueError, match="five cron fields"):
        check_schedule(text)


@pytest.mark.parametrize("preset", PRESETS)
def test_runs_of_several_hundred_tables_are_spread_and_each_keeps_its_time(preset: str) -> None:
    times = [spread(preset, f"ttl__t{number}") for number in range(300)]
    assert times == [spread(preset, f"ttl__t{number}") for number in range(300)]
    assert all(check_schedule(each) == each and len(each.split()) == 5 for each in times)
    most = Counter(times).most_common(1)[0][1]
    assert most <= (15 if preset == "@hourly" else 6)
    assert {each.split()[2:] == times[0].split()[2:] for each in times} == {True}
    assert all(each.split()[1] in {"*", *"012345"} for each in times)


def test_five_fields_are_what_their_author_wrote() -> None:
    assert spread("0 0 * * *", "ttl__t") == "0 0 * * *"


def test_the_runs_of_one_table_are_spread_too() -> None:
    assert spread("@daily", "ttl__t") != spread("@daily", "tombstone_cleanup__t")


@pytest.mark.parametrize(
    ("schedule", "early"),
    [
        ("@hourly", range(60)),
        ("17 * * * *", range(60)),
        ("5,20,35,50 * * * *", range(60)),
        ("*/15 6 * * *", range(60)),
        ("* * * * *", range(5)),
        ("*/5 * * * *", range(5)),
        ("10-40/2 * * * *", range(10, 15)),
        ("30-59,45 * * * *", range(30, 35)),
        ("7/10 * * * *", range(7, 12)),
    ],
)
def test_the_early_runs_of_an_hour_are_all_of_few_and_those_of_five_minutes_of_many(
    schedule: str, early: range
) -> None:
    check_schedule(schedule)
    assert [minute for minute in range(60) if early_in_hour(schedule, minute)] == list(early)


@pytest.mark.parametrize(
    ("text", "a_day"),
    [
        ("@hourly", 24),
        ("@daily", 1),
        ("@weekly", 1 / 7),
        ("*/15 * * * *", 96),
        ("5,35 8-18 * * *", 22),
        ("0 3 * * mon-fri", 5 / 7),
        ("0 3 * * 0", 1 / 7),
        ("0 3 * * 7", 1 / 7),
        ("0 3 * * SUN", 1 / 7),
        ("0 3 1 * *", 12 / 365.25),
        ("10/20 * * * *", 72),
        ("0 0 29 2 *", 1 / (4 * 365.25)),
        # Where day and weekday are both restricted, one of them is enough.
        ("0 3 1 * mon", (12 * 6 / 7 + 365.25 / 7) / 365.25),
    ],
)
def test_a_schedule_has_so_many_runs_a_day(text: str, a_day: float) -> None:
    assert runs_a_day(text) == pytest.approx(a_day, rel=2e-3)


@pytest.mark.parametrize("preset", PRESETS)
def test_a_preset_has_as_many_runs_as_the_fields_that_stand_for_it(preset: str) -> None:
    assert runs_a_day(preset) == pytest.approx(runs_a_day(spread(preset, "t")), rel=2e-3)


def utc(text: str) -> int:
    return round(datetime.fromisoformat(f"{text}+00:00").timestamp() * 1_000)


@pytest.mark.parametrize(
    ("text", "first", "count"),
    [
        ("@hourly", "2026-01-31T00:00:00", 49),
        ("@daily", "2026-01-31T00:00:00", 3),
        ("@monthly", "2026-02-01T00:00:00", 1),
        ("15,45 6-8 * * *", "2026-01-31T06:15:00", 12),
        ("0 0 1 * *", "2026-02-01T00:00:00", 1),
        ("0 12 * * 7", "2026-02-01T12:00:00", 1),  # a Sunday
        ("0 12 31 * 0", "2026-01-31T12:00:00", 2),  # the day of the month or the Sunday
        ("0 0 29 2 *", "", 0),
    ],
)
def test_runs_between_two_times_are_those_of_cron(text: str, first: str, count: int) -> None:
    runs = list(runs_between(text, utc("2026-01-31T00:00:00"), utc("2026-02-02T00:00:00")))
    assert len(runs) == count
    assert runs[:1] == ([utc(first)] if first else [])
    assert runs == sorted(set(runs))


@pytest.mark.parametrize("text", ["*/15 * * * *", "7 3 * * 1-5", "0 */6 1 * *", "@weekly"])
def test_over_a_year_there_are_as_many_runs_as_a_day_has_on_average(text: str) -> None:
    year = list(runs_between(text, utc("2026-01-01T00:00:00"), utc("2026-12-31T23:59:59")))
    assert len(year) / 365 == pytest.approx(runs_a_day(text), rel=0.02)
