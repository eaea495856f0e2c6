"""Statistics of a part: for each column, bounds of its values and its number of nulls.

Values have the JSON form of ``types.values``. A bound may be wider than the values: texts are cut
at 64 bytes (the max rounded up), nanoseconds are rounded outward to microseconds. A text that
cannot be rounded up has a min and no max: it is unbounded above. A column is left out if its type
has no bounds, if it holds NaN, infinity or a time outside of the years 1 to 9999, or if the footer
is incomplete. A column that is left out may hold any value.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from firnline.types.calendar import date_text, days_from_civil, timestamp_text
from firnline.types.values import Bounds, Scalar, Stats, bound_key

TEXT_BYTES = 64
"""Longest text bound, in bytes of UTF-8."""

_FIRST_DAY = days_from_civil(1, 1, 1)
_LAST_DAY = days_from_civil(9999, 12, 31)
_PER_US = {"s": 1_000_000, "ms": 1_000, "us": 1}
_PARQUET_UNITS = {"milliseconds": "ms", "microseconds": "us", "nanoseconds": "ns"}


class _Range(NamedTuple):
    """Smallest and largest value of a column, before conversion to JSON form."""

    low: Any
    high: Any
    kind: str
    """number, text, decimal, days, none, or a unit of time."""
    zoned: bool = False


def from_table(table: pa.Table, columns: Iterable[str]) -> Stats:
    """Return the statistics of rows in memory.

    Args:
        table: rows in the types that a part is written in (``types.arrow.to_arrow``).
        columns: names of the wanted columns; unknown ones are ignored.
    """
    stats: Stats = {}
    for name in dict.fromkeys(columns):
        if name not in table.column_names:
            continue
        column = table.column(name)
        if not _has_bounds(column.type):
            continue
        if column.null_count == len(column):
            stats[name] = (None, None, len(column))
            continue
        bounds = _bounds(_column_range(column))
        if bounds is not None:
            stats[name] = (*bounds, column.null_count)
    return stats


def from_footer(metadata: pq.FileMetaData, columns: Iterable[str]) -> Stats:
    """Return statistics from a Parquet footer, of the columns with complete ones.

    Floats are left out: a footer does not state whether there are NaNs, which no bound covers.
    """
    leaves = _leaves(metadata)
    stats: Stats = {}
    for name in dict.fromkeys(columns):
        if name not in leaves:
            continue
        bounds = _footer_column(metadata, leaves[name])
        if bounds is not None:
            stats[name] = bounds
    return stats


def of_row_groups(
    metadata: pq.FileMetaData, columns: Sequence[str]
) -> list[tuple[Bounds | None, ...]]:
    """Return for each row group the bounds of some columns.

    None for a column that may hold any value in it: see the head of this module.
    """
    leaves = _leaves(metadata)
    places = [leaves.get(column) for column in columns]
    return [
        tuple(None if at is None else _footer_column(metadata, at, [number]) for at in places)
        for number in range(metadata.num_row_groups)
    ]


def union(one: Stats, other: Stats, schema: Mapping[str, str]) -> Stats:
    """Return the statistics of both sets of rows; only columns that both have are kept.

    Args:
        one: statistics.
        other: statistics.
        schema: column -> SQL type, by which bounds are compared.
    """
    merged: Stats = {}
    for name, (low, high, nulls) in one.items():
        key = bound_key(schema.get(name, ""))
        if name not in other or key is None:
            continue
        other_low, other_high, other_nulls = other[name]
        total = nulls + other_nulls
        if low is None or other_low is None:  # one side has only nulls
            whole = (other_low, other_high) if low is None else (low, high)
            merged[name] = (*whole, total)
            continue
        unbounded = high is None or other_high is None
        top = None if unbounded else max(high, other_high, key=key)
        merged[name] = (min(low, other_low, key=key), top, total)
    return merged


def _has_bounds(kind: pa.DataType) -> bool:
    return not isinstance(kind, pa.BaseExtensionType) and any(
        matches(kind)
        for matches in (
            pa.types.is_integer,
            pa.types.is_floating,
            pa.types.is_boolean,
            pa.types.is_string,
            pa.types.is_large_string,
            pa.types.is_date32,
            pa.types.is_timestamp,
            pa.types.is_decimal,
        )
    )


def _column_range(column: pa.ChunkedArray) -> _Range:
    kind = column.type
    ends = pc.min_max(column)
    low, high = ends["min"], ends["max"]
    if pa.types.is_timestamp(kind):
        return _Range(low.value, high.value, kind.unit, kind.tz is not None)
    if pa.types.is_date32(kind):
        return _Range(low.value, high.value, "days")
    if pa.types.is_floating(kind):
        # min_max ignores NaN; a column with NaN has no bounds.
        finite = pc.all(pc.is_finite(column)).as_py()
        return _Range(low.as_py(), high.as_py(), "number" if finite else "none")
    name = "decimal" if pa.types.is_decimal(kind) else "number"
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        name = "text"
    return _Range(low.as_py(), high.as_py(), name)


def _bounds(extent: _Range) -> tuple[Scalar, Scalar] | None:
    """Convert to JSON form, rounded outward; None when there is no such form."""
    low, high, kind, zoned = extent
    if kind == "number":
        return low, high
    if kind == "text":
        return _cut(low), _cut_up(high)
    if kind == "decimal":
        return format(Decimal(low), "f"), format(Decimal(high), "f")
    if kind == "days":
        return (date_text(low), date_text(high)) if _in_calendar(low, high) else None
    if kind == "ns":
        low, high = low // 1_000, -(-high // 1_000)
    elif kind in _PER_US:
        low, high = low * _PER_US[kind], high * _PER_US[kind]
    else:
        return None
    if not _in_calendar(low // 86_400_000_000, high // 86_400_000_000):
        return None
    zone = "Z" if zoned else ""
    return timestamp_text(low) + zone, timestamp_text(high) + zone


def _in_calendar(low: int, high: int) -> bool:
    return low >= _FIRST_DAY and high <= _LAST_DAY


def _cut(text: str) -> str:
    """Return the longest prefix of at most 64 bytes, which is not greater than the text."""
    return text.encode()[:TEXT_BYTES].decode(errors="ignore")


def _cut_up(text: str) -> str | None:
    """Return a text of at most 64 bytes that is not less than the text; None if there is none."""
    start = _cut(text)
    if start == text:
        return text
    while start:
        last = ord(start[-1]) + 1
        start = start[:-1]
        last = 0xE000 if last == 0xD800 else last  # surrogates are not characters
        if last <= 0x10FFFF:
            raised = start + chr(last)
            if len(raised.encode()) <= TEXT_BYTES:
                return raised
    return None


def _leaves(metadata: pq.FileMetaData) -> dict[str, int]:
    """Return top-level columns without children -> index of their column chunk."""
    schema = metadata.schema
    leaves: dict[str, int] = {}
    for index in range(metadata.num_columns):
        leaf = schema.column(index)
        # A name may contain dots: only a leaf whose path is its name is at the top level.
        if leaf.path == leaf.name and leaf.max_repetition_level == 0:
            leaves[leaf.name] = index
    return leaves


def _footer_column(
    metadata: pq.FileMetaData, index: int, groups: Sequence[int] | None = None
) -> Bounds | None:
    """Return the bounds of a column chunk; ``groups``: of some row groups, None for all."""
    ranges: list[_Range] = []
    nulls = 0
    physical = metadata.schema.column(index).physical_type
    for group in range(metadata.num_row_groups) if groups is None else groups:
        chunk = metadata.row_group(group).column(index)
        if chunk.physical_type != physical:
            return None  # a damaged footer: its statistics would make Arrow abort the process
        statistics = chunk.statistics
        if statistics is None or not statistics.has_null_count:
            return None
        nulls += statistics.null_count
        if statistics.null_count == chunk.num_values:
            continue
        extent = _chunk_range(statistics)
        if extent is None:
            return None
        ranges.append(extent)
    if not ranges:
        return (None, None, nulls)
    low = min(extent.low for extent in ranges)
    high = max(extent.high for extent in ranges)
    bounds = _bounds(ranges[0]._replace(low=low, high=high))
    return None if bounds is None else (*bounds, nulls)


def _chunk_range(statistics: pq.Statistics) -> _Range | None:
    """Return the range of one column chunk; None if the type or the footer has no bounds."""
    if not statistics.has_min_max:
        return None
    kind = json.loads(statistics.logical_type.to_json())
    name, physical = kind["Type"], statistics.physical_type
    low, high = statistics.min_raw, statistics.max_raw
    if name == "Timestamp" and physical == "INT64":
        return _Range(low, high, _PARQUET_UNITS[kind["timeUnit"]], kind["isAdjustedToUTC"])
    if name == "Date":
        return _Range(low, high, "days")
    if name == "String":
        try:
            return _Range(low.decode(), high.decode(), "text")
        except UnicodeDecodeError:
            return None
    if name == "Decimal":
        return _Range(statistics.min, statistics.max, "decimal")
    if name == "Int" or (name == "None" and physical in ("INT32", "INT64", "BOOLEAN")):
        return _Range(statistics.min, statistics.max, "number")
    return None


__all__ = [
    "TEXT_BYTES",
    "Stats",
    "bound_key",
    "from_footer",
    "from_table",
    "of_row_groups",
    "union",
]
