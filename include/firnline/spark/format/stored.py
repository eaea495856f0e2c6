"""Columns of a table as Spark's own Parquet reader takes them from parts, and as it shows them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pyspark.sql import types

from firnline.errors import UsageError
from firnline.spark.format.sql import opaque, quote_column
from firnline.spark.format.types import spark_type
from firnline.types.sql import SqlType, parse_sql_type

_EVERYWHERE = {
    *("BIGINT", "BLOB", "BOOLEAN", "DATE", "DECIMAL", "DOUBLE", "ENUM", "FLOAT", "INTEGER", "JSON"),
    *("SMALLINT", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE", "TIMESTAMP_MS", "TIMESTAMP_S"),
    *("TINYINT", "UBIGINT", "UINTEGER", "USMALLINT", "UTINYINT", "VARCHAR"),
    *("ARRAY", "LIST", "MAP", "STRUCT"),
}
"""Types that Spark reads from every part that may hold them, also in lists and structures, and from
parts with a narrower type (``types.schema.widens``); it only refuses a narrower one of UBIGINT."""
_MICROSECONDS = "({0} + IF({0} < 0, -500, 500)) div 1000"
"""Rounded as DuckDB does."""
_SHOWN = {
    "DOUBLE": opaque("{0}"),
    "FLOAT": opaque("{0}"),
    "TIMESTAMP_NS": "TIMESTAMP_NTZ '1970-01-01 00:00:00' + make_dt_interval(0, 0, 0, "
    f"CAST({_MICROSECONDS} AS DECIMAL(20,0)) / 1000000)",
    "TIMESTAMPTZ_NS": f"timestamp_micros({_MICROSECONDS})",
    "UUID": "regexp_replace(lower(hex({0})), '(.{{8}})(.{{4}})(.{{4}})(.{{4}})(.{{12}})', "
    "'$1-$2-$3-$4-$5')",
}
"""Type of a column in a data frame, as ``spark_type`` returns it."""
_WHOLE = "IF({0} IS NULL, NULL, {0})"
"""The same structure, on whose fields Spark passes no condition to the reader; see ``opaque``."""
_READ: dict[str, types.DataType] = {
    "TIMESTAMP_NS": types.LongType(),
    "TIMESTAMPTZ_NS": types.LongType(),
    "UUID": types.BinaryType(),
}
"""Types that Spark does not read as what they are, and as what it does."""


@dataclass(frozen=True, slots=True)
class Stored:
    """One column; conditions and keys compare its values as they were read."""

    read: types.DataType
    """Type to ask Spark's reader for."""
    _shown: str

    def shown(self, name: str) -> str:
        """Return the expression of the data frame's column, for a column as it was read."""
        return self._shown.format(quote_column(name))


def stored(column: str, kind: str) -> Stored:
    """Return the forms of a column. Raises UsageError if Spark's reader does not know its type."""
    parsed = parse_sql_type(kind)
    name = "" if parsed is None else parsed.name
    if name in _READ:
        return Stored(_READ[name], _SHOWN[name])
    unknown = kind if parsed is None else next(_unknown(parsed), None)
    if unknown is not None:
        raise UsageError(
            f"column {column!r} is {kind}, and Spark's Parquet reader does not read {unknown} from "
            "every part that may hold it",
            next_step="leave it out with columns=[...], or read with "
            'spark.read.format("firnline"), which knows every type',
        )
    if parsed is not None and name == "STRUCT" and _has_numbers_with_nan(parsed):
        return Stored(spark_type(kind), _WHOLE)
    return Stored(spark_type(kind), _SHOWN.get(name, "{0}"))


def _unknown(kind: SqlType) -> Iterator[str]:
    """Yield the types in a type that only some parts hold so that Spark reads them."""
    if kind.name not in _EVERYWHERE:
        yield kind.name
    for _, child in kind.fields:
        yield from _unknown(child)


def _has_numbers_with_nan(kind: SqlType) -> bool:
    return kind.name in ("DOUBLE", "FLOAT") or (
        kind.name == "STRUCT" and any(_has_numbers_with_nan(child) for _, child in kind.fields)
    )
