"""Values of rows as JSON: numbers, booleans, lists and objects where JSON has the same value.

Integers beyond 2^53, which many readers of JSON round, NaN, infinity, and every type that JSON does
not have (decimals, dates, times, bytes, UUIDs) are texts, as DuckDB casts them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from firnline.types.sql import SqlType, parse_sql_type

_EXACT = 2**53
_NUMBERS = frozenset(
    {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"}
)
_PLAIN = _NUMBERS | {"BOOLEAN", "FLOAT", "DOUBLE"}
_TEXT, _TRUTH = SqlType("VARCHAR"), SqlType("BOOLEAN")


@dataclass(frozen=True, slots=True)
class JsonForm:
    """How the values of one column become JSON."""

    kind: SqlType
    """Type to let DuckDB cast them to first."""

    @classmethod
    def of(cls, kind: str) -> JsonForm:
        """Return the form of a column. ``kind``: its SQL type."""
        parsed = parse_sql_type(kind)
        return cls(_TEXT if parsed is None else _shown_as(parsed))

    def value(self, value: object) -> object:
        """Return a value for JSON; ``value`` is of ``kind``, as DuckDB or Arrow gives it."""
        return _json_value(value, self.kind)


def _shown_as(kind: SqlType) -> SqlType:
    if kind.name in _PLAIN:
        return kind
    if kind.name in {"LIST", "ARRAY"}:
        return SqlType("LIST", ((kind.fields[0][0], _shown_as(kind.element)),))
    if kind.name == "MAP":
        (key, _), (value, inner) = kind.fields
        return SqlType("MAP", ((key, _TEXT), (value, _shown_as(inner))))
    if kind.name == "STRUCT" and kind.fields:
        return SqlType("STRUCT", tuple((name, _shown_as(inner)) for name, inner in kind.fields))
    return _TEXT


def _json_value(value: Any, kind: SqlType) -> Any:  # noqa: ANN401 - of any type, and one of JSON
    if value is None or kind in {_TEXT, _TRUTH}:
        return value
    if kind.name == "LIST":
        return [_json_value(each, kind.element) for each in value]
    if kind.name == "STRUCT":
        inner = dict(kind.fields)
        return {name: _json_value(each, inner[name]) for name, each in value.items()}
    if kind.name == "MAP":
        pairs = value.items() if isinstance(value, dict) else value  # Arrow's are pairs
        return {key: _json_value(each, kind.fields[1][1]) for key, each in pairs}
    exact = math.isfinite(value) if isinstance(value, float) else abs(value) <= _EXACT
    return value if exact else str(value)
