"""Times in the names and statistics of partitions and parts: when the last of their rows was."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from firnline.settings.load import TtlSettings
from firnline.settings.sections import compile_pattern
from firnline.types.calendar import civil_from_days, days_from_civil
from firnline.types.values import ZONED, Stats, bound_key, canonical
from firnline.units import DAY_MS

UNITS = ("year", "month", "day", "hour")
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - wall-clock time, the zone is put to it below
_FIRST = days_from_civil(2, 1, 1) * DAY_MS
_LAST = days_from_civil(9999, 1, 1) * DAY_MS
_SEPARATOR = r"[-_./ ]?"
_WHOLE = {
    "year": re.compile(r"(\d{4})", re.ASCII),
    "month": re.compile(rf"(\d{{4}}){_SEPARATOR}(\d\d)", re.ASCII),
    "day": re.compile(rf"(\d{{4}}){_SEPARATOR}(\d\d){_SEPARATOR}(\d\d)", re.ASCII),
    "hour": re.compile(
        rf"(\d{{4}}){_SEPARATOR}(\d\d){_SEPARATOR}(\d\d)(?:T|{_SEPARATOR})(\d\d)", re.ASCII
    ),
}
"""A group that holds the whole date up to its unit."""
_OWN = re.compile(r"\d{1,2}", re.ASCII)


def end_of_day(wall_ms: int) -> int:
    """Return the end of the day of a wall-clock time, in ms; a midnight is its own.

    A date lasts as long as its day, also where hour(date) says that it is hour 0.
    """
    return -(-wall_ms // DAY_MS) * DAY_MS


def end_by_regex(partition: str, ttl: TtlSettings) -> int:
    """Return the end of a partition of a free layout. Raises ValueError with the reason.

    The expression has to match whole levels of the path: ``d=2013-01-05`` is not found in
    ``d=2013-01-051``.
    """
    assert ttl.partition is not None
    pattern = compile_pattern(ttl.partition)
    cuts = [0, *(at + 1 for at, c in enumerate(partition) if c == "/"), len(partition) + 1]
    ends: set[int] = set()
    reasons: list[str] = []
    for index, start in enumerate(cuts[:-1]):
        for stop in cuts[index + 1 :]:
            match = pattern.fullmatch(partition, start, stop - 1)
            if match is None:
                continue
            groups = {k: v for k, v in match.groupdict().items() if k in UNITS}
            try:
                ends.add(end_of(groups))
            except ValueError as error:
                reasons.append(f"its name {error}")
    if reasons:
        raise ValueError(reasons[0])
    if not ends:
        raise ValueError("its name does not match ttl.partition")
    if len(ends) > 1:
        raise ValueError("its name matches ttl.partition in several ways")
    return latest_instant(ends.pop(), ttl.time_zone)


@lru_cache(maxsize=16_384)
def latest_instant(wall_ms: int, zone: str) -> int:
    """Return latest unix milliseconds that a time on a zone's clocks up to ``wall_ms`` can mean.

    Clocks that are put back show an hour twice, and what was written in the hour that they skip
    means nothing for certain: of the zone's offsets within the day before, the one that makes
    the moment latest is taken. So on the day of a change the answer may be the change too late;
    it is never too early.

    Args:
        wall_ms: milliseconds from 1970-01-01 00:00 on those clocks.
        zone: IANA name.
    """
    if zone == "UTC":
        return wall_ms
    if not _FIRST <= wall_ms < _LAST:
        return wall_ms + DAY_MS  # years that datetime does not have
    wall = _EPOCH + timedelta(milliseconds=wall_ms)
    offsets = (
        moment.replace(tzinfo=ZoneInfo(zone), fold=fold).utcoffset()
        for moment in (wall, wall - timedelta(days=1))
        for fold in (0, 1)
    )
    least = min(offset for offset in offsets if offset is not None)
    return wall_ms - least // timedelta(milliseconds=1)


def past_before(cutoff_ms: int, kind: str, zone: str) -> str:
    """Return the time of a column before which every row is past, as its canonical literal.

    Of a zone whose clocks were changed within two days before, the smallest offset counts: what is
    certain is hidden, at most an hour or two too late.

    Args:
        cutoff_ms: unix ms; rows of before it are past.
        kind: canonical SQL type: DATE or one of the TIMESTAMP types.
        zone: IANA name of the zone of times in a column without one.
    """
    wall = cutoff_ms
    if kind not in ZONED:
        wall += min(_offset_ms(cutoff_ms - days * DAY_MS, zone) for days in range(3))
    if kind == "DATE":  # a day is past when it is over
        wall = wall // DAY_MS * DAY_MS
    moment = _EPOCH + timedelta(seconds=wall // 1_000)
    return str(canonical(kind, moment.date() if kind == "DATE" else moment))


def _offset_ms(at_ms: int, zone: str) -> int:
    moment = datetime.fromtimestamp(at_ms / 1_000, ZoneInfo(zone))
    offset = moment.utcoffset()
    assert offset is not None  # a zone has one
    return offset // timedelta(milliseconds=1)


def end_of(groups: Mapping[str, str | None]) -> int:
    """Return the end (exclusive) of the time that a name's groups give, wall-clock milliseconds.

    Args:
        groups: year, month, day, hour -> text; each is a number (``2013``, ``1``, ``05``) beside
            the coarser ones, or the whole date up to its unit (``2013-01-05``, ``20130105``).

    Raises:
        ValueError: they give no time; the text says why.
    """
    given = {unit: text for unit in UNITS if (text := groups.get(unit)) is not None}
    if not given:
        raise ValueError("has no year, month, day or hour")
    numbers: dict[str, int] = {}
    for unit, text in given.items():
        for name, number in _numbers(unit, text).items():
            if numbers.setdefault(name, number) != number:
                raise ValueError(f"says two different things of its {name}")
    unit = [name for name in UNITS if name in given][-1]
    needed = UNITS[: UNITS.index(unit) + 1]
    lacking = [name for name in needed if name not in numbers]
    if lacking:
        raise ValueError(f"gives {_a(unit)} without its {lacking[0]}")
    return _end(unit, [numbers[name] for name in needed])


def _numbers(unit: str, text: str) -> dict[str, int]:
    whole = _WHOLE[unit].fullmatch(text)
    if whole is not None:
        return dict(zip(UNITS, map(int, whole.groups()), strict=False))
    if unit != "year" and _OWN.fullmatch(text) is not None:
        return {unit: int(text)}
    raise ValueError(f"has {text!r} where {_a(unit)} should stand")


def _end(unit: str, numbers: list[int]) -> int:
    year, month, day, hour = (*numbers, *(0, 1, 1, 0)[len(numbers) :])
    first = days_from_civil(year, month, day)
    if not 1 <= month <= 12 or civil_from_days(first) != (year, month, day) or hour > 23:
        raise ValueError("is no date of the calendar")
    if unit == "year":
        return days_from_civil(year + 1, 1, 1) * DAY_MS
    if unit == "month":
        return days_from_civil(year + month // 12, month % 12 + 1, 1) * DAY_MS
    return (first + 1) * DAY_MS if unit == "day" else first * DAY_MS + (hour + 1) * 3_600_000


def _a(unit: str) -> str:
    return f"an {unit}" if unit == "hour" else f"a {unit}"


def without(column: str) -> str:
    """Return the reason for parts of which some rows have no time."""
    return f"has rows without {column} (null)"


def latest_of(kind: str) -> Callable[[Stats, str], int]:
    """Return a reader of the latest wall-clock time in a part's statistics, in ms."""
    key = bound_key(kind)
    # A day is past when it is over.
    beyond = DAY_MS if kind == "DATE" else 0

    def latest(stats: Stats, column: str) -> int:
        bounds = stats.get(column)
        if bounds is None:
            raise ValueError(f"has no statistics of {column}")
        _, high, nulls = bounds
        if nulls:
            raise ValueError(without(column))
        if high is None or key is None:
            raise ValueError(f"has no upper bound of {column}")
        try:
            nanoseconds = int(key(canonical(kind, high)))
        except (ValueError, TypeError):
            raise ValueError(f"has statistics of {column} that are no {kind}") from None
        return -(-nanoseconds // 1_000_000) + beyond

    return latest
