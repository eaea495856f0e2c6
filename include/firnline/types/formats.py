"""The columns that other table formats have: types and names, of Delta and of Iceberg.

Only what every engine reads as the same values. It needs no library of a format, since those who
append have none.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from firnline.errors import MirrorRefusedError
from firnline.types.sql import SqlType, parse_sql_type

MAX_PRECISION = 38
"""Most digits of a DECIMAL."""


@dataclass(frozen=True)
class _Format:
    plain: Mapping[str, str]
    """Types without parts, as the format spells them."""
    no_name: re.Pattern[str]
    """Characters that no column's name has."""
    names: str
    """The end of a sentence about names."""
    types: str
    """The end of a sentence about types."""
    inner_names: bool = False
    """The rule for names is one for fields of a STRUCT too."""


FORMATS: Mapping[str, _Format] = {
    "delta": _Format(
        plain={
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
        },
        # They take column mapping, which not every reader knows.
        no_name=re.compile(r"[ ,;{}()\n\t=]"),
        names="names in a Delta table have no blank and none of , ; { } ( ) =",
        types="that Delta does not have",
    ),
    "iceberg": _Format(
        plain={
            "BOOLEAN": "boolean",
            "TINYINT": "int",
            "SMALLINT": "int",
            "INTEGER": "int",
            "BIGINT": "long",
            # No unsigned ones: readers in Java refuse such columns of Parquet files.
            "FLOAT": "float",
            "DOUBLE": "double",
            "VARCHAR": "string",
            "BLOB": "binary",
            "DATE": "date",
            "TIMESTAMP": "timestamp",
            "TIMESTAMP WITH TIME ZONE": "timestamptz",
        },
        # A point separates the names of nested fields.
        no_name=re.compile(r"[.\x00-\x1f\x7f]"),
        names="names in an Iceberg mirror have no point and no control character",
        types="that every reader of Iceberg tables takes for something else or not at all",
        inner_names=True,
    ),
}
"""Name of each format, as ``mirror`` of the settings has it."""


def refuse_column(mirror: str, table: str, name: str, text: str) -> SqlType:
    """Return the type of a column.

    Args:
        mirror: name of the format.
        table: name of the table, for the error.
        name: of the column.
        text: its SQL type.

    Raises MirrorRefusedError: the format has no such column.
    """
    has = FORMATS[mirror]
    if has.no_name.search(name) is not None:
        raise MirrorRefusedError(
            f"table {table} has a column {name!r}, and {has.names}",
            next_step="rename it with `firnline evolve TABLE --rename "
            f"{shlex.quote(f'{name}=NEW')}`, or {ending(table, [mirror])}",
        )
    kind = parse_sql_type(text)
    if kind is None or not _has_type(has, kind):
        raise MirrorRefusedError(
            f"column {name!r} of table {table} is {text}, a type {has.types}",
            next_step="change the column, or drop it with `firnline evolve TABLE --drop "
            f"{shlex.quote(name)}`, or {ending(table, [mirror])}",
        )
    return kind


def ending(table: str, names: Iterable[str]) -> str:
    """Return how a person ends mirrors, in the imperative: a file without the key ends none."""
    return (
        f"write mirror without {' and '.join(names)} into the settings file ([] if none is left; "
        f"a file without this key ends nothing), and run `firnline properties apply {table}`"
    )


def refusals(
    mirrors: Iterable[str], table: str, columns: Mapping[str, str]
) -> Iterator[MirrorRefusedError]:
    """Yield what the formats of some mirrors refuse of a table's columns, format by format.

    Args:
        mirrors: names of the formats.
        table: name of the table, for the errors.
        columns: column -> SQL type.
    """
    for mirror in mirrors:
        for name, text in columns.items():
            try:
                refuse_column(mirror, table, name, text)
            except MirrorRefusedError as error:
                yield error


def _has_type(has: _Format, kind: SqlType) -> bool:
    if kind.name == "DECIMAL":
        return kind.numbers[0] <= MAX_PRECISION
    if kind.name in ("LIST", "ARRAY"):
        return _has_type(has, kind.element)
    if kind.name in ("MAP", "STRUCT"):
        inner = [name for name, _ in kind.fields if kind.name == "STRUCT" and has.inner_names]
        named = all(has.no_name.search(name) is None for name in inner)
        return named and bool(kind.fields) and all(_has_type(has, c) for _, c in kind.fields)
    return kind.name in has.plain
