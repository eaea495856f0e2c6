"""Reading what changed in a table: ``firnline.changes``.

The changes between two positions are found in the log and in the parts that it names, and in
nothing else: parts that are replaced or dropped stay for ``cleanup.grace``.
"""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from firnline.arguments import typed
from firnline.errors import UsageError
from firnline.predicate.tree import Predicate
from firnline.read import position as positions
from firnline.read.feed import ENDS, ChangeFeed
from firnline.read.offsets import Offset
from firnline.read.plan import ReadOptions
from firnline.read.scan import MEMORY, condition, globs_of, limits_for, names_of, opened
from firnline.read.task import ChangeTask
from firnline.shown import Shown
from firnline.state.moment import At, parse_moment, reversed_ends
from firnline.store.access import StoreAccess
from firnline.table import Table
from firnline.types.sql import fold_name

if TYPE_CHECKING:
    import pyarrow as pa

    from firnline.read.duckdb import Limits


@typed
def changes(
    table: Table | str,
    since: At | None,
    until: At | None = None,
    columns: Iterable[str] | None = None,
    where: str | Predicate | None = None,
    partitions: str | Iterable[str] = (),
    *,
    settings: Path | str | None = None,
    access: StoreAccess | None = None,
) -> Changes:
    """Plan the changes of a table since a position, and the position to continue from.

    Requests: those of its log, 1 GET for each transaction since, and 1 GET for each append that one
    of them has folded; 1 ranged GET of a position's own transaction where the log does not name it.

    Args:
        table: as for ``scan``.
        since: the ``position`` of an earlier call; the number of a transaction; or a time, as for
            ``at`` of ``scan``. None: everything, as inserts.
        until: as ``since``; None: now.
        columns: as for ``scan``; a row that changed in other columns only is returned, too.
        where: a condition that returned rows fulfil, as for ``scan``: of an update only the row
            before or only the row after may fulfil it.
        partitions: as for ``scan``, but a glob may match nothing.
        settings: as for ``scan``.
        access: as for ``scan``.

    Raises:
        StreamBehindError: parts or log files that are needed are deleted, or it is not known what
            has changed.
        UsageError: no such table, column, time or transaction; an end before the beginning; a
            position of another table.
        others: as ``scan``.
    """
    target = opened(table, settings, access)
    feed = ChangeFeed(target)
    feed.hold()
    start, end = ends_of(feed, since, until)
    names = None if columns is None else names_of(columns, "columns")
    globs = globs_of(partitions)
    request = Request(names, where, globs)
    tasks = feed.changes(start, end, request.options)
    _, schema = feed.settings_and_columns()
    return Changes(target, tuple(tasks), request.shown(schema), positions.to_text(end), end.seq)


def offset_of(feed: ChangeFeed, at: At) -> Offset:
    """Return the offset of a position, a transaction or a time. Raises as ``changes``."""
    if isinstance(at, str) and positions.is_position(at):
        return positions.from_text(at)
    return feed.start(at)


def ends_of(feed: ChangeFeed, since: At | None, until: At | None) -> tuple[Offset | None, Offset]:
    """Return where the changes begin and end. Arguments and errors as those of ``changes``."""
    start = None if since is None else offset_of(feed, since)
    end = feed.newest(start)
    if until is None:
        return start, end
    end = offset_of(feed, until)
    if start is not None and since is not None and not positions.is_position(since):
        _refuse_reversed(feed, since, until, start, end)
    return start, feed.until(start, end)


def _refuse_reversed(feed: ChangeFeed, since: At, until: At, start: Offset, end: Offset) -> None:
    """Raise UsageError for an end before the start, between the same two transactions.

    Not for a position, which may have told appends already that are dated after the end.
    """
    first, last = (_time(each, feed.table.clock.now_ms()) for each in (since, until))
    earlier = first is not None and last is not None and last < first
    if earlier or (end.seq == start.seq and end.seen < start.seen):
        raise reversed_ends(since, until, names=ENDS)


def _time(at: At, now_ms: int) -> int | None:
    """Return a time as unix ms; None for a position or the number of a transaction."""
    if isinstance(at, str) and (at == "now" or positions.is_position(at)):
        return now_ms if at == "now" else None
    return parse_moment(at, now_ms).ms


@dataclass(frozen=True, slots=True)
class Request:
    """Rows and columns that are asked for."""

    columns: tuple[str, ...] | None
    where: str | Predicate | None
    partitions: tuple[str, ...]

    def options(self, schema: Mapping[str, str]) -> ReadOptions:
        """Return the options of the reads. Raises UsageError."""
        return ReadOptions(where=condition(self.where, schema), partitions=self.partitions)

    def shown(self, schema: Mapping[str, str]) -> dict[str, str]:
        """Return SQL type by column of the rows, without those that the feed adds.

        Raises UsageError for a column that the table does not have, or that the feed adds.
        """
        from firnline.read.difference import ADDED

        spelled = {fold_name(name): name for name in schema}
        for name in self.columns or ():
            if fold_name(name) not in spelled:
                raise UsageError(
                    f"the table has no column {name!r}",
                    next_step=f"choose among {', '.join(schema) or 'none'}",
                )
        taken = [name for name in schema if fold_name(name) in ADDED]
        if taken:
            raise UsageError(
                f"the table has a column {taken[0]}, which is what the feed calls its own",
                next_step="rename the column with "
                f"`firnline evolve TABLE --rename {shlex.quote(f'{taken[0]}=NEW')}`",
            )
        names = schema if self.columns is None else [spelled[fold_name(n)] for n in self.columns]
        return {name: schema[name] for name in names}


@dataclass(frozen=True, slots=True)
class Summary:
    """Changed rows of one transaction by one reason."""

    sequence: int | None
    """None for appends that no transaction has folded yet."""
    reason: str
    rows: Mapping[str, int]
    """Number of rows by operation."""


@dataclass(frozen=True, slots=True, repr=False)
class Changes(Shown):
    """The changes between two positions; lazy.

    Parts that were replaced exist for ``cleanup.grace``: changes that are held for longer end with
    StreamBehindError if a clean-up has run.
    """

    table: Table
    tasks: tuple[ChangeTask, ...]
    columns: Mapping[str, str]
    """SQL type by column of the table's columns that are returned."""
    position: str
    """Opaque text, for ``since`` of the next call: it misses no change and repeats none."""
    seq: int
    """Newest transaction of the end."""

    @property
    def nothing(self) -> bool:
        """Return True if there is nothing to read; otherwise rows may still not differ."""
        return not self.tasks

    @typed
    def arrow_reader(
        self, memory: int = MEMORY, threads: int | None = None
    ) -> pa.RecordBatchReader:
        """Return the changed rows as a stream of Arrow batches, in the order of the steps.

        Columns are the table's and ``_operation`` (insert, delete; with a primary key also
        update_before and update_after), ``_sequence`` and ``_reason``. Memory as ``scan``; where
        rows before and after are compared, those of one step spill to disk beyond it.

        Raises, also while it is read: StreamBehindError, others as ``Scan.arrow_reader``.
        """
        import pyarrow as pa

        from firnline.read.difference import empty_schema, run_changes

        batches = run_changes(
            self.tasks, self.table.store, self.limits(memory, threads), list(self.columns)
        )
        schema = empty_schema(self.columns)
        return pa.RecordBatchReader.from_batches(schema, (b.cast(schema) for b in batches))

    @typed
    def to_arrow(self, memory: int = MEMORY, threads: int | None = None) -> pa.Table:
        """Return all changed rows in memory. Errors as ``arrow_reader``."""
        return self.arrow_reader(memory, threads).read_all()

    @typed
    def summary(self, memory: int = MEMORY, threads: int | None = None) -> list[Summary]:
        """Return the number of changed rows by transaction and reason, in the order of the steps.

        Reads what ``arrow_reader`` reads, without columns that are not compared.
        """
        from firnline.read.difference import count_changes

        rows: dict[tuple[int | None, str], dict[str, int]] = defaultdict(dict)
        limits = self.limits(memory, threads)
        for operation, sequence, reason, number in count_changes(
            self.tasks, self.table.store, limits
        ):
            numbers = rows[sequence, reason]
            numbers[operation] = numbers.get(operation, 0) + number
        return [Summary(*step, numbers) for step, numbers in rows.items()]

    @typed
    def limits(self, memory: int = MEMORY, threads: int | None = None) -> Limits:
        """Return the resource limits of a read of these changes."""
        return limits_for(self.table, memory, threads)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yield rows as dictionaries, to look at a few of them."""
        for batch in self.arrow_reader():
            yield from batch.to_pylist()

    def _title(self) -> str:
        """Return whose changes they are."""
        return f"Changes of {self.table.settings.name}"

    def _facts(self) -> Mapping[str, str]:
        """Return how much is to be read; known from the plan, without a request."""
        return {
            "steps": f"{len(self.tasks):,}",
            "up to transaction": f"{self.seq:,}",
            "columns": ", ".join(f"{name} {sql}" for name, sql in self.columns.items()),
        }
