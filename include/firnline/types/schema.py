"""The columns of a table: canonical SQL type names of DuckDB, and the union of schema lines."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from firnline.errors import SchemaConflictError
from firnline.types.sql import SqlType, fold_name, parse_sql_type

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
                self._more_fields(source, (name, kind), known, next_step)

    def _more_fields(self, source: str, stated: Variant, known: str, next_step: str | None) -> None:
        """Add the fields that only this line has, at any depth."""
        name, kind = stated
        found = _join(known, kind)
        if isinstance(found, str):
            self._columns[name] = found
            return
        field, one, other = found
        path, types = f"{name}{field}", (one, other) if field else (known, kind)
        raise SchemaConflictError(
            f"{'field' if field else 'column'} {path!r} is {types[0]} in {self._source[name]} but "
            f"{types[1]} in {source}",
            next_step=next_step or _repair([(name, known)]),
        )

    def _new_column(self, source: str, name: str, kind: str, next_step: str | None) -> None:
        other = self._spelling.setdefault(fold_name(name), name)
        if other != name:
            raise SchemaConflictError(
                f"column {name!r} of {source} differs only in the case of its letters "
                f"from {other!r} of {self._source[other]}",
                next_step=f"rename it to {other!r}: in SQL both are one column"
                if next_step
                else _repair([(other, self._columns[other])]),
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

    Types that differ in fields only that others do not have are one, the type with all fields.

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
    return {folded: _as_one(definitions) for folded, definitions in found.items()}


def _as_one(definitions: dict[Variant, list[str]]) -> dict[Variant, list[str]]:
    """Return the definitions as one, if they differ in fields only that others do not have."""
    names, kinds = {name for name, _ in definitions}, [kind for _, kind in definitions]
    if len(kinds) < 2 or len(names) > 1:
        return definitions
    whole = kinds[0]
    for kind in kinds[1:]:
        found = _join(whole, kind)
        if not isinstance(found, str):
            return definitions
        whole = found
    log_files = {log_file: None for stated in definitions.values() for log_file in stated}
    return {(names.pop(), whole): list(log_files)}


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
"""Type -> wider types. A DECIMAL is wider than one with no more digits on either side, and a STRUCT
than one with fewer fields."""


def widens(kind: str, wanted: str) -> bool:
    """Return True if ``wanted`` is another type than ``kind`` and holds all of its values.

    A STRUCT holds those of one with fewer fields, with nulls in the others, at any depth.

    Args:
        kind: type name, not necessarily canonical.
        wanted: likewise.
    """
    kind, wanted = normalise(kind), normalise(wanted)
    return kind != wanted and _join(wanted, kind, narrower=True) == wanted


def _leaf_widens(kind: SqlType, wanted: SqlType) -> bool:
    if str(wanted) in WIDER.get(str(kind), ()):
        return True
    if not kind.name == wanted.name == "DECIMAL":
        return False
    (precision, scale), (other, other_scale) = kind.numbers, wanted.numbers
    return other_scale >= scale and other - other_scale >= precision - scale


_Apart = tuple[str, str, str]
"""Path of a field within its column, and its two types; the path of the column itself is empty."""


@lru_cache(maxsize=16384)
def _join(known: str, kind: str, *, narrower: bool = False) -> str | _Apart:
    """Return the first type with the fields that only the second one has, at any depth.

    Args:
        known: canonical type.
        kind: likewise.
        narrower: what is no STRUCT, LIST or MAP may be narrower in the second type.

    Returns:
        The type, or what differs otherwise.
    """
    old, new = parse_sql_type(known), parse_sql_type(kind)
    if old is None or new is None:
        return known if known == kind else ("", known, kind)
    try:
        return str(_joined(old, new, "", narrower=narrower))
    except _ApartError as apart:
        return apart.what


class _ApartError(Exception):
    """Two types have something in common that differs; never leaves this module."""

    def __init__(self, path: str, old: object, new: object) -> None:
        super().__init__(path)
        self.what: _Apart = (path, str(old), str(new))


def _joined(old: SqlType, new: SqlType, path: str, *, narrower: bool) -> SqlType:
    if old == new:
        return old
    same_form = old.name == new.name and old.numbers == new.numbers
    if same_form and old.name == "STRUCT" and old.fields and new.fields:
        return replace(old, fields=_joined_fields(old, new, path, narrower=narrower))
    if same_form and old.name in ("LIST", "ARRAY"):
        inner = _joined(old.element, new.element, f"{path}[]", narrower=narrower)
        return replace(old, fields=(("", inner),))
    if same_form and old.name == "MAP" and old.fields[0] == new.fields[0]:
        inner = _joined(old.fields[1][1], new.fields[1][1], f"{path}{{}}", narrower=narrower)
        return replace(old, fields=(old.fields[0], ("value", inner)))
    if narrower and _leaf_widens(new, old):
        return old
    raise _ApartError(path, old, new)


def _joined_fields(
    old: SqlType, new: SqlType, path: str, *, narrower: bool
) -> tuple[tuple[str, SqlType], ...]:
    found = dict(old.fields)
    spelled = {fold_name(name): name for name in found}
    for name, kind in new.fields:
        known = spelled.setdefault(fold_name(name), name)
        if known != name:
            raise _ApartError(path, f"{known!r}", f"{name!r}, the same name in SQL,")
        of_both = found.get(name)
        if of_both is not None:
            kind = _joined(of_both, kind, f"{path}.{name}", narrower=narrower)  # noqa: PLW2901
        found[name] = kind
    return tuple(found.items())


def fields_of(kind: str, column: str) -> dict[str, str]:
    """Return the fields of a type at any depth, by path: ``p.a``, ``items[].price``, ``m{}.x``.

    Args:
        kind: type of a column.
        column: its name.

    Returns:
        path -> type; with the column itself.
    """
    parsed = parse_sql_type(kind)
    return {column: kind} if parsed is None else dict(_fields(parsed, column))


def _fields(kind: SqlType, path: str) -> Iterator[tuple[str, str]]:
    yield path, str(kind)
    if kind.name == "STRUCT":
        for name, child in kind.fields:
            yield from _fields(child, f"{path}.{name}")
    elif kind.name in ("LIST", "ARRAY"):
        yield from _within(kind.element, f"{path}[]")
    elif kind.name == "MAP":
        yield from _within(kind.fields[1][1], f"{path}{{}}")


def _within(kind: SqlType, path: str) -> Iterator[tuple[str, str]]:
    """Yield the fields of an element or value, which itself is no field."""
    fields = _fields(kind, path)
    next(fields)
    return fields


def added(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, str]:
    """Return columns, and fields at any depth, that are new; path as in ``fields_of`` -> type.

    Args:
        before: column -> type.
        after: likewise; the same columns and more.

    Returns:
        The outermost ones: of a new column not its fields.
    """
    found: dict[str, str] = {}
    for name, kind in after.items():
        if name not in before:
            found[name] = kind
        elif before[name] != kind:
            old = fields_of(before[name], name)
            new = {path: k for path, k in fields_of(kind, name).items() if path not in old}
            found.update((p, k) for p, k in new.items() if not _is_inside(p, new))
    return found


def _is_inside(path: str, others: Collection[str]) -> bool:
    return any(
        path != other and path.startswith((f"{other}.", f"{other}[", f"{other}{{"))
        for other in others
    )


def narrower(wanted: str) -> tuple[str, ...]:
    """Return the types that ``widens`` to a type; none of a DECIMAL, which has too many."""
    wanted = normalise(wanted)
    return tuple(kind for kind, wider in WIDER.items() if wanted in wider)


def as_known(columns: Mapping[str, str], known: Mapping[str, str]) -> dict[str, str]:
    """Return the columns with the types of ``known`` where those are wider; column -> type.

    A STRUCT, at any depth, gets the fields that ``known`` has beside its own.
    """
    return {name: held_as(kind, known.get(name)) for name, kind in columns.items()}


def held_as(kind: str, known: str | None) -> str:
    """Return the type of a table for values of a type: the wider one, with the fields of both.

    If there is none, ``kind``, which contradicts the table's then.

    Args:
        kind: type name.
        known: the table's type; None: it does not have the column.
    """
    if known is None:
        return kind
    found = _join(normalise(known), normalise(kind), narrower=True)
    return found if isinstance(found, str) else kind
