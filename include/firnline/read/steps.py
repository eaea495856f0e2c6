"""Plan the changes between two offsets, step by step (docs/format.md, "The feed of changes").

A step is a transaction, or the appends that it folded first, which come before it. The rows of a
state are those that ``plan_read`` gives for its parts and delete records; which rows a step changed
follows from the states before and after it. Pure functions.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import msgspec

from firnline.errors import StreamBehindError
from firnline.log.records import REARRANGING, Delete, LogContent, Marker, TxnMark
from firnline.log.schema_changes import split
from firnline.predicate.tree import (
    And,
    GreaterEqual,
    LessEqual,
    Or,
    Predicate,
    bind,
    parse_json,
    to_sql,
)
from firnline.properties.in_force import IDENTITY
from firnline.properties.record import Properties
from firnline.read.offsets import Offset, View
from firnline.read.plan import ReadOptions, about, plan_read
from firnline.read.task import ChangeTask, ReadTask
from firnline.settings.load import TableSettings
from firnline.state.partitions import matches
from firnline.state.snapshot import Snapshot
from firnline.types.schema import normalise
from firnline.types.sql import fold_name

BEGIN_AGAIN = (
    "begin again without `since`: that gives the rows of now as inserts, and a position to "
    "continue from"
)
STATE = "state"
"""Reason of rows that were there when the feed began."""
APPEND = "append"
_SILENT = REARRANGING | {"repartition", "evolve"}
"""Operations after which every reader sees the same rows as before: the feed compares rows over all
partitions, and in the columns of now."""
_BOUNDED = frozenset({"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "VARCHAR"})
"""Types of keys whose statistics limit the parts to compare."""
_IN_PLACE = frozenset({"delete", "erase", "rewrite", "update", "ttl", "drop"})
"""Operations whose new parts have only rows of replaced parts of the same partition."""


@dataclass(frozen=True, slots=True)
class Effect:
    """A transaction's own part of the log: the parts that it brought and ended, its deletes."""

    mark: TxnMark
    t: int
    own: frozenset[str]
    killed: frozenset[str]
    records: tuple[Delete, ...]
    """Its own records, and those that it took over from other log files."""
    properties: tuple[Properties, Properties] | None
    """Those before and after it, if it changed them."""

    @classmethod
    def of(cls, content: LogContent, mark: TxnMark) -> Effect:
        """Return the effect of the transaction that published this log file."""
        records = sorted(content.properties, key=lambda record: record.seq)
        changed = len(records) > 1 and records[-1].seq == mark.seq
        return cls(
            mark=mark,
            t=content.t,
            own=frozenset(m.p for m in content.markers if m.t == content.t and m.tmb is None),
            killed=frozenset(m.p for m in content.markers if m.tmb == content.t),
            records=tuple(content.deletes),
            properties=(records[-2].values, records[-1].values) if changed else None,
        )

    @property
    def hides(self) -> dict[str, Delete]:
        """Return its own records that hide rows, by id."""
        own = (record for record in self.records if record.seq == self.mark.seq)
        return split(own)[0]

    @property
    def silent(self) -> bool:
        """Return True if it changes no row that a reader sees, in a table without a key."""
        # A merge of a version that does not state it may have run a query: it is compared.
        return self.mark.op in _SILENT and (self.mark.op != "merge" or self.mark.query is False)


def check(effects: Iterable[Effect]) -> None:
    """Raise StreamBehindError if rows before a transaction cannot be compared with those after."""
    for effect in effects:
        seq, op = effect.mark.seq, effect.mark.op
        recorded = any(change.seq == seq for change in split(effect.records)[1])
        if op in ("evolve", "schema-fix") and not recorded:
            raise StreamBehindError(
                f"transaction {seq} has changed the table's columns at once, so rows from before "
                "it cannot be given in the columns of now",
                next_step=BEGIN_AGAIN,
            )
        if effect.properties is not None:
            before, after = (_identity(one) for one in effect.properties)
            if before != after:
                raise StreamBehindError(
                    f"transaction {seq} has changed which rows are one row ({', '.join(IDENTITY)})",
                    next_step=BEGIN_AGAIN,
                )


def _identity(properties: Properties) -> list[object]:
    plain = properties.plain()
    return [plain[name] for name in IDENTITY]


@dataclass(frozen=True, kw_only=True)
class Known:
    """The table, and what its log says of the time since an offset."""

    snapshot: Snapshot
    settings: TableSettings
    """With the properties in force."""
    view: View
    effects: Mapping[int, Effect]
    """Of every transaction after the offset."""
    brought: Mapping[str, tuple[Marker, ...]]
    """Parts of appends in their current state, by the append's name."""

    @property
    def keyed(self) -> bool:
        """Return True if a reader sees one row per key."""
        return bool(self.settings.primary_key)

    @cached_property
    def killed(self) -> frozenset[str]:
        """Parts that a transaction after the offset has ended."""
        return frozenset[str]().union(*(effect.killed for effect in self.effects.values()))

    def brought_by(self, names: Iterable[str]) -> list[str]:
        """Return the parts of appends that were live at the offset, or landed after it.

        A repair of columns may have replaced a part without folding its append, and so may a client
        of version 1. If that was before the offset, another part has its rows.
        """
        markers = (m for name in sorted(names) for m in self.brought[name])
        return [m.p for m in markers if m.tmb is None or m.p in self.killed]


def needs_all(known_effects: Iterable[Effect], settings: TableSettings) -> bool:
    """Return True if all parts of the states in between have to be known."""
    return bool(settings.primary_key) or any(effect.hides for effect in known_effects)


def plan_state(known: Known, end: Offset, options: ReadOptions) -> list[ChangeTask]:
    """Return all rows of the state at an offset as inserts."""
    walk = _Walk(known, options, members_at(known, end))
    return walk.tasks(end.seq or None, STATE, (), walk.members, end.seq)


def plan_steps(known: Known, start: Offset, end: Offset, options: ReadOptions) -> list[ChangeTask]:
    """Return the changes between two offsets, in the order of the steps.

    Raises StreamBehindError for a part that is deleted; others as ``plan_read``.
    """
    effects = [known.effects[seq] for seq in range(start.seq + 1, end.seq + 1)]
    whole = needs_all(effects, known.settings)
    walk = _Walk(known, options, members_at(known, start) if whole else set())
    tasks: list[ChangeTask] = []
    seen = start.seen
    for effect in effects:
        seq = effect.mark.seq
        names = known.view.folds[seq].first - seen
        tasks += walk.append(seq, known.brought_by(names), seq - 1)
        tasks += walk.transaction(effect)
        seen -= known.view.folds[seq].every
    left = known.brought_by(end.seen - seen)
    return [*tasks, *walk.append(None, left, end.seq)]


def members_at(known: Known, offset: Offset) -> set[str]:
    """Return the parts of the state at an offset, going back from the newest state.

    Needs the effects of all transactions since, and the parts of all appends that no transaction
    up to the offset has folded.
    """
    brought, folds = known.brought, known.view.folds
    members = set(known.snapshot.live)
    for name in known.view.unfolded:
        members.difference_update(m.p for m in brought[name])
    for seq in sorted(folds, reverse=True):
        if seq <= offset.seq:
            break
        members -= known.effects[seq].own
        members |= known.effects[seq].killed
        for name in folds[seq].first:
            members.difference_update(m.p for m in brought[name])
    members.update(known.brought_by(offset.seen))
    return members


@dataclass
class _Walk:
    """A walk through the states; each step returns the changes that it makes."""

    known: Known
    options: ReadOptions
    members: set[str]
    """Parts of the state, if ``needs_all``."""
    records: dict[str, Delete] = field(init=False)
    """Every record that hides rows in one of the states, by id."""

    def __post_init__(self) -> None:
        effects = self.known.effects.values()
        taken = {record.id: record for effect in effects for record in effect.records}
        self.records = {**split(taken.values())[0], **self.known.snapshot.deletes}

    def append(self, sequence: int | None, parts: Sequence[str], upto: int) -> list[ChangeTask]:
        """Return the changes by appended parts that land after transaction ``upto``."""
        if not parts:
            return []
        if not self.known.keyed:
            self.members.update(parts)
            return self.tasks(sequence, APPEND, (), parts, upto)
        old = frozenset(self.members)
        self.members.update(parts)
        return self._keyed(sequence, APPEND, old, self._by_partition(parts), upto, upto)

    def transaction(self, effect: Effect) -> list[ChangeTask]:
        """Return the changes by a transaction itself."""
        seq, op = effect.mark.seq, effect.mark.op
        old = frozenset(self.members)
        self.members -= effect.killed
        self.members |= effect.own
        touched = self._touched(effect, old)
        if self.known.keyed:
            parts = [*effect.killed, *effect.own, *(p for each in touched.values() for p in each)]
            changed = self._reordered(effect) if effect.silent else self._by_partition(parts)
            return self._keyed(seq, op, old, changed, seq - 1, seq)
        if effect.silent:
            return []
        hidden = [
            task
            for ids, parts in touched.items()
            for task in self._read(parts, seq - 1, _any_of(effect.hides[i] for i in ids))
        ]
        if op not in _IN_PLACE:
            before = [*self._read(sorted(effect.killed), seq - 1), *hidden]
            return self._task(seq, op, before, self._read(sorted(effect.own), seq))
        tasks = self._task(seq, op, hidden, [])
        for killed, own in self._scopes(effect):
            tasks += self._task(seq, op, self._read(killed, seq - 1), self._read(own, seq))
        return tasks

    def tasks(
        self,
        sequence: int | None,
        reason: str,
        before: Collection[str],
        after: Collection[str],
        upto: int,
    ) -> list[ChangeTask]:
        """Return the difference between parts with the records up to a transaction."""
        return self._task(sequence, reason, self._read(before, upto), self._read(after, upto))

    def _task(
        self,
        sequence: int | None,
        reason: str,
        before: Sequence[ReadTask],
        after: Sequence[ReadTask],
    ) -> list[ChangeTask]:
        if not before and not after:
            return []
        where, known = self.options.where, self.known
        condition = None
        if known.keyed and where is not None:
            condition = to_sql(bind(where, known.snapshot.schema), known.snapshot.schema)
        return [
            ChangeTask(
                sequence=sequence,
                reason=reason,
                before=tuple(before),
                after=tuple(after),
                primary_key=known.settings.primary_key,
                where=condition,
            )
        ]

    def _scopes(self, effect: Effect) -> Iterator[tuple[list[str], list[str]]]:
        """Yield parts that ended and came by partition; those that nothing replaces together."""
        killed, own = self._by_partition(effect.killed), self._by_partition(effect.own)
        alone = [p for name, parts in killed.items() if name not in own for p in parts]
        if alone:
            yield alone, []
        for name, parts in own.items():
            yield killed.get(name, []), parts

    def _touched(self, effect: Effect, old: frozenset[str]) -> dict[tuple[str, ...], list[str]]:
        """Return parts that stay and in which its own records hide rows, by the records' ids."""
        own = effect.hides
        touched: dict[tuple[str, ...], list[str]] = defaultdict(list)
        if not own:
            return touched
        state = self._state([], own)
        for path in sorted(old - effect.killed):
            marker = self._marker(path)
            partition = state.paths.parse_part(path).partition
            pending = state.pending_deletes(marker, partition)
            if pending:
                touched[tuple(sorted(d.id for d in pending))].append(path)
        return touched

    def _keyed(
        self,
        sequence: int | None,
        reason: str,
        old: frozenset[str],
        changed: Mapping[str, Sequence[str]],
        before: int,
        after: int,
    ) -> list[ChangeTask]:
        """Return the changes in partitions between the parts ``old`` and those of now.

        Args:
            sequence, reason: of the step.
            old: parts before it.
            changed: parts with all keys that may have changed, by partition.
            before: newest transaction whose records count before it.
            after: newest transaction whose records count after it.
        """
        tasks: list[ChangeTask] = []
        was, now = (self._by_partition(side, changed) for side in (old, self.members))
        for name, parts in sorted(changed.items()):
            near = self._near(parts)
            left = self._read(was.get(name, []), before, near)
            right = self._read(now.get(name, []), after, near)
            tasks += self._task(sequence, reason, left, right)
        return tasks

    def _near(self, parts: Iterable[str]) -> Predicate | None:
        """Return a condition that all keys of these parts fulfil, by their statistics."""
        snapshot, first = self.known.snapshot, fold_name(self.known.settings.primary_key[0])
        column = next((name for name in snapshot.schema if fold_name(name) == first), None)
        if column is None or normalise(snapshot.schema[column]) not in _BOUNDED:
            return None
        bounds = [snapshot.stats_of(self._marker(p)).get(column) for p in parts]
        bounded = [bound for bound in bounds if bound is not None and not bound[2]]
        low: list[Any] = [bound[0] for bound in bounded]
        high: list[Any] = [bound[1] for bound in bounded]
        if len(bounded) < len(bounds) or None in low or None in high:
            return None  # a null is a key, too
        return And((GreaterEqual(column, min(low)), LessEqual(column, max(high))))

    def _reordered(self, effect: Effect) -> dict[str, list[str]]:
        """Return the parts of partitions in which an append lies within the rows that were merged.

        It landed while they were merged, was read by its time, and comes after all of them now.
        """
        reordered: dict[str, list[str]] = {}
        if not effect.own:
            return reordered
        new = self._by_partition(effect.own)
        members = self._by_partition(self.members, new)
        for name, own in new.items():
            others = [self._marker(p).order() for p in members[name] if p not in effect.own]
            spans = [self._marker(p).order() for p in own]
            if any(low <= at[1] and at[0] <= high for low, high in spans for at in others):
                reordered[name] = members[name]
        return reordered

    def _by_partition(
        self, parts: Iterable[str], only: Collection[str] | None = None
    ) -> dict[str, list[str]]:
        """Return parts by partition, sorted; ``only``: of these partitions."""
        partitions: dict[str, list[str]] = defaultdict(list)
        paths = self.known.snapshot.paths
        for path in parts:
            name = paths.partition_of(path)
            if only is None or name in only:
                partitions[name].append(path)
        return {name: sorted(partitions[name]) for name in sorted(partitions)}

    def _marker(self, path: str) -> Marker:
        snapshot = self.known.snapshot
        marker = snapshot.parts.get(path)
        if marker is None or (marker.tmb is not None and marker.tmb <= snapshot.purged):
            raise StreamBehindError(
                f"part {path} was replaced or dropped and deleted before its changes were read: "
                "`since` is further back than cleanup.grace",
                next_step=BEGIN_AGAIN,
            )
        return marker

    def _state(self, parts: Iterable[str], records: Mapping[str, Delete]) -> Snapshot:
        """Return a state of these parts, all of them live."""
        alive = {p: msgspec.structs.replace(self._marker(p), tmb=None) for p in parts}
        return replace(self.known.snapshot, parts=alive, deletes=records)

    def _read(
        self, parts: Iterable[str], upto: int, where: Predicate | None = None
    ) -> list[ReadTask]:
        """Return the read of what parts show after a transaction; none if there is no part left."""
        paths, options = self.known.snapshot.paths, self.options
        globs = options.partitions
        chosen = [p for p in parts if matches(paths.parse_part(p).partition, globs)]
        if not chosen:
            return []
        asked = options.where
        if self.known.keyed and asked is not None:
            asked = about(asked, self.known.settings.primary_key)
        both = tuple(tree for tree in (asked, where) if tree is not None)
        read_options = replace(
            options, where=And(both) if both else None, partitions=(), columns=None
        )
        records = {i: d for i, d in self.records.items() if d.seq <= upto}
        state = self._state(chosen, records)
        task = plan_read(state, self.known.settings, read_options).task
        return [task] if task.parts else []


def _any_of(records: Iterable[Delete]) -> Predicate:
    trees = tuple(parse_json(record.where) for record in records)
    return trees[0] if len(trees) == 1 else Or(trees)
