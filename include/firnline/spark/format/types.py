"""Map columns of a table to Spark types, and filters of Spark to predicates of a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pyspark.sql import datasource as spark
from pyspark.sql import types

from firnline.errors import UsageError
from firnline.predicate.tree import COMPARISONS, And, Equal, In, IsNull, Not, Predicate, bind
from firnline.types.schema import normalise
from firnline.types.sql import SqlType, fold_name, parse_sql_type, quote_name
from firnline.types.values import Scalar

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
_SAME = {
    *("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"),
    *("HUGEINT", "DECIMAL", "DOUBLE", "FLOAT", "BOOLEAN", "VARCHAR", "DATE"),
    *("TIMESTAMP", "TIMESTAMP_MS", "TIMESTAMP_S", "TIMESTAMP WITH TIME ZONE"),
}
"""Types whose values DuckDB and Spark compare in the same way, and which are sent unchanged."""
_COMPARE: dict[type[spark.Filter], str] = {
    spark.EqualTo: "=",
    spark.GreaterThan: ">",
    spark.GreaterThanOrEqual: ">=",
    spark.LessThan: "<",
    spark.LessThanOrEqual: "<=",
}


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


def pushed(
    filters: Iterable[spark.Filter], columns: Mapping[str, str]
) -> tuple[Predicate | None, list[spark.Filter]]:
    """Split filters: those that the table evaluates exactly as Spark would, and the others."""
    done: list[Predicate] = []
    left: list[spark.Filter] = []
    for one in filters:
        tree = _predicate(one, columns)
        if tree is None:
            left.append(one)
        else:
            done.append(tree)
    return (And(tuple(done)) if done else None), left


def _predicate(one: spark.Filter, columns: Mapping[str, str]) -> Predicate | None:
    if isinstance(one, spark.Not):
        # Not of a null-safe comparison is true for nulls; of the others it is null.
        if isinstance(one.child, spark.EqualNullSafe):
            return None
        inner = _predicate(one.child, columns)
        return None if inner is None else Not(inner)
    path: tuple[str, ...] = getattr(one, "attribute", ())
    name = _column(path, columns)
    if name is None:
        return None
    if isinstance(one, spark.IsNull):
        return IsNull(name)
    if isinstance(one, spark.IsNotNull):
        return Not(IsNull(name))
    return _bound(_comparison(one, name), columns)


def _comparison(one: spark.Filter, name: str) -> Predicate | None:
    if isinstance(one, spark.In):
        values = tuple(_plain(value) for value in one.value)
        return None if not values or None in values else In(name, values)
    if isinstance(one, spark.EqualNullSafe):
        return IsNull(name) if one.value is None else Equal(name, _plain(one.value))
    op, value = _COMPARE.get(type(one)), getattr(one, "value", None)
    return None if op is None or value is None else COMPARISONS[op](name, _plain(value))


def _plain(value: object) -> Scalar:
    """Return the value unchanged: ``bind`` also accepts dates, times and decimals."""
    return value  # type: ignore[return-value]


def _bound(tree: Predicate | None, columns: Mapping[str, str]) -> Predicate | None:
    if tree is None:
        return None
    try:
        return bind(tree, columns)
    except (UsageError, ValueError, TypeError):
        return None  # a literal that the column cannot hold: left to Spark


def _column(path: tuple[str, ...], columns: Mapping[str, str]) -> str | None:
    """Return the table's spelling of a top-level column that both compare in the same way."""
    if len(path) != 1:
        return None
    for name, kind in columns.items():
        if fold_name(name) == fold_name(path[0]):
            parsed = parse_sql_type(normalise(kind))
            return name if parsed is not None and parsed.name in _SAME else None
    return None
