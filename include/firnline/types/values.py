"""Values of SQL types in JSON: literals of predicates and bounds of statistics.

| type | JSON |
| --- | --- |
| whole numbers | number |
| ``FLOAT``, ``DOUBLE`` | number; NaN and infinity have no form |
| ``DECIMAL`` | string with all digits of the scale, ``"1.50"`` |
| ``BOOLEAN`` | ``true``, ``false`` |
| ``VARCHAR`` | string |
| ``DATE`` | ``"YYYY-MM-DD"``, years 0001 to 9999 |
| ``TIMESTAMP…`` | ``"YYYY-MM-DDTHH:MM:SS.ffffff"``, with ``Z`` for the types with a zone |
| ``UUID`` | lower-case string; literals only |

Other types have neither literals nor bounds. A time without a zone is in UTC everywhere.
"""

from __future__ import annotations

import datetime
import math
import re
import struct
from collections.abc import Callable
from decimal import Context, Decimal, InvalidOperation
from functools import lru_cache
from typing import Any
from uuid import UUID

from firnline.errors import cut, quoted
from firnline.types.calendar import civil_from_days, date_text, days_from_civil, timestamp_text
from firnline.types.sql import SqlType, parse_sql_type

Scalar = str | int | float | bool | None
"""A bound of statistics in JSON form; see docs/format.md for the form of each column type."""

Bounds = tuple[Scalar, Scalar, int]
"""(min, max, nulls) of a column. Both bounds are None when all values are null (nulls == rows)."""

Stats = dict[str, Bounds]
"""Bounds by column."""

_BITS = {"TINYINT": 8, "SMALLINT": 16, "INTEGER": 32, "BIGINT": 64, "HUGEINT": 128}
_RANGES = {name: (-(1 << bits - 1), (1 << bits - 1) - 1) for name, bits in _BITS.items()}
_RANGES |= {f"U{name}": (0, (1 << bits) - 1) for name, bits in _BITS.items()}
# DuckDB's HUGEINT has no -2**127.
_RANGES["HUGEINT"] = (-(2**127) + 1, 2**127 - 1)

_NANOSECONDS = {
    "TIMESTAMP_S": 1_000_000_000,
    "TIMESTAMP_MS": 1_000_000,
    "TIMESTAMP": 1_000,
    "TIMESTAMP_NS": 1,
    "TIMESTAMP WITH TIME ZONE": 1_000,
    "TIMESTAMPTZ_NS": 1,
}
"""Type -> its resolution in nanoseconds."""

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_DAY_NS = 86_400_000_000_000
_FLOAT_DIGITS = 15
"""Decimal digits of which no two numbers have the same float."""
_EXACT = Context(prec=1_000)
"""Precise enough for any number that ``_number`` accepts; the default rounds at 28 digits."""
_TIME = re.compile(
    r"(?P<date>\d{4}-\d{2}-\d{2})"
    r"(?:[T ](?P<hour>\d{2}):(?P<minute>\d{2})(?::(?P<second>\d{2})(?:\.(?P<fraction>\d{1,9}))?)?"
    r"\s*(?P<zone>Z|[+-]\d{2}(?::?\d{2})?)?)?",
    re.ASCII,
)


def canonical(sql_type: str, value: object) -> Scalar:
    """Convert a value to the JSON form of its column's type.

    Args:
        sql_type: canonical type name.
        value: JSON scalar, or the Python object that Arrow and DuckDB return for the type.

    Raises:
        ValueError: the type has no literals, or cannot hold this value exactly. The message is the
            end of a sentence ("1.5 is not a whole number").
    """
    kind = _parse(sql_type)
    convert = None if kind is None else _CONVERT.get(kind.name)
    if kind is None or convert is None:
        raise ValueError(f"values of type {sql_type} cannot be compared")
    return convert(kind, value)


ZONED = ("TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ_NS")
"""Types of moments; other times are those of some zone's clocks."""
WITHOUT_BOUNDS = frozenset({"FLOAT", "DOUBLE"})
"""Types of which a footer has no bounds that hold for every value: many writers leave NaN out,
which in SQL is greater than every number."""


@lru_cache(maxsize=4096)
def bound_key(sql_type: str) -> Callable[[Any], Any] | None:
    """Return a sort key for values in canonical form, as DuckDB orders them; None if unordered.

    The key raises ValueError or TypeError for a value that is not in canonical form.
    """
    kind = _parse(sql_type)
    if kind is None or kind.name not in _CONVERT:
        return None
    if kind.name in _NANOSECONDS:
        return parse_nanoseconds
    return _KEYS.get(kind.name, _same)


def literal_sql(sql_type: str, value: Scalar) -> str:
    """Return a value in canonical form as a DuckDB expression of the column's type."""
    kind = _parse(sql_type)
    text = text_of(sql_type, value)
    if isinstance(value, bool):
        return text
    pieces = ["'" + piece.replace("'", "''") + "'" for piece in text.split("\0")]
    # A NUL ends the statement for DuckDB's parser.
    quoted = f"({' || chr(0) || '.join(pieces)})" if len(pieces) > 1 else pieces[0]
    return quoted if kind is None or kind.name == "VARCHAR" else f"CAST({quoted} AS {kind})"


def text_of(sql_type: str, value: Scalar) -> str:
    """Return a value in canonical form as the text that DuckDB casts to the column's type."""
    kind = _parse(sql_type)
    if isinstance(value, bool):
        return str(value).lower()
    text = str(value)
    if kind is not None and kind.name in _NANOSECONDS:
        return text.replace("T", " ").replace("Z", "+00")
    return text


@lru_cache(maxsize=4096)
def _parse(sql_type: str) -> SqlType | None:
    return parse_sql_type(sql_type)


def _not_a(value: object, what: str) -> ValueError:
    return ValueError(f"{quoted(value)} is not {what}")


def _whole(kind: SqlType, value: object) -> Scalar:
    number = _number(value)
    if number != number.to_integral_value():
        raise ValueError(f"{cut(str(value))} is not a whole number, as {kind} needs")
    low, high = _RANGES[kind.name]
    if not low <= number <= high:
        raise ValueError(f"{cut(str(value))} is out of the range of {kind}")
    return int(number)


def _number(value: object) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, int | float | str | Decimal):
        raise _not_a(value, "a number")
    if isinstance(value, float) and not _is_certain(value):
        raise ValueError(
            f"{value} is a floating-point number of so many digits that another one may have been "
            "meant: write it as a text or as a decimal"
        )
    try:
        number = Decimal(repr(value) if isinstance(value, float) else value)
    except InvalidOperation:
        raise _not_a(value, "a number") from None
    # The exponent is bounded before anything expands it: 1e999999999 would fill the memory.
    if not number.is_finite() or abs(number.adjusted()) > 400:
        raise ValueError(f"{quoted(value)} is not a finite number that a column can hold")
    return number


def _is_certain(value: float) -> bool:
    """Return True if no other number of as many digits has the same float; it may be no number."""
    if not math.isfinite(value):
        return True  # refused as what it is
    number = Decimal(repr(value)).normalize()
    return len(number.as_tuple().digits) <= _FLOAT_DIGITS and number.adjusted() < _FLOAT_DIGITS


def _decimal(kind: SqlType, value: object) -> Scalar:
    number = _number(value)
    precision, scale = kind.numbers
    unscaled = _EXACT.multiply(number, Decimal(10) ** scale)
    if unscaled != unscaled.to_integral_value() or abs(unscaled) >= 10**precision:
        raise ValueError(f"{value} does not fit {kind} exactly")
    digits = str(abs(int(unscaled))).rjust(scale + 1, "0")
    text = f"{digits[: len(digits) - scale]}.{digits[len(digits) - scale :]}" if scale else digits
    return f"-{text}" if unscaled < 0 else text


def _float(kind: SqlType, value: object) -> Scalar:
    number = float(_number(value)) if not isinstance(value, float) else value
    if kind.name == "FLOAT" and math.isfinite(number):
        try:
            number = struct.unpack("<f", struct.pack("<f", number))[0]
        except OverflowError:
            raise ValueError(f"{cut(str(value))} is out of the range of FLOAT") from None
    return number


def _boolean(_kind: SqlType, value: object) -> Scalar:
    if not isinstance(value, bool):
        raise _not_a(value, "true or false")
    return value


def _text(_kind: SqlType, value: object) -> Scalar:
    if not isinstance(value, str):
        raise _not_a(value, "a text in quotes")
    return value


def _uuid(_kind: SqlType, value: object) -> Scalar:
    if isinstance(value, UUID):
        return str(value)
    try:
        return str(UUID(value if isinstance(value, str) else ""))
    except ValueError:
        raise _not_a(value, "a UUID") from None


def _date(kind: SqlType, value: object) -> Scalar:
    nanoseconds = _nanoseconds_of(value)
    if nanoseconds % _DAY_NS:
        raise ValueError(f"{value} is a time of day, and {kind} holds only dates")
    return date_text(nanoseconds // _DAY_NS)


def _timestamp(kind: SqlType, value: object) -> Scalar:
    nanoseconds = _nanoseconds_of(value)
    if nanoseconds % _NANOSECONDS[kind.name]:
        raise ValueError(f"{value} is finer than {kind} can hold")
    text = timestamp_text(nanoseconds // 1_000)
    if nanoseconds % 1_000:
        text += f"{nanoseconds % 1_000:03d}"
    return text + ("Z" if kind.name in ZONED else "")


def _nanoseconds_of(value: object) -> int:
    if isinstance(value, datetime.datetime):
        aware = value.replace(tzinfo=datetime.UTC) if value.tzinfo is None else value
        since = aware - _EPOCH
        # pandas has nanoseconds, which datetime does not hold.
        fine = since.microseconds * 1_000 + getattr(value, "nanosecond", 0)
        return since.days * _DAY_NS + since.seconds * 1_000_000_000 + fine
    if isinstance(value, datetime.date):
        return parse_nanoseconds(value.isoformat())
    return parse_nanoseconds(value)


def parse_nanoseconds(value: object) -> int:
    """Return the nanoseconds of a date or timestamp text since 1970-01-01T00:00Z."""
    if not isinstance(value, str):
        raise _no_time(value)
    return _text_nanoseconds(value)


@lru_cache(maxsize=4096)
def _text_nanoseconds(value: str) -> int:
    """Return the same for a text: a plan asks for that of a bound or literal several times."""
    match = _TIME.fullmatch(value)
    if match is None:
        raise _no_time(value)
    year, month, day = (int(piece) for piece in match["date"].split("-"))
    days = days_from_civil(year, month, day)
    hour, minute, second = (int(match[name] or 0) for name in ("hour", "minute", "second"))
    if civil_from_days(days) != (year, month, day) or hour > 23 or minute > 59 or second > 59:
        raise ValueError(f"{quoted(value)} is not in the calendar")
    seconds = hour * 3600 + minute * 60 + second - _offset_seconds(match["zone"] or "Z")
    return days * _DAY_NS + seconds * 1_000_000_000 + int((match["fraction"] or "").ljust(9, "0"))


def _no_time(value: object) -> ValueError:
    return ValueError(
        f"{quoted(value)} is not a date or time such as 2013-01-31 or 2013-01-31 12:00"
    )


def _offset_seconds(zone: str) -> int:
    if zone == "Z":
        return 0
    minutes = int(zone[1:3]) * 60 + int(zone[3:].lstrip(":") or 0)
    return -60 * minutes if zone[0] == "-" else 60 * minutes


def _same(value: object) -> object:
    return value


def _nan_last(value: float) -> tuple[bool, float]:
    # DuckDB: NaN equals NaN and is greater than everything else.
    return (True, 0.0) if math.isnan(value) else (False, value)


_CONVERT: dict[str, Callable[[SqlType, object], Scalar]] = {
    **dict.fromkeys(_RANGES, _whole),
    **dict.fromkeys(_NANOSECONDS, _timestamp),
    "FLOAT": _float,
    "DOUBLE": _float,
    "DECIMAL": _decimal,
    "BOOLEAN": _boolean,
    "VARCHAR": _text,
    "DATE": _date,
    "UUID": _uuid,
}
_KEYS: dict[str, Callable[[Any], Any]] = {
    "FLOAT": _nan_last,
    "DOUBLE": _nan_last,
    "DECIMAL": Decimal,
    "DATE": parse_nanoseconds,
}
