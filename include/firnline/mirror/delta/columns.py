"""The columns of a table as a Delta schema, and the types that have no place in one."""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Mapping
from typing import Any

import msgspec

from firnline.errors import MirrorRefusedError
from firnline.mirror.delta.actions import TIMESTAMP_NTZ
from firnline.types.schema import narrower, normalise
from firnline.types.sql import SqlType, parse_sql_type

_PLAIN: Mapping[str, str] = {
    "BOOLEAN": "boolean",
    "TINYINT": "byte",
    "SMALLINT": "short",
    "INTEGER": "integer",
    "BIGINT": "long",
    # Unsigned ones in the next wider type: each reader widens them as it reads.
    "UTINYINT": "short",
    "USMALLINT": "integer",
    "UINTEGER": "long",
    "FLOAT": "float",
    "DOUBLE": "double",
    "VARCHAR": "string",
    "BLOB": "binary",
    "DATE": "date",
    "TIMESTAMP_S": "timestamp_ntz",
    "TIMESTAMP_MS": "timestamp_ntz",
    "TIMESTAMP": "timestamp_ntz",
    "TIMESTAMP WITH TIME ZONE": "timestamp",
}
_WHOLE = frozenset(
    {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER"}
)
MAX_PRECISION = 38
_NO_NAME = re.compile(r"[ ,;{}()\n\t=]")
"""Characters that no column's name has without column mapping, which not every reader knows."""


def delta_type(kind: SqlType) -> Any | None:  # noqa: ANN401 - a text, or a nested object
    """Return a type as a Delta schema spells it; None if Delta has no such type."""
    if kind.name == "DECIMAL":
        precision, scale = kind.numbers
        return f"decimal({precision},{scale})" if precision <= MAX_PRECISION else None
    if kind.name in ("LIST", "ARRAY"):
        element = delta_type(kind.element)
        return element and {"type": "array", "elementType": element, "containsNull": True}
    if kind.name == "MAP":
        key, value = (delta_type(child) for _, child in kind.fields)
        if key is None or value is None:
            return None
        return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}
    if kind.name == "STRUCT":
        fields = [_field(name, delta_type(child)) for name, child in kind.fields]
        whole = fields and all(field["type"] is not None for field in fields)
        return {"type": "struct", "fields": fields} if whole else None
    return _PLAIN.get(kind.name)


def _field(name: str, kind: Any) -> dict[str, Any]:  # noqa: ANN401 - see delta_type
    return {"name": name, "type": kind, "nullable": True, "metadata": {}}


def schema_string(table: str, columns: Mapping[str, str]) -> str:
    """Return the schema of a Delta table.

    Args:
        table: name of the table, for the error.
        columns: column -> SQL type.

    Raises MirrorRefusedError: names the first column that Delta cannot hold.
    """
    fields: list[dict[str, Any]] = []
    for name, text in columns.items():
        if _NO_NAME.search(name) is not None:
            raise MirrorRefusedError(
                f"table {table} has a column {name!r}, and names in a Delta table have no blank "
                "and none of , ; { } ( ) =",
                next_step="rename it with `firnline evolve TABLE --rename "
                f"{shlex.quote(f'{name}=NEW')}`, or take delta out of mirror",
            )
        kind = parse_sql_type(text)
        found = None if kind is None else delta_type(kind)
        if found is None:
            raise MirrorRefusedError(
                f"column {name!r} of table {table} is {text}, a type that Delta does not have",
                next_step="change the column, or drop it with `firnline evolve TABLE --drop "
                f"{shlex.quote(name)}`, or take delta out of mirror",
            )
        fields.append(_field(name, found))
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
    found = narrower(wanted)
    return bool(found) and all(widens_in_place(kind, wanted) for kind in found)
