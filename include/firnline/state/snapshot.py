"""The state of a table: a two-phase set over its log files (docs/format.md, "Snapshot").

    parts      = union of all markers, keyed by path
    dead parts = union of all markers with tmb (the earliest wins; dead always beats alive)
    live parts = parts - dead parts

Union is commutative and idempotent: neither clock skew, nor the order of a listing, nor reading
a log file twice changes the result. Memory is about 0.7 KB per part, and 0.1 KB where a checkpoint
holds it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar

import msgspec

from firnline.errors import (
    DoubledRowsError,
    InvariantError,
    LogCorruptError,
    SchemaConflictError,
    SnapshotExpiredError,
    UsageError,
)
from firnline.log import dated, fence, foreign_merges, taken_back
from firnline.log.fence import NO_FENCE, Fence
from firnline.log.foreign_merges import Doubled
from firnline.log.parts_view import PartsView, orders
from firnline.log.reader import LogObject, LogRead, newest_seq, read_log
from firnline.log.records import Delete, LogContent, Marker
from firnline.log.schema_changes import (
    AS_IT_IS,
    PartColumns,
    SchemaChange,
    hashes_now,
    line_now,
    order_now,
    part_columns,
    pending,
    record_of,
    split,
    stats_now,
)
from firnline.log.schema_lines import (
    first_sequence,
    line_sequence,
    newest_before,
    schema_of,
    standing,
    times_of,
)
from firnline.log.taken_in import TakenIn, taken_in
from firnline.log.union import Past, combine, first_folded, is_live, union_parts, union_with
from firnline.next_steps import UPGRADE_OR_RESTORE
from firnline.paths import LogName, TablePaths
from firnline.predicate.pruning import Pruner
from firnline.predicate.tree import parse_json
from firnline.properties import record as log_properties
from firnline.properties.record import PropertiesRecord
from firnline.state.folded import parts_of
from firnline.state.health import Watch
from firnline.state.twins import refuse_twins, twins_of
from firnline.store.base import Store
from firnline.types.hashes import Hashes
from firnline.types.order import Order
from firnline.types.values import Stats

ValueT = TypeVar("ValueT")

if TYPE_CHECKING:
    from firnline.log.checkpoint import Checkpoint

__all__ = ["Snapshot", "build", "combine", "mark_dead", "read_snapshot", "standing", "union_parts"]

CHECKPOINT_ABOVE = 8 * 2**20
"""Bytes of listed log files (about 35,000 parts) above which a checkpoint is worth its two requests
over reading the log."""


class StateColumns:
    """The columns of a state; the fields are those of ``Snapshot``."""

    listing: Mapping[str, LogObject]
    contents: Mapping[str, LogContent]
    schema: Mapping[str, str]
    deletes: Mapping[str, Delete]
    changes: tuple[SchemaChange, ...]
    times: tuple[tuple[int, int], ...]
    dated: Mapping[int, int]
    _columns: dict[tuple[str, ...], PartColumns]

    def sequence_of(self, marker: Marker) -> int:
        """Return the data sequence of a part; without one, the newest transaction before ``t``."""
        if marker.q is not None:
            return marker.q
        if not self.dated:
            return newest_before(self.times, marker.t)
        return newest_before(self._clock_times, self.dated.get(marker.t, marker.t))

    @cached_property
    def _clock_times(self) -> tuple[tuple[int, int], ...]:
        """Pairs (time at which it took effect, seq) of the known transactions, sorted.

        A transaction may be dated years ahead; a client of version 1 dates its parts by its own
        clock.
        """
        return tuple(sorted((self.dated.get(t, t), seq) for t, seq in self.times))

    @property
    def records(self) -> Mapping[str, Delete]:
        """All records with a sequence, by id: deletes, and changes of the schema."""
        return {**self.deletes, **{change.id: record_of(change) for change in self.changes}}

    def pending_changes(self, marker: Marker) -> tuple[SchemaChange, ...]:
        """Return the schema changes that a part does not contain yet; a merge rewrites it."""
        if not self.changes:
            return ()
        return pending(self.changes, self.sequence_of(marker), marker.d or ())

    def columns_of(self, marker: Marker) -> PartColumns:
        """Return the mapping from the columns that a part holds to the table's columns."""
        changes = self.pending_changes(marker)
        if not changes:
            return AS_IT_IS
        ids = tuple(change.id for change in changes)
        columns = self._columns.get(ids)
        if columns is None:
            columns = self._columns[ids] = part_columns(changes)
        return columns

    def stats_of(self, marker: Marker) -> Stats:
        """Return the statistics of a part, with the column names and types of the table."""
        if not self.changes:
            return marker.stats()
        return stats_now(self.columns_of(marker), marker.stats(), self.schema)

    def hashes_of(self, marker: Marker) -> Hashes:
        """Return the hash ranges of a part, with the column names of the table."""
        hashes = marker.hashes()
        if not hashes or not self.changes:
            return hashes
        return hashes_now(self.columns_of(marker), hashes, self.schema)

    def sorted_by(self, marker: Marker) -> Order:
        """Return what a part says that its rows are sorted by, with the column names of the table.

        Only speed may depend on it; nothing where the part says nothing.
        """
        order = marker.sorted_by()
        if not order or not self.changes:
            return order
        return order_now(self.columns_of(marker), order, self.schema)

    def types_in_parts(self) -> dict[str, str]:
        """Return the types of columns by the table's names and by earlier names found in parts."""
        types: dict[str, str] = {}
        for column, names in part_columns(self.changes).made_of.values():
            if column in self.schema:
                types.update(dict.fromkeys(names, self.schema[column]))
        return {**types, **self.schema}

    def line(self, key: str) -> Mapping[str, str]:
        """Return the schema line of a log file of this state, translated to today's columns."""
        return self.line_of(self.listing[key].name, self.contents[key])

    def line_of(self, name: LogName, content: LogContent) -> Mapping[str, str]:
        """Return the translated schema line of any log file, one not in this state included."""
        if not self.changes:
            return content.schema
        q = line_sequence(name, first_sequence(content.markers), self.times)
        return line_now(self.changes, content.schema, q)


@dataclass(frozen=True)
class Snapshot(StateColumns):
    """One consistent state of a table, and the log files it was made from."""

    paths: TablePaths
    listing: Mapping[str, LogObject]
    contents: Mapping[str, LogContent]
    parts: Mapping[str, Marker]
    """Every part that a marker names, dead ones included, by path."""
    log_tombstones: Mapping[str, int]
    """Time at which it was first folded, by folded log file."""
    deletes: Mapping[str, Delete]
    """Records that hide rows, by id."""
    other: frozenset[bytes]
    """Extension records of kinds unknown to this version."""
    schema: Mapping[str, str]
    """SQL type name by column; with a ``conflict`` only the columns without contradiction."""
    seq: int
    """Newest transaction among the names in the listing; 0 if there is none."""
    purged: int
    """Every part tombstoned at or before this time is confirmed deleted."""
    as_of: int | None = None
    times: tuple[tuple[int, int], ...] = field(default=(), repr=False)
    """Pairs (t, seq) of the known transactions, sorted."""
    dated: Mapping[int, int] = field(default_factory=dict, repr=False)
    """Time at which it took effect, by the ``t`` of log files dated far ahead (``log.dated``)."""
    _past: Past | None = field(default=None, repr=False)
    """Filter of dates, for a state of the past."""
    covered: frozenset[str] = field(default=frozenset(), repr=False)
    """Log files that the checkpoint covers."""
    unpublished: str = ""
    """Key of the newest transaction's log file if it is committed and not yet published: listing
    and contents include it."""
    conflict: SchemaConflictError | None = field(default=None, repr=False, compare=False)
    """The contradiction between schema lines, if it is tolerated."""
    doubled: tuple[Doubled, ...] = ()
    """Live parts of clients of version 1 with rows of parts that were dead (``foreign_merges``)."""
    changes: tuple[SchemaChange, ...] = ()
    """Schema changes that parts may not contain yet, by sequence. A state of the past has those of
    today too: its columns are today's."""
    properties: tuple[PropertiesRecord, ...] = ()
    """Property records, oldest first, each with the time since which it is visible."""
    digest: str = ""
    """Digest of the newest transaction (``log.chain``); empty if the log does not have it."""
    fence: Fence = NO_FENCE
    """What began before this transaction has ended (``log.fence``)."""
    behind: Mapping[str, LogObject] = field(default_factory=dict, repr=False)
    """Log files that exist and count for nobody; neither listing nor contents have them."""
    behind_since: Mapping[str, int] = field(default_factory=dict, repr=False)
    """When readers began to leave each of them out, unix ms."""
    behind_parts: frozenset[str] = field(default=frozenset(), repr=False)
    """Parts that those log files bring."""
    _columns: dict[tuple[str, ...], PartColumns] = field(
        default_factory=dict, repr=False, compare=False
    )
    """Cache of ``columns_of``, by the ids of the changes."""
    _pruners: dict[str, Pruner] = field(default_factory=dict, repr=False, compare=False)
    """Cache by delete id: a delete may name 100,000 keys, and a table has many parts."""

    @cached_property
    def live(self) -> Mapping[str, Marker]:
        """The live parts by path."""
        if isinstance(self.parts, PartsView):
            return self.parts.live(self._past)
        if self._past is None:
            dead = [p for p, m in self.parts.items() if m.tmb is not None]
            if not dead:
                return self.parts
            live = dict(self.parts)  # most parts are live: copying and removing is the quicker way
            for path in dead:
                del live[path]
            return live
        return {p: m for p, m in self.parts.items() if is_live(m, self._past)}

    def effective(self, t: int) -> int:
        """Return when a transaction or append that is dated ``t`` took effect, unix ms.

        If a date is far ahead and no record of it exists any more, return the latest time at which
        it can have taken effect, since transactions take effect in the order of their dates.
        """
        at = self.dated.get(t)
        if at is not None:
            return at
        if not self.dated:
            return t
        newest = max((item.modified_ms for item in self.listing.values()), default=t)
        if not dated.is_far(t, newest, transaction=True):
            return t
        return min((seen for later, seen in self.dated.items() if later > t), default=newest)

    @cached_property
    def partitions(self) -> Mapping[str, list[Marker]]:
        """Live parts by partition path, partitions sorted by name."""
        if isinstance(self.live, PartsView):
            return self.live.by_partition()
        grouped: dict[str, list[Marker]] = {}
        for path, marker in self.live.items():
            grouped.setdefault(self.paths.partition_of(path), []).append(marker)
        return dict(sorted(grouped.items()))

    @property
    def log(self) -> LogRead:
        """The log files of this state, without the checkpoint."""
        return LogRead(self.listing, self.contents)

    @property
    def not_taken_in(self) -> tuple[TakenIn, ...]:
        """Appends that no transaction has taken in yet, as the next one will state them.

        What a checkpoint covers is taken in: a transaction writes it, and folds each append.
        """
        return taken_in((self.listing[key].name, self.contents[key]) for key in standing(self.log))

    @cached_property
    def skipped(self) -> frozenset[str]:
        """Log files that exist and were not read: folded by a transaction, or in the checkpoint."""
        return frozenset(self.listing.keys() - self.contents.keys())

    @property
    def newest_t(self) -> int:
        """Largest ``t`` among the names of the log files; 0 if the table is empty."""
        return max((item.name.t for item in self.listing.values()), default=0)

    def pending_deletes(self, marker: Marker, partition: str) -> list[Delete]:
        """Return the deletes that may still hide rows of a part (by sequence, partition, stats)."""
        if not self.deletes:
            return []
        q, applied = self.sequence_of(marker), marker.d or ()
        waiting = [
            d
            for d in self.deletes.values()
            if d.seq > q and d.id not in applied and _covers(d, partition)
        ]
        if self.conflict is not None:
            return waiting  # a predicate cannot be bound to columns with contradictory types
        if not waiting:
            return []
        stats, hashes = self.stats_of(marker), self.hashes_of(marker)
        return [d for d in waiting if not self._pruner(d).matches_nothing(stats, hashes)]

    def deletes_of(self, markers: Iterable[Marker], partition: str) -> tuple[Delete, ...]:
        """Return the deletes that may still hide rows of some parts, by their numbers."""
        if not self.deletes:
            return ()
        found = {d.id: d for m in markers for d in self.pending_deletes(m, partition)}
        return tuple(sorted(found.values(), key=lambda d: (d.seq, d.id)))

    def newest_record(self, partition: str) -> int:
        """Return the number of the newest delete or schema change that may concern a partition.

        None is pending for a part of that data sequence or a later one. 0: there is none.
        """
        covering = (d.seq for d in self.deletes.values() if _covers(d, partition))
        return max((*covering, *(change.seq for change in self.changes)), default=0)

    def orders(self) -> Iterator[tuple[str, Counter[Order]]]:
        """Yield each partition and how many of its live parts state which order (``sorted_by``)."""
        if not self.changes:
            yield from orders(self.partitions)
            return
        for partition, markers in self.partitions.items():
            yield partition, Counter(map(self.sorted_by, markers))

    def hidden_whole(self, marker: Marker, deletes: Iterable[Delete]) -> bool:
        """Return True if statistics prove that one pending delete hides all rows of the part."""
        if self.conflict is not None:
            return False
        stats, hashes = self.stats_of(marker), self.hashes_of(marker)
        return any(self._pruner(delete).matches_all(stats, hashes) for delete in deletes)

    def is_settled(self, marker: Marker, partition: str, at_ms: int | None = None) -> bool:
        """Return True if no delete and no schema change is pending for the part.

        Args:
            marker: of a live part.
            partition: its path.
            at_ms: unix ms, for which deletes that may wait until later (``Delete.due``) do not
                count; None: all count.
        """
        if self.pending_changes(marker):
            return False
        return all(d.may_wait(at_ms) for d in self.pending_deletes(marker, partition))

    def times_after(self, seq: int) -> frozenset[int]:
        """Return ``t`` of the transactions after ``seq`` with a log file (all within the grace)."""
        return frozenset(t for t, number in self.times if number > seq)

    def _pruner(self, delete: Delete) -> Pruner:
        pruner = self._pruners.get(delete.id)
        if pruner is None:
            try:
                pruner = Pruner(parse_json(delete.where), self.schema)
            except UsageError as error:
                raise LogCorruptError(
                    f"delete {delete.id} of transaction {delete.seq} under {self.paths.log_dir} "
                    f"does not say which rows it hides: {error.message}",
                    next_step=UPGRADE_OR_RESTORE,
                ) from None
            self._pruners[delete.id] = pruner
        return pruner

    @property
    def horizon(self) -> int:
        """The purge horizon by the clock, unix ms: states at or before it cannot be read."""
        return self.effective(self.purged)

    def at(self, time_ms: int) -> Snapshot:
        """Return the state as of a time by the clock.

        Records that are dated far ahead count from the time at which they arrived.
        Raises SnapshotExpiredError for a time at or before the purge horizon, and for one at which
        rows were there twice (``taken_back``).
        """
        if time_ms <= self.horizon:
            raise self._expired(f"at {time_ms} ms")
        wrong = taken_back.span_at(self.other, time_ms)
        if wrong is not None:
            raise SnapshotExpiredError(
                f"the table under {self.paths.data_dir} had rows twice, or deleted ones, at "
                f"{time_ms} ms: a merge of another client was taken back at {wrong.to} ms",
                next_step=f"ask for a time before {wrong.since} or after {wrong.to} ms",
            )
        early = frozenset(t for t, at in self.dated.items() if at <= time_ms)
        deletes = {i: d for i, d in self.deletes.items() if d.t <= time_ms or d.t in early}
        return replace(
            self, as_of=time_ms, deletes=deletes, _past=Past(time_ms, early, self.purged)
        )

    def after(self, t: int) -> Snapshot:
        """Return the state right after the transaction that is dated ``t``.

        Raises SnapshotExpiredError for a date at or before the purge horizon.
        """
        return self.at(self.clock_of(t))

    def clock_of(self, t: int) -> int:
        """Return the time by the clock at which a transaction dated ``t`` took effect, unix ms.

        Raises SnapshotExpiredError for a date at or before the purge horizon.
        """
        if t <= self.purged:
            raise self._expired(f"of a transaction dated {t} ms")
        return self.effective(t)

    def shows(self, t: int) -> bool:
        """Return True if a log file that is dated ``t`` belongs to this state."""
        past = self._past
        return past is None or t <= past.upto or t in past.early

    def dates_used(self) -> frozenset[int]:
        """Return the dates of the parts and deletes in states after the purge horizon."""
        parts = (m for m in self.parts.values() if m.tmb is None or m.tmb > self.purged)
        return frozenset((*(m.t for m in parts), *(d.t for d in self.records.values())))

    def _expired(self, which: str) -> SnapshotExpiredError:
        return SnapshotExpiredError(
            f"parts of the snapshot {which} are deleted: the table under "
            f"{self.paths.data_dir} is cleaned up to {self.horizon} ms",
            next_step=f"ask for a time after {self.horizon} ms",
        )

    @cached_property
    def twins(self) -> tuple[tuple[str, str], ...]:
        """Pairs of log files of two transactions with one number, the older first."""
        return twins_of(self.listing, self.log_tombstones)

    def refuse_doubled(self) -> None:
        """Raise DoubledRowsError if rows may be there twice.

        A client of version 1 merged parts that were dead, or there are two transactions with one
        number.
        """
        refuse_twins(self.twins)
        if self.doubled:
            first = self.doubled[0]
            raise DoubledRowsError(
                f"log file {first.log} of a client of log version 1 merged {first.of} into "
                f"{first.part} although it had been replaced or dropped: its rows would be there "
                "again",
                next_step="stop that client's merges, and take this one back with "
                "`firnline rebuild`",
            )

    def refuse_checkpoint(self) -> None:
        """Raise InvariantError if the state was read from a checkpoint: no transaction may be."""
        if self.covered:
            raise InvariantError(
                f"a transaction on {self.paths.log_dir} was built on a checkpoint",
                next_step="report this: a transaction must be built on the log files themselves",
            )

    def with_log(self, item: LogObject, content: LogContent) -> Snapshot:
        """Return this state with one more log file: the base after an own commit. No requests.

        Args:
            item: the log file, of a transaction that has been checked (``commit.invariants``): it
                carries the parts of all that it folds.
            content: what it holds.

        Raises InvariantError if the state was read from a checkpoint.
        """
        self.refuse_checkpoint()
        listing = {**self.listing, item.name.key: item}
        contents = {**self.contents, item.name.key: content}
        # Not united anew: that would take as long as to read a log of millions of parts.
        parts = union_with(self.parts, [content])
        # It is committed: a conflict that a repair left in place is not an error of the commit.
        return build(self.paths, LogRead(listing, contents), tolerant=True, parts=parts)


def _covers(delete: Delete, partition: str) -> bool:
    return delete.partitions is None or any(fnmatchcase(partition, g) for g in delete.partitions)


def read_snapshot(
    store: Store,
    paths: TablePaths,
    *,
    everything: bool = False,
    tolerant: bool = False,
    checkpoint_above: int | None = None,
    known: Mapping[str, LogContent] = MappingProxyType({}),
    watch: Watch | None = None,
) -> Snapshot:
    """Read the newest state of a table; requests and errors as ``log.reader.read_log``.

    In addition 1 LIST of ``_txn/`` after the newest transaction, which shows whether the log is
    lost. A transaction that is committed and not published is included, with 1 GET. A table that
    was never written to is a state without log files.

    Above ``checkpoint_above`` bytes of log files, one more LIST and normally one more GET fetch the
    newest checkpoint. With ``everything`` or ``tolerant`` only where it is given: their callers,
    every transaction among them, need single log files, and a checkpoint does not keep them apart.
    None: ``CHECKPOINT_ABOVE`` without these. What would be refused without it is read again from
    the log files, so that only these say so.
    ``known``: contents of an earlier snapshot of this process, which are not fetched again.
    ``watch``: gives the caller the state of the log, and keeps what it has seen before.

    Raises LogLostError, and SchemaConflictError and DoubledRowsError unless ``tolerant``: see
    ``build``.
    """
    watch = watch or Watch(store, paths)
    if checkpoint_above is None and (everything or tolerant):
        log = read_log(store, paths, everything=everything, judge=watch)
        return build(paths, log, tolerant=tolerant)
    tried: list[Checkpoint] = []
    least = CHECKPOINT_ABOVE if checkpoint_above is None else checkpoint_above

    def find(listing: Mapping[str, LogObject]) -> Checkpoint | None:
        if sum(item.size for item in listing.values()) <= least:
            return None
        from firnline.state import checkpoint

        return checkpoint.newest_usable(store, paths, listing, tried)

    log = read_log(store, paths, everything=everything, find=find, known=known, judge=watch)
    if not _checkpoint_hides(log) and not fence.covers_what_came_back(log):
        try:
            snapshot = build(paths, log, tolerant=tolerant)
        except LogCorruptError:
            if log.checkpoint is None:
                raise
        else:
            if log.checkpoint is None or not (snapshot.conflict or snapshot.doubled):
                return snapshot
    # Read without the checkpoint: a fault of the log itself is raised from there.
    log = read_log(store, paths, everything=everything, judge=watch)
    return build(paths, log, tolerant=tolerant)


def build(
    paths: TablePaths,
    log: LogRead,
    *,
    tolerant: bool = False,
    parts: Mapping[str, Marker] | None = None,
) -> Snapshot:
    """Fold log files, and the checkpoint that covers others, into a state.

    Args:
        paths: paths of the table.
        log: log files of the table.
        tolerant: return a state even if schema lines contradict each other. Only for callers that
            report or repair the ``conflict``: ``schema`` then lacks the columns concerned. Nor are
            rows refused that are ``doubled``.
        parts: the parts of the log where they are known already, for a log without a checkpoint.

    Raises SchemaConflictError, DoubledRowsError, LogCorruptError.
    """
    late = fence.behind(log)
    listing, contents, since = log.listing, log.contents, fence.behind_since(log, late)
    if late:
        log = replace(log, listing=_without(listing, late), contents=_without(contents, late))
        parts = None
    snapshot = _united(paths, log, tolerant=tolerant, known=parts)
    if not tolerant:
        snapshot.refuse_doubled()
    if not late:
        return snapshot
    theirs = frozenset(m.p for key in late for m in contents[key].markers if m.tmb is None)
    return replace(
        snapshot,
        behind={key: listing[key] for key in late},
        behind_since=since,
        behind_parts=theirs - snapshot.parts.keys(),
    )


def _united(
    paths: TablePaths, log: LogRead, *, tolerant: bool, known: Mapping[str, Marker] | None
) -> Snapshot:
    contents = [log.contents[name] for name in sorted(log.contents)]
    base, newest = log.checkpoint, log.mark
    every = contents if base is None else [base.content(), *contents]
    deletes = {d.id: d for content in every for d in content.deletes}
    other = frozenset(line for content in every for line in content.other)
    seq = newest_seq(log.listing)
    times = times_of(log.listing, deletes.values())
    ahead = dated.known(log.listing, other)
    rows, changes = split(deletes.values())
    schema, conflict = schema_of(log, changes, times, tolerant=tolerant)
    if base is not None:
        parts = base.with_newer(contents)
    else:
        parts = parts_of(log, contents) if known is None else known
    return Snapshot(
        paths=paths,
        listing=log.listing,
        contents=log.contents,
        parts=parts,
        log_tombstones=first_folded(every),
        deletes=rows,
        other=other,
        schema=schema,
        seq=seq,
        purged=newest.purged if newest is not None else 0,
        times=times,
        dated=ahead,
        covered=frozenset() if base is None else base.covered,
        unpublished=log.unpublished,
        conflict=conflict,
        doubled=_doubled(log, parts),
        changes=changes,
        properties=_properties(log),
        digest=newest.digest if newest is not None and newest.seq == seq else "",
        fence=fence.fence_of(other, seq),
    )


def _without(mapping: Mapping[str, ValueT], keys: frozenset[str]) -> dict[str, ValueT]:
    return {key: value for key, value in mapping.items() if key not in keys}


def _checkpoint_hides(log: LogRead) -> bool:
    base = log.checkpoint
    return base is not None and foreign_merges.may_hide_one(
        base.covered, log.listing, log.contents, base.with_newer([])
    )


def _doubled(log: LogRead, parts: Mapping[str, Marker]) -> tuple[Doubled, ...]:
    others = () if log.checkpoint is None else (log.checkpoint.with_newer([]),)
    return foreign_merges.find(log.listing, log.contents, others).doubled(parts)


def _properties(log: LogRead) -> tuple[PropertiesRecord, ...]:
    records = [] if log.checkpoint is None else [*log.checkpoint.head.properties]
    for key, content in log.contents.items():
        records += [
            r
            if r.seen is not None
            else msgspec.structs.replace(r, seen=log.listing[key].modified_ms)
            for r in content.properties
        ]
    return log_properties.union(records)


def mark_dead(marker: Marker, t: int) -> Marker:
    """Return the marker as dead since ``t``, or since earlier if it was dead already."""
    tmb = t if marker.tmb is None else min(t, marker.tmb)
    return msgspec.structs.replace(marker, tmb=tmb)
