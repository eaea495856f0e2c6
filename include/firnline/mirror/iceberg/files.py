"""Parts as data files of a manifest: sizes, rows and bounds from the markers, no footer is read."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from typing import Any

from pyiceberg.conversions import to_bytes
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record
from pyiceberg.types import (
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    PrimitiveType,
    StringType,
    TimestampType,
    TimestamptzType,
)

from firnline.log.records import Marker
from firnline.types.values import Scalar, Stats, canonical, parse_nanoseconds

_EPOCH = date(1970, 1, 1).toordinal()
_AS_IN_MARKERS = (IntegerType, LongType, FloatType, DoubleType, StringType)
_TIMES = (TimestampType, TimestamptzType)


def data_file(
    url: str,
    marker: Marker,
    stats: Stats,
    columns: Mapping[str, str],
    schema: Schema,
    order: int | None = None,
) -> DataFile:
    """Return a part as a data file.

    Args:
        url: of the part.
        marker: of the part, with its rows.
        stats: its statistics, with the table's names and types.
        columns: column -> SQL type.
        schema: of the Iceberg table.
        order: number of the sort order in which its rows are; None: not known.
    """
    assert marker.n is not None, "see publish: such a part holds the mirror"
    ids = {field.name: field for field in schema.fields}
    nulls: dict[int, int] = {}
    low: dict[int, bytes] = {}
    high: dict[int, bytes] = {}
    for name, (first, last, missing) in stats.items():
        field = ids.get(name)
        if field is None or not isinstance(field.field_type, PrimitiveType):
            continue
        nulls[field.field_id] = missing
        for bounds, value in ((low, first), (high, last)):
            limit = None if value is None else bound(field.field_type, columns[name], value)
            if limit is not None:
                bounds[field.field_id] = limit
    return _file(url, marker.n, marker.b, nulls, low, high, order)


def _file(
    url: str,
    rows: int,
    size: int,
    nulls: Mapping[int, int],
    low: Mapping[int, bytes],
    high: Mapping[int, bytes],
    order: int | None = None,
) -> DataFile:
    made = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=url,
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=rows,
        file_size_in_bytes=size,
        column_sizes={},
        value_counts=dict.fromkeys(nulls, rows),
        null_value_counts=dict(nulls),
        nan_value_counts={},
        lower_bounds=dict(low),
        upper_bounds=dict(high),
        key_metadata=None,
        split_offsets=None,
        equality_ids=None,
        sort_order_id=order,
    )
    made.spec_id = 0
    return made


def without_bounds(file: DataFile) -> DataFile:
    """Return a file as the record of its removal names it: no value of a row is in it."""
    return _file(file.file_path, file.record_count, file.file_size_in_bytes, {}, {}, {})


def bound(kind: PrimitiveType, sql: str, value: Scalar) -> bytes | None:
    """Return a bound as manifests hold it; None where there is none.

    Args:
        kind: type in the Iceberg table.
        sql: canonical SQL type.
        value: bound in the form of markers.
    """
    try:
        checked: Any = canonical(sql, value)
    except ValueError:
        return None  # another client's marker; without a bound the part is read
    if isinstance(kind, _AS_IN_MARKERS):
        return to_bytes(kind, checked)
    if isinstance(kind, DecimalType):
        return to_bytes(kind, Decimal(checked))
    if isinstance(kind, DateType):
        return to_bytes(kind, date.fromisoformat(checked).toordinal() - _EPOCH)
    if isinstance(kind, _TIMES):
        return to_bytes(kind, parse_nanoseconds(checked) // 1_000)
    return None
