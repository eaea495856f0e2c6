"""Streaming reads: every append of a table once, in batches (docs/format.md, "Streaming reads").

A batch is defined by two offsets alone. It is read from the parts that its appends brought, which
stay for ``cleanup.grace`` after a merge has replaced them, as do the log files that name them.
Data that is deleted before it was read is an error, never a gap.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec

from firnline.errors import SnapshotExpiredError, StreamBehindError
from firnline.log.records import LogContent, Marker
from firnline.properties.in_force import current, in_force
from firnline.read import offsets as plan
from firnline.read.appends import AppendLog
from firnline.read.offsets import (
    BEGIN_AGAIN,
    Bounds,
    Folds,
    Initial,
    Offset,
    Record,
    View,
    long,
    time_in,
)
from firnline.read.plan import ReadOptions, ReadPlan, plan_read
from firnline.settings.load import TableSettings
from firnline.state.partitions import matches
from firnline.state.snapshot import Snapshot
from firnline.types.sql import fold_name


@dataclass
class AppendStream(AppendLog):
    """The appends of one table, in batches; keeps no position.

    Requests and errors as ``AppendLog``.
    """

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
        properties = current(snapshot.properties)
        settings = in_force(self.table.settings, properties, any_key=True)
        forgotten = forgotten_records(view.folds, snapshot)
        if start.initial is not None:
            until = None if end.initial is None else end.initial.after
            parts = self._initial(start, start.initial, view, snapshot)
            parts = [m for m in parts if until is None or m.p <= until]
            markers += (checked(m, snapshot, forgotten) for m in parts)
        names = plan.delivered(start, end, view.folds)
        for name, content in zip(names, self._in_order(names, snapshot), strict=True):
            markers += of_append(name, content, snapshot, forgotten)
        return planned(snapshot, markers, settings, wanted(snapshot.schema))

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
        parts = (m for p, m in then.live.items() if p > initial.after and p not in late_parts)
        return sorted(parts, key=lambda marker: marker.p)


def forgotten_records(folds: Mapping[int, Folds], snapshot: Snapshot) -> tuple[Record, ...]:
    """Return the records committed since a stream's offset that the log does not hold any more.

    A transaction leaves a record out once every part that it applies to is dead and no reader needs
    it. For a stream, which reads dead parts, it is missing: without clean-up the parts still exist.
    What the log holds decides, and no clock: those of reader and writer differ.

    Args:
        folds: folds of the transactions since the stream's offset.
        snapshot: the newest state.
    """
    in_log = snapshot.records
    told = {record.id: record for one in folds.values() for record in one.records}
    return tuple(record for key, record in told.items() if key not in in_log)


def of_append(
    name: str, content: LogContent, snapshot: Snapshot, forgotten: Sequence[Record]
) -> Iterator[Marker]:
    """Yield the parts of an append in their current state. Raises StreamBehindError."""
    columns = {fold_name(column) for column in snapshot.schema}
    key = snapshot.paths.parse_log(long(name, snapshot.paths))
    stated = snapshot.line_of(key, content)
    gone = [column for column in stated if fold_name(column) not in columns]
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
