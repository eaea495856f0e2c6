"""The columns of a table as a Delta schema."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec

from firnline.mirror.delta.actions import TIMESTAMP_NTZ
from firnline.types.formats import FORMATS, refuse_column
from firnline.types.schema import narrower, normalise
from firnline.types.sql import SqlType

_WHOLE = frozenset(
    {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER"}
)


def delta_type(kind: SqlType) -> Any:  # noqa: ANN401 - a text, or a nested object
    """Return a type that Delta has as its schemas spell it."""
    if kind.name == "DECIMAL":
        precision, scale = kind.numbers
        return f"decimal({precision},{scale})"
    if kind.name in ("LIST", "ARRAY"):
        element = delta_type(kind.element)
        return {"type": "array", "elementType": element, "containsNull": True}
    if kind.name == "MAP":
        key, value = (delta_type(child) for _, child in kind.fields)
        return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}
    if kind.name == "STRUCT":
        fields = [_field(name, delta_type(child)) for name, child in kind.fields]
        return {"type": "struct", "fields": fields}
    return FORMATS["delta"].plain[kind.name]


def _field(name: str, kind: Any) -> dict[str, Any]:  # noqa: ANN401 - see delta_type
    return {"name": name, "type": kind, "nullable": True, "metadata": {}}


def schema_string(table: str, columns: Mapping[str, str]) -> str:
    """Return the schema of a Delta table.

    Args:
        table: name of the table, for the error.
        columns: column -> SQL type.

    Raises MirrorRefusedError: names the first column that Delta cannot hold.
    """
    fields = [
        _field(name, delta_type(refuse_column("delta", table, name, text)))
        for name, text in columns.items()
    ]
    return msgspec.json.encode({"type": "struct", "fields": fields}).decode()


def features_of(schema: str) -> tuple[str, ...]:
    """Return the reader features that a schema needs."""
    return (TIMESTAMP_NTZ,) if '"timestamp_ntz"' in schema else ()


def digest(schema: str) -> str:
    """Return a digest of a schema, 16 hexadecimal digits."""
    return hashlib.sha256(schema.encode()).hexdigest()[:16]


def widens_in_place(kind: str, wanted: str) -> bool:
    """Return True if readers take a column of type ``kind`` in a part for one of type ``wanted``.

    Only what all of them widen without a table feature: whole numbers, and FLOAT to DOUBLE.
    """
    kind, wanted = normalise(kind), normalise(wanted)
    return {kind, wanted} <= _WHOLE or (kind, wanted) in {("FLOAT", "DOUBLE"), (wanted, wanted)}


def reads_narrower(wanted: str) -> bool:
    """Return True if readers take a column of any narrower type in a part for one of this type."""
    kinds = narrower(wanted)
    return bool(kinds) and all(widens_in_place(kind, wanted) for kind in kinds)
