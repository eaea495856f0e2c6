"""Schema changes without a rewrite of parts: widened, renamed and dropped columns (RFC 4).

A change is a record with a sequence number, like a delete: it applies to every part with a smaller
one that does not name it in ``d``. Only this module maps the columns of such a part, or of the
schema line of such a log file, to those of the table. Pure functions.

The record has the form of a delete whose predicate older versions do not understand: they refuse
the table, instead of reading its parts without the change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from firnline.errors import LogCorruptError, UsageError
from firnline.log.records import Delete
from firnline.next_steps import UPGRADE_OR_RESTORE
from firnline.predicate.tree import columns_of, parse_json
from firnline.types.hashes import Hashes, HashRange
from firnline.types.order import Order, SortKey
from firnline.types.schema import held_as, normalise
from firnline.types.sql import fold_name
from firnline.types.values import Stats, canonical

MARK = b'"schema"'
"""Bytes in every record that changes the schema, and rarely in another record."""


class Evolved(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    tag_field="op",
    tag="schema",
    forbid_unknown_fields=True,
    omit_defaults=True,
):
    """The changes of columns; the predicate tree of the record."""

    widen: dict[str, str] = {}
    """Column -> its wider type."""
    rename: dict[str, str] = {}
    """Column -> its new name."""
    drop: tuple[str, ...] = ()

    def in_words(self, verb: str = "is") -> str:
        """Return a short description: ``a is BIGINT; b is c; d is gone``."""
        clauses = [f"{column} {verb} {kind}" for column, kind in self.widen.items()]
        clauses += [f"{old} {verb} {new}" for old, new in self.rename.items()]
        return "; ".join([*clauses, *(f"{column} {verb} gone" for column in self.drop)])


class SchemaChange(NamedTuple):
    """A schema change, which parts written before it do not contain."""

    id: str
    seq: int
    t: int
    """Time of its transaction, unix milliseconds."""
    what: Evolved


@dataclass(frozen=True, slots=True)
class PartColumns:
    """The mapping of the columns of a part to those of the table."""

    made_of: Mapping[str, tuple[str, tuple[str, ...]]] = field(default_factory=dict)
    """``fold_name`` of a column -> (the column, its names in the part). Of several names, the first
    with a value counts, row by row; without any, the part does not have the column, even if it
    holds one of that name. A column that is not in the mapping has its own name in the part."""

    def names(self, column: str) -> tuple[str, ...]:
        """Return the names in the part of a column of the table."""
        names = self.made_of.get(fold_name(column))
        return (column,) if names is None else names[1]

    def column(self, name: str) -> str | None:
        """Return the column of the table for a column of the part; None if it is hidden."""
        folded = fold_name(name)
        for column, names in self.made_of.values():
            if folded in map(fold_name, names):
                return column
        return None if folded in self.made_of else name

    def only(self, columns: Iterable[str]) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """Return (column, names in the part) of the columns that are in the mapping."""
        folded = {fold_name(column) for column in columns}
        return tuple(made for key, made in sorted(self.made_of.items()) if key in folded)


AS_IT_IS = PartColumns()
"""Mapping of a part whose columns are those of the table."""


def split(deletes: Iterable[Delete]) -> tuple[dict[str, Delete], tuple[SchemaChange, ...]]:
    """Return the deletes by id, and the schema changes by sequence number.

    A delete that names a column which a later change renamed or dropped is over: otherwise that
    change would have been refused. An older checkpoint, or a rebuild, may still contain its record,
    which can no longer be applied; it is left out.

    Raises LogCorruptError for a change that this version does not understand.
    """
    rows: dict[str, Delete] = {}
    changes: dict[str, SchemaChange] = {}
    for record in deletes:
        what = _what(record)
        if what is None:
            rows[record.id] = record
        else:
            changes[record.id] = SchemaChange(record.id, record.seq, record.t, what)
    ordered = tuple(sorted(changes.values(), key=lambda c: (c.seq, c.id)))
    if ordered:
        rows = {key: delete for key, delete in rows.items() if not _outlived(delete, ordered)}
    return rows, ordered


def _outlived(delete: Delete, changes: Sequence[SchemaChange]) -> bool:
    gone = {
        fold_name(column)
        for change in changes
        if change.seq > delete.seq
        for column in (*change.what.rename, *change.what.drop)
    }
    if not gone:
        return False
    try:
        return any(fold_name(name) in gone for name in columns_of(parse_json(delete.where)))
    except UsageError:
        return False  # reported where it is applied


def record(change_id: str, what: Evolved) -> Delete:
    """Return the record of a change for a new transaction, which sets ``seq`` and ``t``."""
    return Delete(id=change_id, seq=0, t=0, where=msgspec.Raw(msgspec.json.encode(what)))


def record_of(change: SchemaChange) -> Delete:
    """Return the record of a change as log files hold it."""
    return msgspec.structs.replace(record(change.id, change.what), seq=change.seq, t=change.t)


def is_change(delete: Delete) -> bool:
    """Return True if a record changes the schema and hides no row. Raises as ``split``."""
    return _what(delete) is not None


class _Op(msgspec.Struct, frozen=True):
    op: str = ""


def _what(delete: Delete) -> Evolved | None:
    if MARK not in bytes(delete.where):
        return None
    try:
        if msgspec.json.decode(delete.where, type=_Op).op != "schema":
            return None
        return msgspec.json.decode(delete.where, type=Evolved)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise LogCorruptError(
            f"record {delete.id} of transaction {delete.seq}, which changes columns, cannot be "
            f"read: {error}",
            next_step=UPGRADE_OR_RESTORE,
        ) from None


def pending(
    changes: Sequence[SchemaChange], q: int, applied: Iterable[str] = ()
) -> tuple[SchemaChange, ...]:
    """Return the changes that apply to a part, or a schema line, of sequence ``q``."""
    if not changes or changes[-1].seq <= q:
        return ()
    done = frozenset(applied)
    return tuple(change for change in changes if change.seq > q and change.id not in done)


def part_columns(changes: Sequence[SchemaChange]) -> PartColumns:
    """Return the mapping of the columns of a part to those of the table.

    A part to which a rename applies may nevertheless have the new name: its writer took its
    sequence before the rename, and its columns after it. So the new name counts too, after the
    old one.

    Args:
        changes: those that are pending on the part, by sequence.
    """
    made: dict[str, tuple[str, tuple[str, ...]]] = {}
    for change in changes:
        for column in change.what.drop:
            made[fold_name(column)] = (column, ())
        for old, new in change.what.rename.items():
            first = made.get(fold_name(old), (old, (old,)))[1]
            own = made.get(fold_name(new), (new, (new,)))[1]
            folded = {fold_name(name) for name in first}
            made[fold_name(new)] = (new, (*first, *(n for n in own if fold_name(n) not in folded)))
            made[fold_name(old)] = (old, ())
    return PartColumns(made) if made else AS_IT_IS


def line_now(changes: Sequence[SchemaChange], line: Mapping[str, str], q: int) -> Mapping[str, str]:
    """Return a schema line after all changes: column -> type.

    Renames and drops apply only to lines of a smaller sequence: a column of a later line with an
    old name is another one. A wider type applies to every line: it holds all values of the narrower
    one, and the writer of a line with the narrower one only did not know the change.

    Args:
        changes: all of the table, by sequence.
        line: column -> type.
        q: newest transaction that the writer knew; for a transaction's line its own number.
    """
    wider: dict[str, tuple[str, str]] = {}
    for change in changes:
        if change.seq <= q:
            _follow(wider, change.what)
    columns = _widened(line, wider)
    for change in changes:
        if change.seq > q:
            columns = _stepped(columns, change.what)
    return columns


def _follow(wider: dict[str, tuple[str, str]], what: Evolved) -> None:
    """Add the types that a change widens to ``wider``, and follow its renames and drops there."""
    for column in what.drop:
        wider.pop(fold_name(column), None)
    for old, new in what.rename.items():
        widened = wider.pop(fold_name(old), None)
        if widened is not None:
            wider[fold_name(new)] = (new, widened[1])
    wider.update({fold_name(column): (column, kind) for column, kind in what.widen.items()})


def _widened(line: Mapping[str, str], wider: Mapping[str, tuple[str, str]]) -> Mapping[str, str]:
    if not wider:
        return line
    columns = dict(line)
    for name, kind in line.items():
        # A line may have fields that the change does not know, and lack fields that it has.
        _, wider_kind = wider.get(fold_name(name), ("", kind))
        columns[name] = held_as(kind, wider_kind)
    return columns


def _stepped(line: Mapping[str, str], what: Evolved) -> Mapping[str, str]:
    """Return a line after one change."""
    gone = {fold_name(column) for column in what.drop}
    renamed = {fold_name(old): new for old, new in what.rename.items()}
    columns: dict[str, str] = {}
    for name, kind in line.items():
        if fold_name(name) in gone:
            continue
        now = renamed.get(fold_name(name), name)
        other = columns.get(now)
        # Both names are in one line: of two types the one that contradicts the table's counts, so
        # that the reader reports the conflict.
        if other is None or normalise(other) == normalise(kind) or now == name:
            columns[now] = kind
    return _widened(columns, {fold_name(c): (c, kind) for c, kind in what.widen.items()})


def stats_now(columns: PartColumns, stats: Stats, schema: Mapping[str, str]) -> Stats:
    """Return a part's statistics with the names and types of the table.

    A column with two names in the part has none, and neither has one whose bounds are not values of
    its present type: without statistics it may hold any value.
    """
    kinds = {fold_name(name): (name, normalise(kind)) for name, kind in schema.items()}
    bounds: Stats = {}
    for name, (low, high, nulls) in stats.items():
        column = columns.column(name)
        held = None if column is None else kinds.get(fold_name(column))
        if held is None or len(columns.names(held[0])) != 1:
            continue
        try:
            first, last = (None if v is None else canonical(held[1], v) for v in (low, high))
        except ValueError:
            continue
        bounds[held[0]] = (first, last, nulls)
    return bounds


def order_now(columns: PartColumns, order: Order, schema: Mapping[str, str]) -> Order:
    """Return a part's sort order with the names of the table; as far as the table has the columns.

    A column that has two names in the part ends it, too: its values are of either. Types that
    widened since keep the order of their values.
    """
    spelled = {fold_name(name): name for name in schema}
    keys: list[SortKey] = []
    for key in order:
        now = columns.column(key.column)
        name = None if now is None else spelled.get(fold_name(now))
        if name is None or len(columns.names(name)) != 1:
            break
        keys.append(SortKey(name, key.descending))
    return tuple(keys)


def hashes_now(columns: PartColumns, hashes: Hashes, schema: Mapping[str, str]) -> Hashes:
    """Return a part's hash ranges with the names of the table.

    A range over a column with two names in the part, or with none, is left out. One over a column
    of another type stays: it names the bytes that were hashed.
    """
    spelled = {fold_name(name): name for name in schema}
    ranges: list[HashRange] = []
    for each in hashes:
        now = [columns.column(name) for name in each.columns]
        names = [spelled[fold_name(n)] for n in now if n is not None and fold_name(n) in spelled]
        if len(names) == len(now) and all(len(columns.names(name)) == 1 for name in names):
            ranges.append(msgspec.structs.replace(each, columns=tuple(names)))
    return tuple(ranges)
