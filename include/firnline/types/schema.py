"""The columns of a table: canonical SQL type names of DuckDB, and the union of schema lines."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache

from firnline.errors import SchemaConflictError
from firnline.types.sql import fold_name, parse_sql_type

Variant = tuple[str, str]
"""A column of a schema line: name, canonical type."""

_SHOWN = 20
"""Columns that an error describes at most; its command has all of them."""


@lru_cache(maxsize=16384)
def normalise(type_text: str) -> str:
    """Return a type text in DuckDB's canonical form (``int4[]`` -> ``INTEGER[]``).

    An unknown type is returned as it is, with runs of blanks made single: a foreign client may
    write types of a later DuckDB, and equal texts still agree.
    """
    kind = parse_sql_type(type_text)
    return " ".join(type_text.split()) if kind is None else str(kind)


class SchemaUnion:
    """The union of the columns of schema lines, in the order of their first occurrence."""

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
        """Return an independent copy."""
        other = SchemaUnion()
        other._columns, other._source = dict(self._columns), dict(self._source)
        other._spelling, other._seen = dict(self._spelling), set(self._seen)
        return other

    def add(self, source: str, columns: Mapping[str, str], *, next_step: str | None = None) -> None:
        """Add a schema line.

        Args:
            source: origin of the line, for the error ("log file x").
            columns: column -> type text.
            next_step: next step of the error; None for a line of a log file: then it is the repair.

        Raises:
            SchemaConflictError: as ``union``; a part of the line may have been added then.
        """
        # Ten thousand appends of one writer have ten thousand equal lines.
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
                    next_step=next_step or _repair([(name, known)]),
                )

    def _new_column(self, source: str, name: str, kind: str, next_step: str | None) -> None:
        other = self._spelling.setdefault(fold_name(name), name)
        if other != name:
            raise SchemaConflictError(
                f"column {name!r} of {source} differs only in the case of its letters "
                f"from {other!r} of {self._source[other]}",
                next_step=next_step or _repair([(other, self._columns[other])]),
            )
        self._columns[name] = kind
        self._source[name] = source


def union(lines: Iterable[tuple[str, Mapping[str, str]]]) -> dict[str, str]:
    """Return the columns of all schema lines, in the order of their first occurrence.

    Args:
        lines: (log file, column -> type text) per log file.

    Returns:
        column -> canonical type text.

    Raises:
        SchemaConflictError: two log files give one column different types, or two column names
            differ only in letter case (in DuckDB and SQL they are one column).
    """
    return union_of(list(lines)).columns


def union_of(lines: Collection[tuple[str, Mapping[str, str]]]) -> SchemaUnion:
    """Return the union of schema lines, to which more can be added. Raises as ``union``."""
    merged = SchemaUnion()
    try:
        for log_file, columns in lines:
            merged.add(f"log file {log_file}", columns)
    except SchemaConflictError:
        disputed = [list(said) for said in variants(lines).values() if len(said) > 1]
        if len(disputed) == 1:
            raise
        raise _conflict_of(disputed) from None
    return merged


def _conflict_of(disputed: Sequence[Sequence[Variant]]) -> SchemaConflictError:
    """Return the error for several columns; of each all of its definitions."""
    said = "; ".join(
        f"{definitions[0][0]} ({' and '.join(_in_words(definitions))})"
        for definitions in disputed[:_SHOWN]
    )
    more = f" and {len(disputed) - _SHOWN} more" if len(disputed) > _SHOWN else ""
    return SchemaConflictError(
        f"log files contradict each other on {len(disputed)} columns: {said}{more}",
        next_step=_repair([definitions[0] for definitions in disputed]),
    )


def _in_words(definitions: Sequence[Variant]) -> Iterable[str]:
    """Return the types of a column, and its spellings where those differ."""
    if len({name for name, _ in definitions}) == 1:
        return (kind for _, kind in definitions)
    return (f"{name} {kind}" for name, kind in definitions)


def variants(lines: Iterable[tuple[str, Mapping[str, str]]]) -> dict[str, dict[Variant, list[str]]]:
    """Return all definitions of each column in schema lines, also where they conflict.

    Args:
        lines: (log file, column -> type text) per log file.

    Returns:
        ``fold_name`` of a column -> (name, canonical type) -> the log files with this definition,
        all in the order of their first occurrence.
    """
    found: dict[str, dict[Variant, list[str]]] = {}
    for log_file, columns in lines:
        for name, type_text in columns.items():
            definitions = found.setdefault(fold_name(name), {})
            definitions.setdefault((name, normalise(type_text)), []).append(log_file)
    return found


def agreed(lines: Iterable[tuple[str, Mapping[str, str]]]) -> dict[str, str]:
    """Return the columns that all schema lines with them define alike; never raises."""
    return dict(next(iter(found)) for found in variants(lines).values() if len(found) == 1)


def repair_command(table: str, wanted: Iterable[Variant]) -> str:
    """Return the command line that gives columns one type each; the table as it is typed."""
    columns = (f"--column {shlex.quote(name)} --type {shlex.quote(kind)}" for name, kind in wanted)
    return f"firnline schema fix {table} {' '.join(columns)}"


def _repair(wanted: Sequence[Variant]) -> str:
    several = len(wanted) > 1
    return (
        "see `firnline schema show TABLE` for who wrote which, then give "
        f"{'each column' if several else 'the column'} one type with "
        f"`{repair_command('TABLE', wanted)}`, or keep "
        f"{'both of each' if several else 'both'} under two names with --rename"
    )


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


def narrower(wanted: str) -> tuple[str, ...]:
    """Return the types that ``widens`` to a type; none of a DECIMAL, which has too many."""
    wanted = normalise(wanted)
    return tuple(kind for kind, wider in WIDER.items() if wanted in wider)


def as_known(columns: Mapping[str, str], known: Mapping[str, str]) -> dict[str, str]:
    """Return the columns with the types of ``known`` where those are wider; column -> type."""
    return {
        name: known[name] if name in known and widens(kind, known[name]) else kind
        for name, kind in columns.items()
    }
