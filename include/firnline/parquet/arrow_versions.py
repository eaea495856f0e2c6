"""What older versions of pyarrow do in another way, and what is done about it.

| pyarrow | |
| --- | --- |
| before 24 | writes no Bloom filters |
| before 22 | writes times of day as those of UTC, which DuckDB reads as ``TIME WITH TIME ZONE`` |
| before 21 | writes and reads UUIDs as plain bytes |

A part with the types of another table would be worse than none, so what would get them is refused.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

from firnline.errors import EnvironmentFaultError
from firnline.types.arrow import holds

MAJOR = int(pa.__version__.partition(".")[0])
"""Of the pyarrow that is installed."""
_UUIDS, _TIMES, _FILTERS = 21, 22, 24
"""Versions of pyarrow that were the first to do it."""


def as_annotated() -> dict[str, bool]:
    """Return the options of ``pyarrow.parquet.ParquetFile`` by which it reads UUID and JSON."""
    return {} if MAJOR < _UUIDS else {"arrow_extensions_enabled": True}


def writes_bloom_filters() -> bool:
    """Return True if ``pyarrow.parquet.ParquetWriter`` takes ``bloom_filter_options``."""
    return MAJOR >= _FILTERS


def refuse_changed(schema: pa.Schema) -> None:
    """Raise EnvironmentFaultError for a column that would be written as one of another type."""
    if MAJOR >= _TIMES:
        return
    for field in schema:
        if MAJOR < _UUIDS and holds(field.type, _is_uuid):
            raise _too_old("writes", field.name, "UUIDs as plain bytes", _UUIDS)
        if holds(field.type, pa.types.is_time):
            raise _too_old("writes", field.name, "times of day as those of UTC", _TIMES)


def refuse_misread(footer: pq.FileMetaData) -> None:
    """Raise EnvironmentFaultError for a column that would be read as one of another type."""
    if MAJOR >= _UUIDS:
        return
    for leaf in map(footer.schema.column, range(footer.num_columns)):
        if leaf.logical_type.type == "UUID":
            raise _too_old("reads", leaf.path.partition(".")[0], "UUIDs as plain bytes", _UUIDS)


def _is_uuid(kind: pa.DataType) -> bool:
    return isinstance(kind, pa.UuidType)


def _too_old(verb: str, column: str, what: str, least: int) -> EnvironmentFaultError:
    return EnvironmentFaultError(
        f"pyarrow {pa.__version__} {verb} {what}, and column {column!r} has some",
        next_step=f"install pyarrow {least} or newer (pip install 'pyarrow>={least}')",
    )
