"""The proleptic Gregorian calendar in UTC, with whole numbers, for any year.

The standard library is limited to the years 1 to 9999; the times of DuckDB and Arrow are not.
"""

from __future__ import annotations

DAY_US = 86_400_000_000
"""Microseconds of a day."""


def days_from_civil(year: int, month: int, day: int) -> int:
    """Return the days of a date since 1970-01-01. The date is not checked."""
    year -= month <= 2
    era = year // 400
    year_of_era = year - era * 400
    day_of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return (
        era * 146_097
        + year_of_era * 365
        + year_of_era // 4
        - year_of_era // 100
        + (day_of_year - 719_468)
    )


def civil_from_days(days: int) -> tuple[int, int, int]:
    """Return the year, month and day of a number of days since 1970-01-01."""
    days += 719_468
    era, day_of_era = divmod(days, 146_097)
    year_of_era = (
        day_of_era - day_of_era // 1_460 + day_of_era // 36_524 - day_of_era // 146_096
    ) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted = (5 * day_of_year + 2) // 153
    month = shifted + (3 if shifted < 10 else -9)
    day = day_of_year - (153 * shifted + 2) // 5 + 1
    return year_of_era + era * 400 + (month <= 2), month, day


def year_text(year: int) -> str:
    """Return a year with at least four digits, and a minus sign before year 0."""
    return f"-{-year:04d}" if year < 0 else f"{year:04d}"


def date_text(days: int) -> str:
    """Format a number of days since 1970-01-01 as ``YYYY-MM-DD``."""
    year, month, day = civil_from_days(days)
    return f"{year_text(year)}-{month:02d}-{day:02d}"


def timestamp_text(microseconds: int) -> str:
    """Format microseconds since 1970-01-01T00:00Z as ``YYYY-MM-DDTHH:MM:SS.ffffff``."""
    days, rest = divmod(microseconds, DAY_US)
    seconds, fraction = divmod(rest, 1_000_000)
    hours, minutes = divmod(seconds // 60, 60)
    return f"{date_text(days)}T{hours:02d}:{minutes:02d}:{seconds % 60:02d}.{fraction:06d}"
