"""Map columns of a table to Spark types, and back."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import types

from firnline.errors import UsageError
from firnline.types.sql import SqlType, parse_sql_type, quote_name

_SIMPLE: dict[str, types.DataType] = {
    "BIGINT": types.LongType(),
    "BLOB": types.BinaryType(),
    "BOOLEAN": types.BooleanType(),
    "DATE": types.DateType(),
    "DOUBLE": types.DoubleType(),
    "FLOAT": types.FloatType(),
    "GEOMETRY": types.BinaryType(),
    "HUGEINT": types.DecimalType(38, 0),
    "INTEGER": types.IntegerType(),
    "SMALLINT": types.ShortType(),
    "TIMESTAMP": types.TimestampNTZType(),
    "TIMESTAMP_MS": types.TimestampNTZType(),
    "TIMESTAMP_NS": types.TimestampNTZType(),
    "TIMESTAMP_S": types.TimestampNTZType(),
    "TIMESTAMP WITH TIME ZONE": types.TimestampType(),
    "TIMESTAMPTZ_NS": types.TimestampType(),
    "TINYINT": types.ByteType(),
    "UBIGINT": types.DecimalType(20, 0),
    "UINTEGER": types.LongType(),
    "USMALLINT": types.IntegerType(),
    "UTINYINT": types.ShortType(),
}
"""All other types that are not nested are text: UUID, JSON, ENUM, TIME, INTERVAL and so on."""

_DUCKDB: list[tuple[type[types.DataType], str]] = [
    (types.LongType, "BIGINT"),
    (types.BinaryType, "BLOB"),
    (types.BooleanType, "BOOLEAN"),
    (types.DateType, "DATE"),
    (types.DoubleType, "DOUBLE"),
    (types.FloatType, "FLOAT"),
    (types.IntegerType, "INTEGER"),
    (types.ShortType, "SMALLINT"),
    (types.TimestampNTZType, "TIMESTAMP"),
    (types.TimestampType, "TIMESTAMP WITH TIME ZONE"),
    (types.ByteType, "TINYINT"),
    (types.StringType, "VARCHAR"),
]


def spark_schema(columns: Mapping[str, str]) -> types.StructType:
    """Return the columns of a table as Spark types; all are nullable."""
    return types.StructType(
        [types.StructField(name, spark_type(kind)) for name, kind in columns.items()]
    )


def spark_type(kind: str) -> types.DataType:
    """Return the Spark type for the values of a SQL type."""
    parsed = parse_sql_type(kind)
    return _spark(parsed) if parsed else types.StringType()


def _spark(kind: SqlType) -> types.DataType:
    if kind.name == "DECIMAL":
        return types.DecimalType(*kind.numbers)
    children = [(name, _spark(child)) for name, child in kind.fields]
    if kind.name in ("LIST", "ARRAY"):
        return types.ArrayType(children[0][1])
    if kind.name == "MAP":
        return types.MapType(children[0][1], children[1][1])
    if kind.name == "STRUCT" and children:
        return types.StructType([types.StructField(name, child) for name, child in children])
    return _SIMPLE.get(kind.name, types.StringType())


def duckdb_type(kind: types.DataType) -> str:
    """Return the DuckDB type for the values of a Spark type. Raises UsageError."""
    if isinstance(kind, types.DecimalType):
        return f"DECIMAL({kind.precision},{kind.scale})"
    if isinstance(kind, types.ArrayType):
        return f"{duckdb_type(kind.elementType)}[]"
    if isinstance(kind, types.MapType):
        return f"MAP({duckdb_type(kind.keyType)}, {duckdb_type(kind.valueType)})"
    if isinstance(kind, types.StructType):
        inner = (f"{quote_name(field.name)} {duckdb_type(field.dataType)}" for field in kind)
        return f"STRUCT({', '.join(inner)})"
    for known, name in _DUCKDB:
        if isinstance(kind, known):
            return name
    raise UsageError(
        f"a table's column cannot be read as {kind.simpleString()}",
        next_step="choose another type in schema(), or leave it to the table",
    )
