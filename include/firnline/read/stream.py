"""Streaming reads: every append of a table once, in batches (docs/format.md, "Streaming reads").

A batch is defined by two offsets alone. It is read from the parts that its appends brought, which
stay for ``cleanup.grace`` after a merge has replaced them, as do the log files that name them.
Data that is deleted before it was read is an error, never a gap.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import msgspec

from firnline.errors import ObjectNotFoundError, SnapshotExpiredError, StreamBehindError, UsageError
from firnline.log import codec, txn_file
from firnline.log.reader import LogRead, list_log
from firnline.log.records import LogContent, Marker
from firnline.log.schema_lines import folded_by_ours
from firnline.properties.in_force import current, in_force
from firnline.read import offsets as plan
from firnline.read.offsets import (
    BEGIN_AGAIN,
    Bounds,
    Folds,
    Initial,
    Offset,
    Record,
    View,
    long,
    short,
    time_in,
)
from firnline.read.plan import ReadOptions, ReadPlan, plan_read
from firnline.settings.load import TableSettings
from firnline.state.health import no_table
from firnline.state.history import newest_at
from firnline.state.moment import At, Moment, parse_moment
from firnline.state.partitions import matches
from firnline.state.snapshot import Snapshot, read_snapshot
from firnline.table import Table
from firnline.types.sql import fold_name

_AT_ONCE = 64
"""Number of log files that are fetched before it is checked whether the batch is full."""


@dataclass
class AppendStream:
    """The appends of one table; keeps in memory what it has read of the log, and no position.

    Requests per call: 1 LIST, and if something has changed a read of the log, without the log files
    already known, and 1 GET for each transaction in between. A lost log ends every call with
    LogLostError.
    """

    table: Table
    _snapshot: Snapshot | None = None
    _folds: dict[int, Folds] = field(default_factory=dict)
    """Folds by transaction; those before the newest offset are dropped."""
    _contents: dict[str, LogContent] = field(default_factory=dict)
    """Content of the appends in the current batch, by name."""
    _held: Snapshot | None = None

    def start(self, at: At | None) -> Offset:
        """Return the offset at which a stream begins.

        Args:
            at: None for the current state and then new appends; "now" for new appends alone; a
                transaction's number or a time for the appends after it.

        Raises UsageError, SnapshotExpiredError, StreamBehindError.
        """
        snapshot = self._read()
        if not snapshot.listing:
            raise no_table(self.table)
        if at is None or at == "now":
            return self._here(snapshot, whole=at is None)
        return self._after(snapshot, parse_moment(at, self.table.clock.now_ms()))

    def _here(self, snapshot: Snapshot, *, whole: bool) -> Offset:
        paths, folded = self.table.paths, {*snapshot.log_tombstones}
        foreign = _keys(snapshot, "foreign-merge")
        if foreign:
            # What only they have folded, the next transaction folds again.
            snapshot = read_snapshot(self.table.store, paths, checkpoint_above=sys.maxsize)
            folded = folded_by_ours(LogRead(snapshot.listing, snapshot.contents))
        appends, foreign = _keys(snapshot, "append"), _keys(snapshot, "foreign-merge")
        made = (item.name for item in snapshot.listing.values() if item.name.kind != "append")
        t = max((name.t for name in made), default=0)
        seen = appends & snapshot.log_tombstones.keys() if whole else appends
        return Offset(
            seq=snapshot.seq,
            seen=frozenset(short(key, paths) for key in seen - folded),
            foreign=frozenset(short(key, paths) for key in foreign),
            initial=Initial(t=t) if whole and t else None,
        )

    def _after(self, snapshot: Snapshot, moment: Moment) -> Offset:
        if _keys(snapshot, "foreign-merge"):
            raise UsageError(
                "clients of version 1 have merged this table, so it is not known which appends "
                "came before a moment in its past",
                next_step="leave startingAt out, or set it to now",
            )
        seq = moment.seq
        if moment.ms is not None:
            seq = newest_at(self.table, moment.ms, snapshot.effective)
        if seq is None or seq > snapshot.seq:
            raise UsageError(
                f"the table has no transaction {seq}, the newest is {snapshot.seq}",
                next_step="see them with `firnline history`",
            )
        offset = Offset(seq=seq)
        if moment.ms is None:
            return offset
        waiting = plan.pending(offset, self._view(offset, snapshot))
        effective = snapshot.effective
        seen = (name for _, name in waiting if effective(time_in(name)) <= (moment.ms or 0))
        return replace(offset, seen=frozenset(seen))

    def hold(self) -> None:
        """Limit ``latest`` to the current state from now on."""
        self._held = self._look()

    def latest(self, start: Offset, bounds: Bounds) -> Offset:
        """Return the end of the batch that begins at ``start``; ``start`` itself if nothing is new.

        Raises StreamBehindError; UsageError if too many appends wait for a merge.
        """
        snapshot = self._held or self._look()
        self._contents.clear()
        view = self._view(start, snapshot)
        if start.initial is not None:
            left = self._initial(start, start.initial, view, snapshot)
            taken = bounds.fitting((1, marker.b) for marker in left)
            if taken < len(left):
                rest = replace(start.initial, after=left[taken - 1].p)
                return replace(start, initial=rest)
            if left:
                return replace(start, initial=None)
            start = replace(start, initial=None)
        waiting = plan.pending(start, view)
        names = [name for _, name in waiting]
        contents = self._in_order(names, snapshot)
        taken = bounds.fitting((len(c.markers), sum(m.b for m in c.markers)) for c in contents)
        return plan.advance(start, view, waiting, taken)

    def batch(
        self, start: Offset, end: Offset, wanted: Callable[[Mapping[str, str]], ReadOptions]
    ) -> ReadPlan:
        """Plan the read between two offsets; it gives the same rows each time.

        Rows that deletes have hidden since are missing, as in any read of the table.

        Args:
            start: the beginning of the batch.
            end: its end, from ``latest``.
            wanted: maps the table's columns (column -> SQL type) to the options of the read.

        Raises:
            StreamBehindError: a part or log file of it is deleted.
            UsageError: a column that the table does not have.
        """
        snapshot = self._look()
        view = self._view(start, snapshot)
        markers: list[Marker] = []
        # Rows are delivered as they were appended: which one of a key wins does not matter here.
        said = current(snapshot.properties)
        settings = in_force(self.table.settings, said, any_key=True)
        forgotten = forgotten_records(view.folds, snapshot)
        if start.initial is not None:
            until = None if end.initial is None else end.initial.after
            found = self._initial(start, start.initial, view, snapshot)
            found = [m for m in found if until is None or m.p <= until]
            markers += (checked(m, snapshot, forgotten) for m in found)
        names = plan.delivered(start, end, view.folds)
        for name, content in zip(names, self._in_order(names, snapshot), strict=True):
            markers += of_append(name, content, snapshot, forgotten)
        return planned(snapshot, markers, settings, wanted(snapshot.schema))

    def _look(self) -> Snapshot:
        """Return the newest state."""
        known = self._snapshot
        if known is not None:
            listing, _ = list_log(self.table.store, self.table.paths)
            there = {k: item for k, item in known.listing.items() if k != known.unpublished}
            if listing == there:
                return known  # a log that was not lost before and is unchanged is not lost
        return self._read()

    def _read(self) -> Snapshot:
        contents = {} if self._snapshot is None else self._snapshot.contents
        self._snapshot = read_snapshot(self.table.store, self.table.paths, known=contents)
        return self._snapshot

    def _view(self, offset: Offset, snapshot: Snapshot) -> View:
        paths = self.table.paths
        folds = {s: self._folds_of(s, snapshot) for s in range(offset.seq + 1, snapshot.seq + 1)}
        self._folds = folds
        appends = _keys(snapshot, "append") - snapshot.log_tombstones.keys()
        view = View(
            seq=snapshot.seq,
            unfolded=frozenset(short(key, paths) for key in appends),
            foreign=frozenset(short(key, paths) for key in _keys(snapshot, "foreign-merge")),
            folds=folds,
        )
        plan.check(offset, view)
        return view

    def _folds_of(self, seq: int, snapshot: Snapshot) -> Folds:
        if seq in self._folds:
            return self._folds[seq]
        table = self.table
        for content in snapshot.contents.values():
            if content.x is not None and content.x.seq == seq:
                return Folds.of(content, content.x.op, table.paths)
        key = table.paths.txn(seq)
        try:
            header, log_file = txn_file.decode(key, table.store.get(key), table.paths)
        except ObjectNotFoundError:
            raise StreamBehindError(
                f"the record of transaction {seq} is past its retention, so it is not known which "
                "appends came before it",
                next_step=BEGIN_AGAIN,
            ) from None
        return Folds.of(codec.decode(header.log, log_file, table.paths), header.op, table.paths)

    def _initial(
        self, offset: Offset, initial: Initial, view: View, snapshot: Snapshot
    ) -> list[Marker]:
        """Return the remaining parts of the initial state, by key."""
        check_initial(view.folds, snapshot)
        try:
            then = snapshot.after(initial.t)
        except SnapshotExpiredError as error:
            raise StreamBehindError(
                f"part of the initial state of this stream is deleted: {error.message}",
                next_step=f"{BEGIN_AGAIN}; raise cleanup.grace or the size of the batches",
            ) from None
        # A log file may be dated before the beginning and land after it.
        late = [name for name in plan.later(offset, view) if then.shows(time_in(name))]
        late_parts = {m.p for content in self._in_order(late, snapshot) for m in content.markers}
        found = (m for p, m in then.live.items() if p > initial.after and p not in late_parts)
        return sorted(found, key=lambda marker: marker.p)

    def _in_order(self, names: Sequence[str], snapshot: Snapshot) -> Iterator[LogContent]:
        """Yield the content of log files, fetched on demand."""
        for first in range(0, len(names), _AT_ONCE):
            some = names[first : first + _AT_ONCE]
            self._contents |= self._fetched(some, snapshot)
            yield from (self._contents[name] for name in some)

    def _fetched(self, names: Sequence[str], snapshot: Snapshot) -> dict[str, LogContent]:
        paths, found = self.table.paths, dict[str, LogContent]()
        for name in names:
            content = self._contents.get(name) or snapshot.contents.get(long(name, paths))
            if content is not None:
                found[name] = content
        keys = [long(name, paths) for name in names if name not in found]
        for key, data in self.table.store.get_many(keys):
            if data is None:
                raise self._gone(key, snapshot)
            found[short(key, paths)] = codec.decode(key, data, paths)
        return found

    def _gone(self, key: str, before: Snapshot) -> StreamBehindError:
        """Return the error for a log file that was listed or folded, and does not exist.

        Requests: those of ``read_snapshot``. Raises LogLostError, and StreamBehindError if the log
        was lost and has been rebuilt.
        """
        name = short(key, self.table.paths)
        merged = key in before.log_tombstones or any(
            name in folds.every for folds in self._folds.values()
        )
        now = read_snapshot(self.table.store, self.table.paths)
        foreign = frozenset(short(one, self.table.paths) for one in _keys(now, "foreign-merge"))
        view = self._view(Offset(seq=before.seq, foreign=foreign), now)
        if merged or any(name in folds.every for folds in view.folds.values()):
            return StreamBehindError(
                f"append {key} was merged and deleted before this stream read it: the "
                "stream is behind by more than cleanup.grace",
                next_step=BEGIN_AGAIN,
            )
        return StreamBehindError(
            f"log file {key} is missing, and no transaction has folded it: it was deleted before "
            "this stream read it",
            next_step=BEGIN_AGAIN,
        )


def _keys(snapshot: Snapshot, kind: str) -> set[str]:
    """Return the keys of the log files of one kind."""
    return {key for key, item in snapshot.listing.items() if item.name.kind == kind}


def forgotten_records(folds: Mapping[int, Folds], snapshot: Snapshot) -> tuple[Record, ...]:
    """Return the records committed since a stream's offset that the log does not hold any more.

    A transaction leaves a record out once every part that it applies to is dead and no reader needs
    it. For a stream, which reads dead parts, it is missing: without clean-up the parts still exist.
    What the log holds decides, and no clock: those of reader and writer differ.

    Args:
        folds: folds of the transactions since the stream's offset.
        snapshot: the newest state.
    """
    known = snapshot.records
    found = {record.id: record for one in folds.values() for record in one.records}
    return tuple(record for key, record in found.items() if key not in known)


def of_append(
    name: str, content: LogContent, snapshot: Snapshot, forgotten: Sequence[Record]
) -> Iterator[Marker]:
    """Yield the parts of an append in their current state. Raises StreamBehindError."""
    known = {fold_name(column) for column in snapshot.schema}
    key = snapshot.paths.parse_log(long(name, snapshot.paths))
    stated = snapshot.line_of(key, content)
    gone = [column for column in stated if fold_name(column) not in known]
    if gone:
        raise StreamBehindError(
            f"append {name} has the column {gone[0]}, which was renamed or dropped before this "
            "stream read it",
            next_step=BEGIN_AGAIN,
        )
    for marker in content.markers:
        state = snapshot.parts.get(marker.p)
        if state is None or (state.tmb is not None and state.tmb <= snapshot.purged):
            raise _behind(marker, "and deleted ")
        yield checked(state, snapshot, forgotten)


def checked(state: Marker, snapshot: Snapshot, forgotten: Sequence[Record]) -> Marker:
    """Return the part itself. Raises StreamBehindError: see ``forgotten_records``."""
    if state.tmb is not None and forgotten:
        partition = snapshot.paths.parse_part(state.p).partition
        q, applied = snapshot.sequence_of(state), state.d or ()
        if any(
            record.seq > q
            and record.id not in applied
            and matches(partition, record.partitions or ())
            for record in forgotten
        ):
            raise _behind(state, "")
    return state


def check_initial(folds: Mapping[int, Folds], snapshot: Snapshot) -> None:
    """Raise StreamBehindError if parts of the initial state may have other columns by now.

    A lazy change of columns leaves a record by which they can be read.
    """
    recorded = {change.seq for change in snapshot.changes}
    for seq, one in folds.items():
        if one.op in ("evolve", "schema-fix") and seq not in recorded:
            raise StreamBehindError(
                f"transaction {seq} has changed the table's columns before the initial state of "
                "this stream was delivered",
                next_step=BEGIN_AGAIN,
            )


def planned(
    snapshot: Snapshot, markers: Iterable[Marker], settings: TableSettings, options: ReadOptions
) -> ReadPlan:
    """Plan a read of only these parts, dead or alive: all their rows that no delete hides."""
    paths, globs = snapshot.paths, options.partitions
    alive = {
        marker.p: msgspec.structs.replace(marker, tmb=None)
        for marker in markers
        if matches(paths.parse_part(marker.p).partition, globs)
    }
    return plan_read(
        replace(snapshot, parts=alive), settings, replace(options, dedup=False, partitions=())
    )


def _behind(marker: Marker, deleted: str) -> StreamBehindError:
    return StreamBehindError(
        f"part {marker.p} was merged or dropped {deleted}before this stream read it: the "
        "stream is behind by more than cleanup.grace",
        next_step=BEGIN_AGAIN,
    )
