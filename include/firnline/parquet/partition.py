"""Partition transforms: the directory of a row, and the time span of a directory's rows.

Times are in UTC; a timestamp without a zone is taken as UTC. A null is ``__null__``, which no
value collides with because values are quoted (firnline.paths). Buckets are
``(hash & 0x7fffffff) % n`` with the hash of firnline.types.murmur3.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from firnline.errors import UsageError
from firnline.parquet.part import PartitionLevel
from firnline.paths import NULL_VALUE, quote_value
from firnline.types.calendar import (
    civil_from_days,
    date_text,
    days_from_civil,
    timestamp_text,
    year_text,
)
from firnline.types.hashes import BUCKET_MASK, Hashes, HashRange
from firnline.types.murmur3 import can_hash, form_of_sql, hash_column
from firnline.units import DAY_MS

_MAX_SEGMENT = 255
"""Bytes of one path segment at most, the limit of file systems and stores on top of them."""
_IDENTITY_TAKES = "texts, numbers, booleans, dates, times and UUIDs"
_UNITS_PER_DAY = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}
_HOUR_MS = 3_600_000
_VALUE = {  # the transforms of time
    "year": re.compile(r"(-?\d{4,})"),
    "month": re.compile(r"(-?\d{4,})-(\d\d)"),
    "day": re.compile(r"(-?\d{4,})-(\d\d)-(\d\d)"),
    "hour": re.compile(r"(-?\d{4,})-(\d\d)-(\d\d)-(\d\d)"),
}

Codes = npt.NDArray[np.int64]


def partition_batches(
    table: pa.Table, fields: Sequence[PartitionLevel]
) -> list[tuple[str, pa.Table]]:
    """Split rows by partition; the order of the rows within a partition is kept.

    Args:
        table: rows, with columns decoded (no dictionaries).
        fields: levels of the directory, outermost first; without any there is one partition ``""``.

    Returns:
        (partition path, rows) per partition that has rows, sorted by path.

    Raises:
        UsageError: a column is missing, has a type that the transform does not accept, or a value
            too long for a directory name.
    """
    if table.num_rows == 0:
        return []
    if not fields:
        return [("", table)]
    codes, paths = partition_codes(table, fields)
    if len(paths) == 1:
        return [(paths[0], table)]
    order = np.argsort(codes, kind="stable")
    counts = np.bincount(codes, minlength=len(paths))
    ends = np.cumsum(counts)
    in_order = table.take(pa.array(order))
    parts = [
        (path, in_order.slice(int(end - count), int(count)))
        for path, end, count in zip(paths, ends, counts, strict=True)
    ]
    return sorted(parts, key=lambda part: part[0])


def partition_codes(table: pa.Table, fields: Sequence[PartitionLevel]) -> tuple[Codes, list[str]]:
    """Return for each row the place of its partition in a list of paths, and the list.

    Args:
        table: rows, at least one, with columns decoded; the columns of the fields suffice.
        fields: levels of the directory, at least one.

    Raises UsageError: see ``partition_batches``.
    """
    codes, paths = _segments(table, fields[0])
    for field in fields[1:]:
        inner, labels = _segments(table, field)
        pairs, codes = np.unique(codes * len(labels) + inner, return_inverse=True)
        paths = [f"{paths[pair // len(labels)]}/{labels[pair % len(labels)]}" for pair in pairs]
    # Only what occurs gets a path.
    used, codes = np.unique(codes, return_inverse=True)
    return codes, [paths[code] for code in used]


def span_of(partition: str, fields: Sequence[PartitionLevel]) -> dict[str, tuple[int, int]] | None:
    """Return the time spans of the rows in a partition, from its time transforms.

    Returns:
        column -> (start, end), unix milliseconds, end exclusive; every non-null value of the
        column lies in it. Columns without a time transform, and null partitions, are left out.
        None when the path is not of this layout.
    """
    segments = partition.split("/") if partition else []
    if len(segments) != len(fields):
        return None
    spans: dict[str, tuple[int, int]] = {}
    for segment, field in zip(segments, fields, strict=True):
        label, mark, value = segment.partition("=")
        if not mark or label != quote_value(field.label):
            return None
        if field.transform not in _VALUE or value == NULL_VALUE:
            continue
        span = _span(field.transform, value)
        if span is None:
            return None
        start, end = spans.get(field.column, span)
        spans[field.column] = (max(start, span[0]), min(end, span[1]))
    return spans


def buckets_of(
    partition: str, fields: Sequence[PartitionLevel], columns: Mapping[str, str]
) -> Hashes:
    """Return what a partition says of the hashes of rows that ``partition_batches`` put there.

    Not of any other rows: an older layout may have had other numbers of buckets, and another client
    another hash, under the same names.

    Args:
        partition: path, made with these fields.
        fields: as given to ``partition_batches``.
        columns: SQL type by column of the rows.
    """
    ranges: list[HashRange] = []
    segments = partition.split("/")
    for segment, field in zip(segments, fields, strict=True) if fields else ():
        form = None if field.buckets is None else form_of_sql(columns[field.column])
        if field.buckets is None or form is None:
            continue
        value = segment.partition("=")[2]
        bucket = None if value == NULL_VALUE else int(value)
        ranges.append(HashRange((field.column,), (form,), field.buckets, bucket, bucket))
    return tuple(ranges)


def _segments(table: pa.Table, field: PartitionLevel) -> tuple[Codes, list[str]]:
    """Return the code per row and the path segment per code of one level."""
    if field.column not in table.column_names:
        raise UsageError(
            f"partition field {field} needs column {field.column!r}, "
            f"and the rows have {', '.join(table.column_names)}",
            next_step="add the column to the rows or correct partition_by in the settings",
        )
    column = table.column(field.column)
    if field.transform == "bucket":
        codes, values = _buckets(column, field)
    elif field.transform == "identity":
        codes, values = _identity(column, field)
    else:
        codes, values = _times(column, field)
    segments = [f"{quote_value(field.label)}={value}" for value in values]
    for segment in segments:
        if len(segment) > _MAX_SEGMENT:
            raise UsageError(
                f"partition field {field} would make a directory name of {len(segment)} bytes "
                f"({segment[:40]}...), and the limit is {_MAX_SEGMENT}",
                next_step=f'partition by "bucket(16, {field.column})" instead',
            )
    return codes, segments


def _wrong_type(field: PartitionLevel, column: pa.ChunkedArray, takes: str) -> UsageError:
    return UsageError(
        f"partition field {field} takes {takes}, and column {field.column!r} is {column.type}",
        next_step="choose another transform or another column in partition_by",
    )


def _encode(
    values: npt.NDArray[np.int64], column: pa.ChunkedArray, name: Callable[[int], str]
) -> tuple[Codes, list[str]]:
    """Return codes and texts of whole numbers; several numbers may have one text."""
    encoded = pa.array(values).dictionary_encode()  # hashing; np.unique would sort
    codes = encoded.indices.to_numpy()
    texts = [name(value) for value in encoded.dictionary.to_pylist()]
    if column.null_count:
        codes = codes.copy()
        codes[column.is_null().to_numpy()] = len(texts)
        texts.append(NULL_VALUE)
    labels = {text: index for index, text in enumerate(dict.fromkeys(texts))}
    return np.array([labels[text] for text in texts], np.int64)[codes], list(labels)


def _buckets(column: pa.ChunkedArray, field: PartitionLevel) -> tuple[Codes, list[str]]:
    if field.buckets is None or not can_hash(column.type):
        raise _wrong_type(field, column, "whole numbers, decimals, times, strings or bytes")
    hashes = hash_column(column).astype(np.int64) & BUCKET_MASK
    return _encode(hashes % field.buckets, column, str)


def _times(column: pa.ChunkedArray, field: PartitionLevel) -> tuple[Codes, list[str]]:
    kind = column.type
    if pa.types.is_timestamp(kind):
        per_day, storage = _UNITS_PER_DAY[kind.unit], pa.int64()
    elif kind == pa.date32():
        per_day, storage = 1, pa.int32()
    elif kind == pa.date64():
        per_day, storage = _UNITS_PER_DAY["ms"], pa.int64()
    else:
        raise _wrong_type(field, column, "a date or a timestamp")
    numbers = column.cast(storage).fill_null(0).to_numpy().astype(np.int64)
    if field.transform != "hour":
        return _encode(numbers // per_day, column, lambda day: _day_text(field.transform, day))
    hours = numbers * 24 if per_day == 1 else numbers // (per_day // 24)
    return _encode(hours, column, lambda hour: f"{_day_text('day', hour // 24)}-{hour % 24:02d}")


def _identity(column: pa.ChunkedArray, field: PartitionLevel) -> tuple[Codes, list[str]]:
    kind = column.type
    name: Callable[[Any], str] | None = None
    if pa.types.is_date(kind):
        column, name = column.cast(pa.date32()).cast(pa.int32()), date_text
    elif pa.types.is_timestamp(kind):
        column, name = column.cast(pa.int64()), _timestamp_name(kind)
    elif isinstance(kind, pa.UuidType):
        column = pa.chunked_array([chunk.storage for chunk in column.chunks], kind.storage_type)
        name = _uuid_text
    elif pa.types.is_nested(kind) or isinstance(kind, pa.BaseExtensionType):
        raise _wrong_type(field, column, _IDENTITY_TAKES)
    encoded = column.combine_chunks().dictionary_encode()
    values = encoded.dictionary.to_pylist()
    texts = [quote_value(name(v) if name else _text(field, column, v)) for v in values]
    codes = encoded.indices.fill_null(len(texts)).to_numpy().astype(np.int64)
    if column.null_count:
        texts.append(NULL_VALUE)
    return codes, texts


def _timestamp_name(kind: pa.DataType) -> Callable[[int], str]:
    zone = "" if kind.tz is None else "Z"
    if kind.unit == "ns":
        return lambda value: f"{timestamp_text(value // 1_000)}{value % 1_000:03d}{zone}"
    factor = _UNITS_PER_DAY["us"] // _UNITS_PER_DAY[kind.unit]
    return lambda value: timestamp_text(value * factor) + zone


def _uuid_text(value: bytes) -> str:
    return str(UUID(bytes=value))


def _text(field: PartitionLevel, column: pa.ChunkedArray, value: object) -> str:
    """Return the text of a non-null value for the directory name, before quoting."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime.time):
        return value.isoformat()
    if isinstance(value, str | int | float | Decimal | UUID):
        return str(value)
    raise _wrong_type(field, column, _IDENTITY_TAKES)


def _day_text(transform: str, day: int) -> str:
    year, month, _ = civil_from_days(day)
    if transform == "year":
        return year_text(year)
    if transform == "month":
        return f"{year_text(year)}-{month:02d}"
    return date_text(day)


def _span(transform: str, value: str) -> tuple[int, int] | None:
    match = _VALUE[transform].fullmatch(value)
    if match is None:
        return None
    given = tuple(int(text) for text in match.groups())
    year, month, day, hour = given + (0, 1, 1, 0)[len(given) :]
    first = days_from_civil(year, month, day)
    start = first * DAY_MS + hour * _HOUR_MS
    ends = {
        "year": days_from_civil(year + 1, 1, 1) * DAY_MS,
        "month": days_from_civil(year + month // 12, month % 12 + 1, 1) * DAY_MS,
        "day": start + DAY_MS,
        "hour": start + _HOUR_MS,
    }
    written = _day_text(transform if transform != "hour" else "day", first)
    # A month 13 or a June 31 formats to another text than the given one.
    if hour > 23 or not value.startswith(written):
        return None
    return start, ends[transform]
