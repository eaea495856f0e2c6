"""Parse and format sizes and durations: ``512MiB`` to bytes, ``90d`` to milliseconds.

Both directions are exact: ``parse(format(x)) == x``. ``about_size`` rounds, for display.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal

from firnline.errors import UsageError, quoted

SIZE_UNITS: Mapping[str, int] = {
    "B": 1,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
    "TiB": 2**40,
}
"""Unit -> bytes; units are read in any letter case."""
DAY_MS = 86_400_000
DURATION_UNITS: Mapping[str, int] = {
    "ms": 1,
    "s": 1_000,
    "m": 60_000,
    "h": 3_600_000,
    "d": DAY_MS,
    "w": 604_800_000,
}
"""Unit -> milliseconds. No months and years: they have no fixed length."""

MAX_VALUE = 2**63 - 1
"""Largest accepted value: other readers of the log use 64-bit integers."""

_NUMBER = re.compile(r"\s*(?P<number>[0-9]{1,20}(?:\.[0-9]{1,20})?)\s*(?P<unit>[A-Za-z]*)\s*", re.A)
_LOWER_SIZES = {unit.lower(): factor for unit, factor in SIZE_UNITS.items()}


def parse_size(value: object) -> int:
    """Return the bytes of ``512MiB``, ``1.5GB``, ``100`` (plain numbers are bytes).

    Raises:
        UsageError: not a size, negative, or not a whole number of bytes.
    """
    return _parse(value, "size", _LOWER_SIZES | {"": 1}, "write bytes as 512MiB or 1.5GB")


def parse_duration(value: object) -> int:
    """Return the milliseconds of ``90d``, ``24h``, ``30m``, ``10s``, ``500ms``; a bare 0 is 0.

    Raises:
        UsageError: not a duration, negative, without a unit, or not whole milliseconds.
    """
    if value in (0, "0") and not isinstance(value, bool):
        return 0
    return _parse(value, "duration", DURATION_UNITS, "write a number and ms, s, m, h, d or w")


def _parse(value: object, what: str, units: Mapping[str, int], next_step: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        # The repr of a list from a settings file may be far longer than the file.
        shown = value if value is None or isinstance(value, bool) else type(value).__name__
        raise UsageError(f"{shown} is not a {what}", next_step=next_step)
    if isinstance(value, int) and abs(value) > MAX_VALUE:
        raise UsageError(f"a number beyond 64 bits is not a {what}", next_step=next_step)
    match = _NUMBER.fullmatch(str(value))
    if match is None:
        raise UsageError(f"{quoted(value)} is not a {what}", next_step=next_step)
    unit = match["unit"] if what == "duration" else match["unit"].lower()
    factor = units.get(unit)
    if factor is None:
        problem = "has no unit" if not unit else f"has the unknown unit {quoted(match['unit'])}"
        raise UsageError(f"the {what} {quoted(value)} {problem}", next_step=next_step)
    exact = Decimal(match["number"]) * factor
    if exact != int(exact):
        least = "byte" if what == "size" else "millisecond"
        raise UsageError(
            f"the {what} {quoted(value)} is not a whole {least} count", next_step=next_step
        )
    if exact > MAX_VALUE:
        raise UsageError(f"the {what} {quoted(value)} is out of range", next_step=next_step)
    return int(exact)


def format_size(size: int) -> str:
    """Return the shortest exact form: 536870912 -> ``512MiB``, 1500000000 -> ``1500MB``.

    Binary units are preferred to decimal ones where both are exact.
    """
    binary = _largest_divisor(size, [2**40, 2**30, 2**20, 2**10])
    factor = binary or _largest_divisor(size, [10**12, 10**9, 10**6, 10**3]) or 1
    return f"{size // factor}{_name(SIZE_UNITS, factor)}"


def format_duration(milliseconds: int) -> str:
    """Return the shortest exact form: 86400000 -> ``1d``, 5400000 -> ``90m``, 0 -> ``0s``."""
    if milliseconds == 0:
        return "0s"
    # Weeks are parsed and never written: a retention of 14 days is clearer than one of 2 weeks.
    factor = _largest_divisor(milliseconds, [DAY_MS, 3_600_000, 60_000, 1_000]) or 1
    return f"{milliseconds // factor}{_name(DURATION_UNITS, factor)}"


def _largest_divisor(value: int, factors: list[int]) -> int | None:
    return next((factor for factor in factors if value and value % factor == 0), None)


def _name(units: Mapping[str, int], factor: int) -> str:
    return next(name for name, value in units.items() if value == factor)


def about_size(size: int) -> str:
    """Return a size for display, rounded to one decimal: 353283113 -> ``336.9 MiB``."""
    if abs(size) < 1024:
        return f"{size} B"
    value, unit = float(size), "B"
    for name in ("KiB", "MiB", "GiB", "TiB"):
        value, unit = value / 1024, name
        if abs(value) < 1023.95:  # what would round to 1024.0 belongs to the next unit
            break
    return f"{value:.1f} {unit}"


def counted(count: int | None, noun: str) -> str:
    """Return a count with its noun: ``1 object``, ``2,000 objects``, ``? objects`` for None."""
    number = "?" if count is None else f"{count:,}"
    return f"{number} {noun}{'' if count == 1 else 's'}"


def about_duration(milliseconds: int) -> str:
    """Return a duration for display, in at most two units: 5,025,000 -> ``1h 23m``."""
    if abs(milliseconds) < 60_000:
        return f"{milliseconds}ms" if abs(milliseconds) < 1_000 else f"{milliseconds / 1000:.1f}s"
    seconds = abs(milliseconds) // 1000
    sign = "-" if milliseconds < 0 else ""
    for large, small, per_large, per_small in (
        ("d", "h", 86_400, 3_600),
        ("h", "m", 3_600, 60),
        ("m", "s", 60, 1),
    ):
        if seconds >= per_large:
            rest = seconds % per_large // per_small
            head = f"{sign}{seconds // per_large}{large}"
            return f"{head} {rest}{small}" if rest else head
    raise AssertionError("seconds is at least 60 here")  # pragma: no cover


def parse_utc(text: str) -> int:
    """Return the unix milliseconds of a time in ISO 8601, in UTC where it states no zone.

    At every door alike: times of tables are in UTC, and their days begin at midnight in UTC.

    Raises ValueError: it is no time.
    """
    moment = datetime.fromisoformat(text.strip())
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
