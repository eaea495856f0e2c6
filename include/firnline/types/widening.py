"""Lossless widening of SQL types: the wider type holds every value exactly, in the same order."""

from __future__ import annotations

from collections.abc import Mapping

from firnline.types.schema import normalise
from firnline.types.sql import parse_sql_type

WIDER = {
    "TINYINT": ("SMALLINT", "INTEGER", "BIGINT"),
    "SMALLINT": ("INTEGER", "BIGINT"),
    "INTEGER": ("BIGINT",),
    "UTINYINT": ("USMALLINT", "UINTEGER", "UBIGINT", "SMALLINT", "INTEGER", "BIGINT"),
    "USMALLINT": ("UINTEGER", "UBIGINT", "INTEGER", "BIGINT"),
    "UINTEGER": ("UBIGINT", "BIGINT"),
    "FLOAT": ("DOUBLE",),
    "DATE": ("TIMESTAMP",),
}
"""Type -> wider types. A DECIMAL is wider than one with no more digits on either side."""


def widens(kind: str, wanted: str) -> bool:
    """Return True if ``wanted`` is another type than ``kind`` and holds all of its values.

    Args:
        kind: type name, not necessarily canonical.
        wanted: likewise.
    """
    kind, wanted = normalise(kind), normalise(wanted)
    if wanted in WIDER.get(kind, ()):
        return True
    old, new = parse_sql_type(kind), parse_sql_type(wanted)
    if old is None or new is None or kind == wanted or not old.name == new.name == "DECIMAL":
        return False
    (precision, scale), (other, other_scale) = old.numbers, new.numbers
    return other_scale >= scale and other - other_scale >= precision - scale


def as_known(columns: Mapping[str, str], known: Mapping[str, str]) -> dict[str, str]:
    """Return the columns with the types of ``known`` where those are wider; column -> type."""
    return {
        name: known[name] if name in known and widens(kind, known[name]) else kind
        for name, kind in columns.items()
    }
