"""Replace an interval: new rows replace those of ``[start, end)``, in one transaction.

It commits a delete record for the interval, the new parts above it (their data sequence is the
transaction's own), and tombstones for the parts that lie wholly inside. Parts that the interval
cuts are rewritten in the same transaction (eager) or left to the next merge (lazy).
(docs/format.md, "Replaces")
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from firnline.appends.append import scratch_folder
from firnline.commit.base import Base, take_base
from firnline.commit.outputs import Outputs
from firnline.errors import CommitConflictError, RunFailedError, UsageError
from firnline.log.records import Delete
from firnline.log.txn_file import Counts
from firnline.operations.common_options import Mode
from firnline.operations.kernel_tasks import RowWork
from firnline.operations.operation import Work
from firnline.operations.options import ReplaceOptions
from firnline.operations.replace.plan import (
    ReplacePlan,
    plan_nothing,
    plan_replace,
    refuse_rivals,
    span_of,
    with_new_columns,
)
from firnline.operations.rewriting import RewriteResult, change, commit_or_discard, execute
from firnline.operations.runner import PartsReport, Progress, Runner, what_helps
from firnline.rows.source import Rows, tables_of
from firnline.state.snapshot import Snapshot
from firnline.table import Table
from firnline.types.schema import SchemaUnion
from firnline.types.values import Scalar
from firnline.units import counted

if TYPE_CHECKING:
    from firnline.operations.replace.rows import NewRows

__all__ = ["ReplaceFailedError", "ReplaceOptions", "ReplaceReport", "preview", "run_replace"]

OP = "replace"


def preview(table: Table, options: ReplaceOptions) -> ReplacePlan:
    """Plan as ``run_replace`` would; the footers of the new rows are read, and no row.

    Requests: those of ``take_base``; for staged files a LIST per prefix, and a ranged GET per file
    (two for a very wide one).

    Raises what ``run_replace`` raises before it reads a row, and UsageError for rows of which a
    footer proves that they lie outside of the interval.
    """
    _refuse_sources(options, has_data=False)
    base = take_base(table)
    if options.nothing:
        return _plan(base.table, base, options, {})
    from firnline.operations.replace.look import look_at

    found = look_at(base, options)
    plan = _plan(base.table, base, options, found.columns)
    return replace(plan, rows_new=found.rows, inside=found.inside)


def _preview_of_data(table: Table, options: ReplaceOptions) -> ReplacePlan:
    """Plan the parts for rows that the caller has, which are not looked at."""
    base = take_base(table)
    table = base.table
    if not base.snapshot.live:  # its columns may be those of the new rows
        return plan_nothing(base.snapshot, span_of(options, table.settings), _mode(table, options))
    return replace(_plan(table, base, options, {}), rows_new=None, inside=False)


def run_replace(
    work: Work,
    options: ReplaceOptions,
    *,
    data: Rows | NewRows | None = None,
) -> ReplaceReport:
    """Replace the rows of an interval in one transaction, all of it or nothing.

    Readers see the old rows or the new ones. An append that began before the commit is covered
    (its rows of the interval are hidden whenever it lands), one that began after it stays. Of two
    replaces at once the later commit wins where they overlap, also over the other's new rows.

    Files in the table's bucket are read and written by the engine, as tasks; those of this machine,
    and those for a table that does not have the column yet, by this process.

    Requests: one LIST each of ``_log/`` and ``_txn/`` and the log reads, a LIST per prefix and a
    GET per staged file, a PUT per new part, one GET per part that the interval cuts and the outputs
    (eager), four for the probe of the store, two PUT and a LIST. Parts that lie wholly inside or
    wholly outside by their statistics are never read.

    Args:
        work: on what, and for whom; told whenever a group has been read.
        options: which rows, and the files with the new ones.
        data: the new rows instead of files: tables, streams of batches, or parts that somebody
            has written already.

    Raises:
        UsageError: an interval that is none; not exactly one of files, data and nothing; a
            partition for nothing, or one that the table does not take; a new row outside of the
            interval, or no new row at all.
        PartUnreadableError, PartSchemaError, SchemaConflictError: new rows that do not fit.
        ReplaceFailedError: a part could not be read; nothing was committed.
        CommitConflictError, CommitExpiredError, CommitUnknownError: see ``transaction.commit``.
    """
    _refuse_sources(options, has_data=data is not None)
    state = _Run(Runner(work.table, work.identity, work.engine), options, work.tell)
    if options.dry_run:
        plan = preview if data is None else _preview_of_data
        return state.report(plan(work.table, options), RewriteResult(), None)
    with state.new:
        state.answer_for(data)
        base = state.runner.take_base()
        if span_of(options, base.table.settings).column in base.snapshot.schema:
            _plan(base.table, base, options, {})  # before a row is read: refuses a bad interval
        state.runner.probe()
        return state.replace(base, state.write(base, data, work.scratch))


def _refuse_sources(options: ReplaceOptions, *, has_data: bool) -> None:
    given = [bool(options.files), has_data, options.nothing]
    if sum(given) != 1:
        which = "neither is" if not any(given) else "both are"
        raise UsageError(
            f"a replace takes either new rows or `nothing`, and {which} given",
            next_step="give files with the new rows, or say that there are none (`nothing`, "
            "`--nothing`)",
        )
    if options.nothing and options.partition is not None:
        raise UsageError(
            f"partition {options.partition!r} is named for new rows, and there are to be none",
            next_step="leave out the partition (--partition), or give files instead of --nothing",
        )


def _plan(
    table: Table, base: Base, options: ReplaceOptions, new_columns: Mapping[str, str]
) -> ReplacePlan:
    return plan_replace(
        base.snapshot,
        table.settings,
        span_of(options, table.settings),
        with_new_columns(base.snapshot.schema, new_columns),
        mode=_mode(table, options),
    )


def _mode(table: Table, options: ReplaceOptions) -> Mode:
    return options.mode or table.settings.deletes


@dataclass
class _Run:
    """The state of one run."""

    runner: Runner
    options: ReplaceOptions
    on_progress: Callable[[Progress], None]
    delete: str = ""
    transaction: int | None = None
    counts: Counts = field(default_factory=Counts)
    new: Outputs = field(init=False)
    """The parts with the new rows, of every try."""

    def __post_init__(self) -> None:
        self.new = Outputs(self.table)
        self.delete = self.table.ids.uuid7(self.table.clock.now_ms())

    @property
    def table(self) -> Table:
        return self.runner.table

    def answer_for(self, data: Rows | NewRows | None) -> None:
        """Treat parts that the caller has written like those of this run: failures delete them."""
        if data is not None:
            from firnline.operations.replace.rows import NewRows

            if isinstance(data, NewRows):
                self.new.add(*data.keys)

    def write(self, base: Base, data: Rows | NewRows | None, scratch: Path | None) -> NewRows:
        """Upload the new rows, not visible yet."""
        from firnline.operations.replace.rows import NewRows

        if isinstance(data, NewRows):
            self.delete = data.delete or self.delete  # footers of the parts name it
            return data
        if self.options.nothing:
            return NewRows()
        return (
            self._write_files(base, scratch) if data is None else self._write(base, data, scratch)
        )

    def _write_files(self, base: Base, scratch: Path | None) -> NewRows:
        """Write the rows of staged files: by the engine, or here if only this process can."""
        from firnline.operations.replace.staged import read_staged, staged_files
        from firnline.operations.replace.tasks import NewTasks

        table, options = self.table, self.options
        files = staged_files(table, options.files)
        span = span_of(options, table.settings)
        tasks = NewTasks(table, base, span, self.delete, options.partition)
        if tasks.can_take(files):
            return tasks.write(self.runner.engine, files, self.new)
        union = SchemaUnion()
        union.add("the table", base.snapshot.schema)
        with scratch_folder(scratch) as folder:
            return self._write(base, read_staged(files, table, union, folder), scratch)

    def _write(self, base: Base, data: Rows, scratch: Path | None) -> NewRows:
        """Write rows in this process."""
        from firnline.operations.replace.rows import NewParts

        table, options = self.table, self.options
        span = span_of(options, table.settings)
        with scratch_folder(scratch) as folder:
            parts = NewParts(table, base, span, self.delete, folder, options.partition)
            written = parts.write(tables_of(data))
        self.new.add(*written.keys)
        return written

    def replace(self, base: Base, new: NewRows) -> ReplaceReport:
        """Plan, execute and commit; start over where another run was quicker."""
        while True:
            plan = _plan(self.table, base, self.options, new.columns)
            result = self._execute(base, plan)
            if result.failures:
                result.discard(self.table)
                raise ReplaceFailedError(self.report(plan, result, new))
            if self._commit(base, plan, result, new):
                return self.report(plan, result, new)
            self.runner.plan_again()
            # From the first base on: the new parts are as old as that, and must not be taken for
            # orphans before they are committed.
            base = self.runner.take_base(since=base)

    def _execute(self, base: Base, plan: ReplacePlan) -> RewriteResult:
        if not plan.groups:
            return RewriteResult()
        work = RowWork(op=OP, hides=(self._record(plan),), only_touched=True)
        return execute(
            self.table,
            base.snapshot,
            self.runner.engine,
            plan.groups,
            work,
            self.on_progress,
            go_on=False,
        )

    def _record(self, plan: ReplacePlan) -> Delete:
        """Return the delete record; its sequence and time are set when it is committed."""
        return Delete(self.delete, 0, 0, msgspec.Raw(plan.where))

    def _commit(self, base: Base, plan: ReplacePlan, result: RewriteResult, new: NewRows) -> bool:
        """Commit; False when another run replaced parts of the plan, or added such rows."""
        old = change(base.snapshot, result, plan, [self._record(plan)], OP)
        columns = with_new_columns(base.snapshot.schema, new.columns)
        rivals = refuse_rivals(base.snapshot, plan.span.predicate(columns), columns)

        def refuse(snapshot: Snapshot) -> None:
            new.refuse_old_names(snapshot)
            if plan.mode == "eager":
                rivals(snapshot)

        replacement = replace(new.added_to(old), refuse=refuse)
        try:
            committed = commit_or_discard(
                self.table, base, replacement, self.runner.identity, result.done, self.new.attempt
            )
        except CommitConflictError:
            return False
        self.transaction, self.counts = committed.header.seq, committed.header.counts
        return True

    def report(
        self, plan: ReplacePlan, result: RewriteResult, new: NewRows | None
    ) -> ReplaceReport:
        """Return the report of plan and result."""
        return ReplaceReport(
            table=self.table.settings.name,
            dry_run=self.options.dry_run,
            mode=plan.mode,
            column=plan.span.column,
            start=plan.span.start,
            end=plan.span.end,
            equal=dict(plan.span.equal),
            delete=None if self.transaction is None else self.delete,
            transaction=self.transaction,
            rows_new=0 if new is None else new.rows,
            parts_new=0 if new is None else len(new.parts),
            bytes_new=0 if new is None else new.bytes,
            parts_read=plan.parts_in,
            parts_rewritten=len(result.rewritten),
            parts_dropped=len(plan.dropped),
            parts_excluded=plan.excluded,
            parts_hidden=plan.hidden,
            counts=self.counts,
            failures=tuple(result.failures),
            replans=self.runner.replans,
            requests=self.runner.requests,
            seconds=self.runner.seconds,
        )


class ReplaceReport(PartsReport, frozen=True, kw_only=True):
    """Result of a replace: its plan and what was done."""

    column: str
    start: Scalar
    end: Scalar
    equal: dict[str, Scalar]
    rows_new: int
    parts_new: int
    bytes_new: int


class ReplaceFailedError(RunFailedError):
    """A part could not be read, and nothing was committed; carries the report."""

    def __init__(self, report: ReplaceReport) -> None:
        super().__init__(
            f"nothing was replaced in table {report.table}: "
            f"{counted(len(report.failures), 'group')} of "
            f"parts could not be rewritten; the first, {report.failures[0]}",
            next_step=what_helps(
                report.failures,
                " and run it again, or leave the rewriting to merges with mode lazy",
            ),
        )
        self.report = report
