"""Map filters of Spark to predicates of a table. For Spark 4.1 and later, which has them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from firnline.errors import UsageError
from firnline.predicate.tree import COMPARISONS, And, Equal, In, IsNull, Not, Predicate, bind
from firnline.spark import versions as spark
from firnline.types.schema import normalise
from firnline.types.sql import fold_name, parse_sql_type
from firnline.types.values import Scalar

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
