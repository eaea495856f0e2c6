"""Plan what a read fetches: pure, printable, with a reason for every part that is skipped."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from firnline.commit.keys import check_deleted
from firnline.errors import UsageError
from firnline.log.records import Marker
from firnline.parquet.partition import span_of
from firnline.predicate.pruning import Pruner
from firnline.predicate.tree import And, Or, Predicate, bind, columns_of, parse_json, to_sql
from firnline.properties.in_force import current, in_force
from firnline.read.task import ReadPart, ReadTask, Sources
from firnline.settings.load import TableSettings
from firnline.shown import ShownFigures
from firnline.state import partitions
from firnline.state.snapshot import Snapshot
from firnline.types.calendar import timestamp_text
from firnline.types.schema import normalise
from firnline.types.sql import fold_name
from firnline.types.values import Stats

_TIMES = {"TIMESTAMP": "", "TIMESTAMP WITH TIME ZONE": "Z"}
"""Types of partition columns whose bounds follow from a directory's name -> suffix of the text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """Options of a read."""

    columns: tuple[str, ...] | None = None
    """Names in the order wanted; None: all columns of the table."""
    where: Predicate | None = None
    dedup: bool | None = None
    """One row per primary key; None: if the table has one."""
    partitions: tuple[str, ...] = ()
    """Globs over partition paths; empty for all."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ReadPlan(ShownFigures):
    """Parts to read, by partition in the order of insertion, and what to do with the rows."""

    seq: int
    as_of: int | None
    task: ReadTask
    """The whole read."""
    where: Predicate | None
    """The bound form of ``task.where``."""
    where_early: Predicate | None = None
    """The bound form of ``task.where_early``."""
    hidden: tuple[Predicate, ...] = ()
    """The conditions of ``task.hidden``, unbound: true for rows hidden by deletes."""
    schema: Mapping[str, str]
    """The table's columns that ``where`` and ``hidden`` are about: column -> SQL type."""
    partitions: tuple[str, ...]
    """Names of the partitions that are read; ``ReadPart.partition`` is an index into it."""
    passed_over: Mapping[str, int]
    """Number of live parts that are not read, by reason."""
    bytes_passed_over: int

    @property
    def nothing_to_do(self) -> bool:
        """True if no part can hold a wanted row."""
        return not self.task.parts

    def tasks(self, max_bytes: int) -> Iterator[ReadTask]:
        """Yield the read in pieces of about ``max_bytes`` of parts, for independent workers.

        With one row per key a piece holds whole partitions, however large these are: the rows of
        a key may be in any part of a partition.
        """
        return split_task(self.task, max_bytes)

    def to_json(self) -> dict[str, Any]:
        """Return plain data: what is read and what is not."""
        return {
            "seq": self.seq,
            "as_of": self.as_of,
            "columns": [name for name, _ in self.task.columns],
            "partitions": len(self.partitions),
            "parts": len(self.task.parts),
            "bytes": self.task.bytes,
            "with_deletes": sum(part.hidden >= 0 for part in self.task.parts),
            "dedup": bool(self.task.primary_key),
            "passed_over": dict(self.passed_over),
            "bytes_passed_over": self.bytes_passed_over,
        }


def plan_read(snapshot: Snapshot, settings: TableSettings, options: ReadOptions) -> ReadPlan:
    """Choose the parts to read.

    A part is skipped if its partition is not selected, or if its statistics, its hash ranges or its
    partition's name prove that no row matches. With one row per key only the conditions of
    ``where`` on the key's columns count for that: the newest row of a key may be in a part that the
    rest of ``where`` rules out, and without that part an older row would come back.

    Raises:
        UsageError: a column that the table does not have, a glob that matches no partition, dedup
            of a table without primary key, a ``where`` that cannot be bound.
        PropertiesDifferError: with dedup, if the settings name another key than the table.
    """
    properties = current(snapshot.properties)
    settings = in_force(settings, properties, any_key=options.dedup is False)
    schema = snapshot.schema
    key = _key(snapshot, settings, options)
    where = None if options.where is None else bind(options.where, schema)
    early = where if not key or where is None else about(where, key)
    chosen = choose(snapshot, options.partitions)
    may_match = Wanted(settings, snapshot, None if early is None else Pruner(early, schema))
    kept, ruled_out = _kept(chosen[0], may_match)
    names = tuple(dict.fromkeys(partition for partition, _ in kept))
    parts, hidden = _parts(snapshot, kept, names)
    columns = _columns(schema, options.columns)
    version, deleted = (settings.version, settings.deleted) if key else (None, None)
    key_columns = (*key, *(name for name in (version, deleted) if name))
    needed = _needed(snapshot, columns, where, hidden, key_columns)
    parts, sources = _with_sources(snapshot, kept, parts, [name for name, _ in needed])
    task = ReadTask(
        parts=parts,
        columns=columns,
        needed=needed,
        where=None if where is None else to_sql(where, schema),
        where_early=None if early is None else to_sql(early, schema),
        hidden=tuple(to_sql(tree, schema) for tree in hidden),
        sources=sources,
        primary_key=key,
        version=version,
        deleted=deleted,
    )
    passed_over = {"is in another partition": chosen[1], "no row can match": len(ruled_out)}
    return ReadPlan(
        seq=snapshot.seq,
        as_of=snapshot.as_of,
        task=task,
        where=where,
        where_early=early,
        hidden=hidden,
        schema=schema,
        partitions=names,
        passed_over={reason: number for reason, number in passed_over.items() if number},
        bytes_passed_over=chosen[2] + sum(marker.b for marker in ruled_out),
    )


def plan_hidden(snapshot: Snapshot, kept: Sequence[tuple[str, Marker]]) -> ReadTask:
    """Return a read of the rows that deletes hide in some parts, for ``read.hidden``.

    Args:
        snapshot: the state.
        kept: live parts with pending deletes, each with its partition.
    """
    names = tuple(dict.fromkeys(partition for partition, _ in kept))
    parts, hidden = _parts(snapshot, kept, names)
    needed = _needed(snapshot, (), None, hidden, ())
    parts, sources = _with_sources(snapshot, kept, parts, [name for name, _ in needed])
    return ReadTask(
        parts=parts,
        columns=(),
        needed=needed,
        hidden=tuple(to_sql(tree, snapshot.schema) for tree in hidden),
        sources=sources,
    )


def _kept(
    chosen: Mapping[str, list[Marker]], may_match: Wanted
) -> tuple[list[tuple[str, Marker]], list[Marker]]:
    """Return the parts to read with their partitions, in order of insertion, and skipped parts."""
    kept: list[tuple[str, Marker]] = []
    ruled_out: list[Marker] = []
    for partition, markers in chosen.items():
        for marker in sorted(markers, key=lambda m: (*m.order(), m.p)):
            if may_match(partition, marker):
                kept.append((partition, marker))
            else:
                ruled_out.append(marker)
    return kept, ruled_out


def _key(snapshot: Snapshot, settings: TableSettings, options: ReadOptions) -> tuple[str, ...]:
    if options.dedup is False or (options.dedup is None and not settings.primary_key):
        return ()
    if not settings.primary_key:
        raise UsageError(
            f"table {settings.name} has no primary key, so one row per key cannot be chosen",
            next_step="set primary_key in the settings, or read without dedup",
        )
    if not snapshot.live:
        return ()
    check_deleted(settings, snapshot.schema)
    named = [*settings.primary_key, *((settings.version,) if settings.version else ())]
    columns = {fold_name(name) for name in snapshot.schema}
    for column in named:
        if fold_name(column) not in columns:
            raise UsageError(
                f"table {settings.name} has no column {column!r} (primary_key or version)",
                next_step="correct the setting, or read without dedup",
            )
    return settings.primary_key


def about(where: Predicate, columns: Sequence[str]) -> Predicate | None:
    """Return the conditions that ``where`` implies for these columns alone."""
    names = {fold_name(name) for name in columns}
    if all(fold_name(name) in names for name in columns_of(where)):
        return where
    if not isinstance(where, And):
        return None
    args = [implied for arg in where.args if (implied := about(arg, columns)) is not None]
    return And(tuple(args)) if args else None


def _parts(
    snapshot: Snapshot, kept: Sequence[tuple[str, Marker]], names: Sequence[str]
) -> tuple[tuple[ReadPart, ...], tuple[Predicate, ...]]:
    """Return the parts, and what is true for hidden rows for each value of ``ReadPart.hidden``."""
    numbers = {name: number for number, name in enumerate(names)}
    sets: dict[tuple[str, ...], int] = {}
    trees: list[Predicate] = []
    parts: list[ReadPart] = []
    for place, (partition, marker) in enumerate(kept):
        pending = snapshot.pending_deletes(marker, partition)
        hidden = -1
        if pending:
            ids = tuple(d.id for d in pending)
            hidden = sets.setdefault(ids, len(sets))
            if hidden == len(trees):
                trees.append(Or(tuple(parse_json(delete.where) for delete in pending)))
        parts.append(
            ReadPart(
                key=marker.p,
                bytes=marker.b,
                place=place,
                partition=numbers[partition],
                hidden=hidden,
                rows=-1 if marker.n is None else marker.n,
            )
        )
    return tuple(parts), tuple(trees)


def _with_sources(
    snapshot: Snapshot,
    kept: Sequence[tuple[str, Marker]],
    parts: tuple[ReadPart, ...],
    columns: Sequence[str],
) -> tuple[tuple[ReadPart, ...], tuple[Sources, ...]]:
    """Return the parts with their own names of the columns to read."""
    if not snapshot.changes:
        return parts, ()
    numbers: dict[Sources, int] = {(): -1}
    renamed: list[ReadPart] = []
    for (_, marker), part in zip(kept, parts, strict=True):
        sources = snapshot.columns_of(marker).only(columns)
        number = numbers.setdefault(sources, len(numbers) - 1)
        renamed.append(msgspec.structs.replace(part, sources=number))
    return tuple(renamed), tuple(sources for sources in numbers if sources)


def _columns(schema: Mapping[str, str], asked: Sequence[str] | None) -> tuple[tuple[str, str], ...]:
    if asked is None:
        return tuple(schema.items())
    spelled = {fold_name(name): name for name in schema}
    for name in asked:
        if fold_name(name) not in spelled:
            raise UsageError(
                f"the table has no column {name!r}",
                next_step=f"choose among {', '.join(schema) or 'none'}",
            )
    names = dict.fromkeys(spelled[fold_name(name)] for name in asked)
    return tuple((name, schema[name]) for name in names)


def _needed(
    snapshot: Snapshot,
    columns: Iterable[tuple[str, str]],
    where: Predicate | None,
    hidden: Iterable[Predicate],
    key: Iterable[str],
) -> tuple[tuple[str, str], ...]:
    """Return the columns to read, in the table's order; at least one, which DuckDB requires."""
    used: list[str] = [name for name, _ in columns]
    used += columns_of(where) if where is not None else ()
    for tree in hidden:
        used += columns_of(tree)
    used += key
    names = {fold_name(name) for name in used}
    needed = tuple((n, kind) for n, kind in snapshot.schema.items() if fold_name(n) in names)
    return needed or tuple(snapshot.schema.items())[:1]


def split_task(task: ReadTask, max_bytes: int) -> Iterator[ReadTask]:
    """Yield a read in pieces, as ``ReadPlan.tasks``."""
    held: list[ReadPart] = []
    size = 0
    for unit in units(task):
        more = sum(part.bytes for part in unit)
        if held and size + more > max_bytes:
            yield piece_of(task, held)
            held, size = [], 0
        held += unit
        size += more
    if held:
        yield piece_of(task, held)


def units(task: ReadTask) -> Iterator[list[ReadPart]]:
    """Yield the parts that one worker must read together."""
    if not task.primary_key:
        yield from ([part] for part in task.parts)
        return
    same: dict[int, list[ReadPart]] = {}
    for part in task.parts:
        same.setdefault(part.partition, []).append(part)
    yield from same.values()


def piece_of(task: ReadTask, parts: Sequence[ReadPart]) -> ReadTask:
    """Return the read of some parts, with only the conditions that they need."""
    used = sorted({part.hidden for part in parts if part.hidden >= 0})
    number = {-1: -1, **{old: new for new, old in enumerate(used)}}
    return msgspec.structs.replace(
        task,
        parts=tuple(msgspec.structs.replace(part, hidden=number[part.hidden]) for part in parts),
        hidden=tuple(task.hidden[i] for i in used),
    )


def choose(snapshot: Snapshot, globs: Sequence[str]) -> tuple[Mapping[str, list[Marker]], int, int]:
    """Return the live parts of the selected partitions, and number and bytes of the others."""
    every = snapshot.partitions
    if not globs:
        return every, 0, 0
    chosen = {name: every[name] for name in partitions.choose(every, globs)}
    left = [m for name, parts in every.items() if name not in chosen for m in parts]
    return chosen, len(left), sum(m.b for m in left)


class Wanted:
    """Decides if a part can hold a wanted row."""

    def __init__(self, settings: TableSettings, snapshot: Snapshot, pruner: Pruner | None) -> None:
        self._settings = settings
        self._snapshot = snapshot
        self._pruner = pruner
        self._named: dict[str, Stats] = {}

    def __call__(self, partition: str, marker: Marker) -> bool:
        if self._pruner is None:
            return True
        if partition not in self._named:
            self._named[partition] = _by_name(partition, self._settings, self._snapshot.schema)
        stats = {**self._named[partition], **self._snapshot.stats_of(marker)}
        return not self._pruner.matches_nothing(stats, self._snapshot.hashes_of(marker))


def _by_name(partition: str, settings: TableSettings, schema: Mapping[str, str]) -> Stats:
    """Return bounds that follow from a directory's name, for parts without own statistics."""
    stats: Stats = {}
    for column, (start, end) in (span_of(partition, settings.partition_by) or {}).items():
        zone = _TIMES.get(normalise(schema.get(column, "")))
        if zone is None:
            continue
        low, high = (timestamp_text(us) + zone for us in (start * 1000, end * 1000 - 1))
        stats[column] = (low, high, 0)
    return stats
