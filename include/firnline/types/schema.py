"""The columns of a table: SQL type names as DuckDB spells them, and the union of schema lines."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from functools import lru_cache

from firnline.errors import SchemaConflictError
from firnline.types.sql import fold_name, parse_sql_type

Variant = tuple[str, str]
"""A column as a schema line has it: name, canonical type."""


@lru_cache(maxsize=16384)
def normalise(type_text: str) -> str:
    """A type text in DuckDB's canonical spelling (``int4[]`` -> ``INTEGER[]``).

    A text that is no type known here is kept as it is, with its blanks made single: a foreign
    client may write types of a later DuckDB, and equal texts still agree.
    """
    kind = parse_sql_type(type_text)
    return " ".join(type_text.split()) if kind is None else str(kind)


class SchemaUnion:
    """Columns of several schema lines, in the order in which they are first seen."""

    def __init__(self) -> None:
        self._columns: dict[str, str] = {}
        self._source: dict[str, str] = {}
        self._spelling: dict[str, str] = {}
        self._seen: set[tuple[tuple[str, str], ...]] = set()
        self._last: Mapping[str, str] | None = None

    @property
    def columns(self) -> dict[str, str]:
        """Column -> canonical type text."""
        return dict(self._columns)

    def copy(self) -> SchemaUnion:
        """A union of its own that knows what this one knows."""
        other = SchemaUnion()
        other._columns, other._source = dict(self._columns), dict(self._source)
        other._spelling, other._seen = dict(self._spelling), set(self._seen)
        return other

    def add(self, source: str, columns: Mapping[str, str], *, next_step: str | None = None) -> None:
        """Take one more schema line in.

        Args:
            source: whose it is, for the error ("log file x").
            columns: column -> type text.
            next_step: of the error; None for a line of a log file: then it names the repair.

        Raises:
            SchemaConflictError: as ``union``; the line may then be half taken in.
        """
        # Ten thousand appends of one writer carry ten thousand equal lines.
        if columns is self._last:
            return
        self._last = columns
        line = tuple(columns.items())
        if line in self._seen:
            return
        self._seen.add(line)
        for name, type_text in line:
            kind = normalise(type_text)
            known = self._columns.get(name)
            if known is None:
                self._new_column(source, name, kind, next_step)
            elif known != kind:
                raise SchemaConflictError(
                    f"column {name!r} is {known} in {self._source[name]} but {kind} in {source}",
                    next_step=next_step or _repair(name, known),
                )

    def _new_column(self, source: str, name: str, kind: str, next_step: str | None) -> None:
        other = self._spelling.setdefault(fold_name(name), name)
        if other != name:
            raise SchemaConflictError(
                f"column {name!r} of {source} differs only in the case of its letters "
                f"from {other!r} of {self._source[other]}",
                next_step=next_step or _repair(other, self._columns[other]),
            )
        self._columns[name] = kind
        self._source[name] = source


def union(lines: Iterable[tuple[str, Mapping[str, str]]]) -> dict[str, str]:
    """The columns of all schema lines, in the order in which they are first seen.

    Args:
        lines: (log file, column -> type text) per log file.

    Returns:
        column -> canonical type text.

    Raises:
        SchemaConflictError: two log files give one column different types, or two columns whose
            names differ only in the case of letters (DuckDB and SQL see one column there).
    """
    merged = SchemaUnion()
    for log_file, columns in lines:
        merged.add(f"log file {log_file}", columns)
    return merged.columns


def variants(lines: Iterable[tuple[str, Mapping[str, str]]]) -> dict[str, dict[Variant, list[str]]]:
    """What schema lines say of each column, also where they contradict each other.

    Args:
        lines: (log file, column -> type text) per log file.

    Returns:
        ``fold_name`` of a column -> (name, canonical type) -> the log files that say so, all in
        the order in which they are first seen.
    """
    found: dict[str, dict[Variant, list[str]]] = {}
    for log_file, columns in lines:
        for name, type_text in columns.items():
            said = found.setdefault(fold_name(name), {})
            said.setdefault((name, normalise(type_text)), []).append(log_file)
    return found


def agreed(lines: Iterable[tuple[str, Mapping[str, str]]]) -> dict[str, str]:
    """The columns that all schema lines which have them spell and type alike; never raises."""
    return dict(next(iter(said)) for said in variants(lines).values() if len(said) == 1)


def _repair(column: str, kind: str) -> str:
    return (
        "see `firnline schema show TABLE` for who wrote what, then give the column one type with "
        f"`firnline schema fix TABLE --column {shlex.quote(column)} --type {shlex.quote(kind)}`, "
        "or keep both under two names with --rename"
    )
