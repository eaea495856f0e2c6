"""The feed of changes of one table: what the log says of each step between two positions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import msgspec

from firnline.errors import SnapshotExpiredError, StreamBehindError
from firnline.log.records import Delete, LogContent, TxnMark
from firnline.properties.in_force import current, in_force
from firnline.read import offsets as plan
from firnline.read import steps
from firnline.read.appends import AppendLog
from firnline.read.offsets import Bounds, Folds, Offset, View
from firnline.read.plan import ReadOptions
from firnline.read.steps import BEGIN_AGAIN, Effect, Known
from firnline.read.stream import of_append
from firnline.read.task import ChangeTask
from firnline.settings.load import TableSettings
from firnline.state.moment import reversed_ends
from firnline.state.snapshot import Snapshot

ENDS = "`since` and `until`, or leave `until` out"
"""What is to be exchanged where the end of a feed is before its beginning."""
Wanted = Callable[[Mapping[str, str]], ReadOptions]
"""Maps the table's columns (column -> SQL type) to the options of the read."""


@dataclass
class ChangeFeed(AppendLog):
    """The changes of one table; keeps no position.

    Requests as ``AppendLog`` with 1 LIST more, since a transaction that is committed and not
    published counts, and 1 GET for each append that a transaction has folded since.
    Errors: StreamBehindError where it is not known, or cannot be read any more, what has changed.
    """

    _effects: dict[int, Effect] = field(default_factory=dict)
    """Of the transactions after the newest offset."""
    _records: dict[str, Delete] = field(default_factory=dict)
    """Their records by id, each once: transactions carry those of others on."""

    def hold(self) -> None:
        """Take the state of now for the newest from now on."""
        self._held = self._read()

    def newest(self, start: Offset | None, bounds: Bounds | None = None) -> Offset:
        """Return the end of the feed, or of the next batch within bounds.

        Args:
            start: the position to continue from; None: before the rows of now.
            bounds: limits of the parts that are read; at least one step is taken.
        """
        with _begin_again():
            if start is None:
                return self.start("now")
            snapshot = self._held or self._read()
            view = self._view(start, snapshot)
            waiting = plan.pending(start, view)
            if bounds is not None:
                sizes = list(self._sizes(start, view, snapshot))
                taken = bounds.fitting(size for _, size in sizes)
                if taken < len(sizes):
                    return after(start, view, sizes[taken - 1][0])
            return plan.advance(start, view, waiting, len(waiting))

    def until(self, start: Offset | None, end: Offset) -> Offset:
        """Return the position at ``end`` for a reader that comes from ``start``.

        What was delivered stays delivered: appends before ``start`` that no transaction up to the
        end has folded are named in the result. Raises UsageError for an end before the start.
        """
        snapshot = self._held or self._read()
        self._refuse_other_table(end, snapshot)
        if start is None:
            return end
        with _begin_again():
            view = self._view(start, snapshot)
            self._refuse_unknown_appends(end, view, snapshot)
            folds = view.folds.items()
            folded = frozenset[str]().union(*(f.every for seq, f in folds if seq <= end.seq))
            reached = replace(end, seen=end.seen | (start.seen - folded), foreign=start.foreign)
        if end.seq < start.seq:
            raise reversed_ends(f"transaction {start.seq}", f"transaction {end.seq}", names=ENDS)
        return reached

    def changes(self, start: Offset | None, end: Offset, wanted: Wanted) -> list[ChangeTask]:
        """Plan the changes between two positions; the same ones each time.

        Raises StreamBehindError; UsageError for a column that the table does not have.
        """
        with _begin_again():
            snapshot = self._known(end)
            first = end if start is None else start
            view = self._view(first, snapshot)
            plan.check(replace(end, foreign=first.foreign), view)
            effects = {seq: self._effects[seq] for seq in view.folds}
            steps.check(effects.values())
            settings = in_force(self.table.settings, current(snapshot.properties))
            names = set(plan.delivered(first, end, view.folds)) | first.seen
            if start is None or steps.needs_all(effects.values(), settings):
                names |= view.unfolded.union(*(folds.first for folds in view.folds.values()))
            ordered = sorted(names)
            contents = zip(ordered, self._in_order(ordered, snapshot), strict=True)
            facts = Known(
                snapshot=snapshot,
                settings=settings,
                view=view,
                effects=effects,
                brought={
                    name: tuple(of_append(name, content, snapshot, ()))
                    for name, content in contents
                },
            )
            options = wanted(snapshot.schema)
            if start is None:
                return steps.plan_state(facts, end, options)
            return steps.plan_steps(facts, start, end, options)

    def settings_and_columns(self) -> tuple[TableSettings, Mapping[str, str]]:
        """Return the settings with the properties in force, and SQL type by column."""
        snapshot = self._held or self._read()
        return in_force(self.table.settings, current(snapshot.properties)), snapshot.schema

    def _known(self, end: Offset) -> Snapshot:
        """Return a state that has everything up to an offset, without a request if it is known."""
        snapshot = self._held or self._snapshot
        if snapshot is None or snapshot.seq < end.seq:
            snapshot = self._read()
        return snapshot

    def _folded(self, content: LogContent, mark: TxnMark) -> Folds:
        effect = Effect.of(content, mark)
        self._effects[mark.seq] = replace(effect, records=tuple(map(self._once, effect.records)))
        return super()._folded(content, mark)

    def _once(self, record: Delete) -> Delete:
        """Return the one copy of a record that is kept, without the log file that it stood in."""
        kept = self._records.get(record.id)
        if kept is None:
            kept = msgspec.structs.replace(record, where=record.where.copy())
            self._records[record.id] = kept
        return kept

    def _view(self, offset: Offset, snapshot: Snapshot) -> View:
        view = super()._view(offset, snapshot)
        self._effects = {seq: self._effects[seq] for seq in view.folds}
        first = (folds.first for folds in view.folds.values())
        needed = view.unfolded.union(offset.seen, *first)
        self._contents = {name: c for name, c in self._contents.items() if name in needed}
        records = (record for effect in self._effects.values() for record in effect.records)
        self._records = {record.id: record for record in records}
        return view

    def _sizes(
        self, start: Offset, view: View, snapshot: Snapshot
    ) -> Iterator[tuple[int, tuple[int, int]]]:
        """Yield (number of the step, (parts, bytes) that it reads) for steps that read any."""
        names = [(seq, sorted(folds.first - start.seen)) for seq, folds in view.folds.items()]
        names.append((view.seq + 1, sorted(view.unfolded - start.seen)))
        for seq, new in sorted(names):
            markers = [m for content in self._in_order(new, snapshot) for m in content.markers]
            effect = self._effects.get(seq)
            if effect is not None and not effect.silent:
                parts = (snapshot.parts.get(p) for p in (*effect.killed, *effect.own))
                markers += [m for m in parts if m is not None]
            hides = effect is not None and bool(effect.hides)
            if markers or hides:
                yield seq, (max(1, len(markers)), sum(m.b for m in markers))


def after(start: Offset, view: View, seq: int) -> Offset:
    """Return the position right after a transaction, with all appends that it has folded."""
    folded = frozenset[str]().union(*(f.every for n, f in view.folds.items() if n <= seq))
    return replace(start, seq=seq, seen=start.seen - folded, digest=view.at(start, seq))


@contextmanager
def _begin_again() -> Iterator[None]:
    """Name the next step of a feed in the errors of the log of appends."""
    try:
        yield
    except StreamBehindError as error:
        raise StreamBehindError(error.message, next_step=BEGIN_AGAIN) from None
    except SnapshotExpiredError as error:
        raise StreamBehindError(error.message, next_step=BEGIN_AGAIN) from None
