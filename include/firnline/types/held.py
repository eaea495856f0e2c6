"""Types that a part holds as they are: those that a column can be declared with.

DuckDB has more. A part has others for their values (``types.arrow.to_arrow``), so that no row would
ever fit a column that was declared with one of them.
"""

from __future__ import annotations

from firnline.types.sql import MAX_DIGITS, SqlType, fold_name, is_too_deep

_LEAVES = frozenset(
    """
    BIGINT BLOB BOOLEAN DATE DOUBLE FLOAT INTEGER JSON SMALLINT TIME TIME_NS TIMESTAMP TIMESTAMP_MS
    TIMESTAMP_NS TIMESTAMPTZ_NS TINYINT UBIGINT UINTEGER USMALLINT UTINYINT UUID VARCHAR
    """.split()  # noqa: SIM905 - a table of words is easier to read
) | {"TIMESTAMP WITH TIME ZONE"}
_WHOLE = SqlType("DECIMAL", numbers=(38, 0))
_TEXT = SqlType("VARCHAR")
_INSTEAD = {
    "BIGNUM": _TEXT,
    "BIT": _TEXT,
    "ENUM": _TEXT,
    "GEOMETRY": SqlType("BLOB"),
    "HUGEINT": _WHOLE,
    "TIME WITH TIME ZONE": SqlType("TIME"),
    "TIMESTAMP_S": SqlType("TIMESTAMP"),
    "UHUGEINT": _WHOLE,
}
"""Types that parts have for the values of others."""


def held(kind: SqlType) -> SqlType | None:
    """Return the type that a part has for values of a type; None: no part holds them."""
    return None if is_too_deep(kind) else _held(kind)


def _held(kind: SqlType) -> SqlType | None:
    if kind.name in ("ARRAY", "LIST", "MAP", "STRUCT"):
        return _nested(kind)
    if kind.name == "DECIMAL":
        precision, scale = kind.numbers
        return kind if 0 <= scale <= precision <= MAX_DIGITS and precision else None
    return kind if kind.name in _LEAVES else _INSTEAD.get(kind.name)


def _nested(kind: SqlType) -> SqlType | None:
    fields = tuple((name, _held(each)) for name, each in kind.fields)
    whole = tuple((name, each) for name, each in fields if each is not None)
    names = {fold_name(name) for name, _ in whole}
    if not whole or len(whole) < len(fields) or (kind.name == "STRUCT" and len(names) < len(whole)):
        return None
    return SqlType("LIST" if kind.name == "ARRAY" else kind.name, whole)
