"""Validate cron schedules when the settings are loaded.

Airflow parses a schedule when it creates the DAG; an error found there is an import error of every
table. Only the standard library is used: this runs at every DAG parse.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, timedelta
from typing import NamedTuple

from firnline.units import DAY_MS

PRESETS = ("@hourly", "@daily", "@weekly", "@monthly", "@quarterly", "@yearly")

_SPREAD_HOURS = 6
"""Hours after midnight (UTC) over which runs of tables are spread."""
_SPREAD = {
    "@hourly": "{minute} * * * *",
    "@daily": "{minute} {hour} * * *",
    "@weekly": "{minute} {hour} * * 0",
    "@monthly": "{minute} {hour} 1 * *",
    "@quarterly": "{minute} {hour} 1 1,4,7,10 *",
    "@yearly": "{minute} {hour} 1 1 *",
}

_AT_ITS_BEGIN = {
    preset: fields.replace("{minute}", "0").replace("{hour}", "0")
    for preset, fields in _SPREAD.items()
}
_EPOCH = date(1970, 1, 1)

_YEAR_DAYS = 365.2425
_A_DAY = {
    "@hourly": 24.0,
    "@daily": 1.0,
    "@weekly": 1 / 7,
    "@monthly": 12 / _YEAR_DAYS,
    "@quarterly": 4 / _YEAR_DAYS,
    "@yearly": 1 / _YEAR_DAYS,
}
_CYCLE_DAYS = 28 * 365 + 7
"""Days after which dates and days of the week repeat (within a century)."""

FLEET = "fleet"
"""Schedule of an operation that the planner of the fleet starts."""
_FEW = 4
"""Runs an hour, at most, of which all are early in it."""
_FIRST_MINUTES = 5
"""Minutes of an hour, from the first run on, in which others are early."""

_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_DAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
_FIELDS: tuple[tuple[str, int, int, dict[str, int]], ...] = (
    ("minute", 0, 59, {}),
    ("hour", 0, 23, {}),
    ("day of month", 1, 31, {}),
    ("month", 1, 12, {name: number for number, name in enumerate(_MONTHS, 1)}),
    ("day of week", 0, 7, {name: number for number, name in enumerate(_DAYS)}),
)
_ITEM = re.compile(
    r"(?P<low>\*|[0-9]{1,2}|[a-z]{3})(?:-(?P<high>[0-9]{1,2}|[a-z]{3}))?(?:/(?P<step>[0-9]{1,2}))?"
)


def check_schedule(text: str) -> str:
    """Return ``text`` if it is a preset or five cron fields (minute hour day month weekday, UTC).

    Raises:
        ValueError: anything else; names the invalid field.
    """
    return _checked(text, PRESETS)


def check_planned_schedule(text: str) -> str:
    """Return ``text`` if it is ``fleet``, or what ``check_schedule`` allows. Raises ValueError."""
    return _checked(text, (*PRESETS, FLEET))


def early_in_hour(text: str, minute: int) -> bool:
    """Return True if a run by a schedule is one of the first of its hour.

    All of a schedule with at most four runs an hour, else those of five minutes: a run that takes
    longer than to the next one lets that out.

    Args:
        text: a valid schedule.
        minute: of the hour at which the run is due.
    """
    minutes = {0} if text in PRESETS else _values(text.split(maxsplit=1)[0], 0, 59, {})
    return len(minutes) <= _FEW or minute - min(minutes) in range(_FIRST_MINUTES)


def runs_a_day(text: str) -> float:
    """Return the runs a day of a valid schedule, on average."""
    if text in PRESETS:
        return _A_DAY[text]
    fields = _Fields.of(text)
    first = date(2001, 1, 1)
    matching_days = sum(fields.on(first + timedelta(days=n)) for n in range(_CYCLE_DAYS))
    return len(fields.minutes) * len(fields.hours) * matching_days / _CYCLE_DAYS


def runs_between(text: str, start_ms: int, end_ms: int) -> Iterator[int]:
    """Yield the times at which a schedule is due, unix ms, ascending.

    Args:
        text: a valid schedule, in UTC.
        start_ms: the first time that counts, unix ms.
        end_ms: the last one, likewise.
    """
    fields = _Fields.of(_AT_ITS_BEGIN.get(text, text))
    minutes = sorted(60 * hour + minute for hour in fields.hours for minute in fields.minutes)
    for day in range(start_ms // DAY_MS, end_ms // DAY_MS + 1):
        if fields.on(_EPOCH + timedelta(days=day)):
            times = (day * DAY_MS + minute * 60_000 for minute in minutes)
            yield from (t for t in times if start_ms <= t <= end_ms)


class _Fields(NamedTuple):
    """The five fields of a schedule."""

    minutes: set[int]
    hours: set[int]
    days: set[int]
    months: set[int]
    weekdays: set[int]
    """From 0, Sunday, to 6."""
    either: bool
    """Day of the month or day of the week, as cron does where both are restricted."""

    @classmethod
    def of(cls, text: str) -> _Fields:
        """Return those of five valid fields."""
        given = text.split()
        minutes, hours, days, months, weekdays = (
            _values(part, low, high, words)
            for part, (_, low, high, words) in zip(given, _FIELDS, strict=True)
        )
        either = given[2] != "*" and given[4] != "*"
        return cls(minutes, hours, days, months, {day % 7 for day in weekdays}, either)

    def on(self, day: date) -> bool:
        """Return True if there are runs on a day."""
        by_date, by_week = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        fits = by_date or by_week if self.either else by_date and by_week
        return day.month in self.months and fits


def _values(field: str, least: int, most: int, words: Mapping[str, int]) -> set[int]:
    """Return the values of a valid field, which go from ``least`` to ``most``."""
    values: set[int] = set()
    for text in field.lower().split(","):
        item = _ITEM.fullmatch(text)
        assert item is not None
        low, high, step = item["low"], item["high"], item["step"]
        first = least if low == "*" else _value(low, words)
        ends_at_first = low != "*" and high is None and step is None
        last = first if ends_at_first else most if high is None else _value(high, words)
        values.update(range(first, last + 1, int(step or 1)))
    return values


def _value(text: str, words: Mapping[str, int]) -> int:
    return words[text] if text in words else int(text)


def spread(text: str, of: str) -> str:
    """Return the five fields that a preset stands for, at an offset that depends on a name alone.

    Without it the runs of all tables would start at the same minute. Five fields stay as they are.

    Args:
        text: a schedule.
        of: id of the DAG.
    """
    at = zlib.crc32(of.encode()) % (60 * _SPREAD_HOURS)
    return _SPREAD[text].format(minute=at % 60, hour=at // 60) if text in _SPREAD else text


def _checked(text: str, presets: Sequence[str]) -> str:
    if text in presets:
        return text
    parts = text.split()
    if len(parts) != len(_FIELDS):
        raise ValueError(
            f"{text!r} is not a schedule; write five cron fields such as '15 * * * *', "
            f"one of {', '.join(presets)}, or null"
        )
    for part, (name, low, high, words) in zip(parts, _FIELDS, strict=True):
        if not all(_item_fits(item, low, high, words) for item in part.lower().split(",")):
            raise ValueError(
                f"{text!r} is not a schedule: {part!r} is not valid for {name}; "
                f"write numbers from {low} to {high}, *, ranges, lists or steps"
            )
    return text


def _item_fits(item: str, low: int, high: int, words: dict[str, int]) -> bool:
    match = _ITEM.fullmatch(item)
    if match is None:
        return False
    if match["low"] == "*":
        return match["high"] is None and match["step"] != "0"
    first = _number(match["low"], words)
    last = first if match["high"] is None else _number(match["high"], words)
    if first is None or last is None:
        return False
    return low <= first <= last <= high and (match["step"] is None or int(match["step"]) > 0)


def _number(text: str, words: dict[str, int]) -> int | None:
    return int(text) if text.isdecimal() else words.get(text)
