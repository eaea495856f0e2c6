"""Delete by predicate: all rows that match it are removed in one transaction.

Every delete commits a record that hides the rows from then on, also those of appends that began
before it and land later. ``eager`` rewrites in the same transaction the parts that hold such rows;
``lazy`` leaves that to the next merge (docs/format.md, "Deletes").
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from firnline.commit.base import Base, take_base
from firnline.errors import CommitConflictError, RunFailedError, UsageError
from firnline.kernel.visibility import stays
from firnline.log.records import Delete
from firnline.log.txn_file import Counts
from firnline.operations.delete.plan import DeletePlan, plan_delete
from firnline.operations.kernel_tasks import RowWork, hidden_condition
from firnline.operations.operation import Work
from firnline.operations.options import DeleteOptions
from firnline.operations.rewriting import (
    RewriteResult,
    change,
    commit_or_discard,
    execute,
    is_nothing,
)
from firnline.operations.runner import PartsReport, Progress, Runner, what_helps
from firnline.predicate.sql import parse_sql
from firnline.predicate.tree import Predicate, parse_asked
from firnline.state.snapshot import Snapshot
from firnline.table import Table
from firnline.units import counted

OP = "delete"


class DeleteReport(PartsReport, frozen=True, kw_only=True):
    """Result of a delete: its plan and what was done.

    Of a table with a primary key, a condition on other columns makes no record: the rows that
    readers saw are gone with all older ones of their keys, and appends that were under way come
    after it.
    """

    holds: tuple[str, ...] = ()
    """Legal holds whose rows stay, with those of which a null leaves open whether one covers
    them."""


class DeleteFailedError(RunFailedError):
    """A part could not be read, and nothing was committed; carries the report."""

    def __init__(self, report: DeleteReport) -> None:
        super().__init__(
            f"nothing was deleted from table {report.table}: "
            f"{counted(len(report.failures), 'group')} of "
            f"parts could not be rewritten; the first, {report.failures[0]}",
            next_step=what_helps(
                report.failures,
                " and run it again, or hide the rows from readers at once with mode lazy",
            ),
        )
        self.report = report


def preview(table: Table, options: DeleteOptions) -> DeletePlan:
    """Plan as ``run_delete`` would; requests and errors of ``take_base`` and ``plan_delete``."""
    return _plan(take_base(table), options)


def run_delete(work: Work, options: DeleteOptions) -> DeleteReport:
    """Delete rows in one transaction, all of it or nothing.

    By columns outside the primary key of a table: carried out on the rows that readers see,
    without a record (``DeletePlan.by_winners``); everything below is about all others.

    The record is committed also when no part holds a matching row: an append that is under way
    may bring some. So a second run right after the first reads what statistics do not exclude,
    rewrites nothing, and commits a second record, which covers what began in between.

    Requests: one LIST each of ``_log/`` and ``_txn/`` and the log reads, one GET per part that
    statistics do not exclude, the outputs, four for the probe of the store, two PUT and a LIST.
    Lazy, or with nothing to read: no GET of parts.

    Args:
        work: on what, and for whom; told whenever a group has been read.
        options: which rows.

    Raises:
        UsageError: the predicate is not one, or names what the table does not have; a glob that
            matches no partition.
        DeleteFailedError: a part could not be read; nothing was committed.
        CommitConflictError, CommitExpiredError, CommitUnknownError: see ``transaction.commit``.
    """
    state = _Run(Runner(work.table, work.identity, work.engine), options, work.tell)
    plan, result = state.runner.run(
        lambda base: _plan(base, options),
        state.act,
        ends=lambda plan: options.dry_run or plan.nothing_to_do,
    )
    return state.report(plan, result or RewriteResult())


def parse_where(text: str, snapshot: Snapshot) -> Predicate:
    """Return the bound predicate of SQL text or JSON. Raises UsageError."""
    if not text.strip():
        raise UsageError("the condition is empty", next_step="say which rows to delete")
    if text.lstrip().startswith("{"):
        return parse_asked(text, snapshot.schema)
    return parse_sql(text, snapshot.schema)


def _plan(base: Base, options: DeleteOptions) -> DeletePlan:
    snapshot, table = base.snapshot, base.table
    return plan_delete(
        snapshot,
        table.settings,
        parse_where(options.where, snapshot),
        mode=options.mode or table.settings.deletes,
        partitions=options.partitions,
    )


@dataclass
class _Run:
    """The state of one run."""

    runner: Runner
    options: DeleteOptions
    on_progress: Callable[[Progress], None]
    delete: str | None = None
    transaction: int | None = None
    counts: Counts = field(default_factory=Counts)

    def act(self, base: Base, plan: DeletePlan) -> RewriteResult | None:
        """Rewrite and commit; None when another run replaced parts of the plan."""
        result = self.execute(base, plan)
        if result.failures:
            result.discard(base.table)
            raise DeleteFailedError(self.report(plan, result))
        table = base.table
        delete = table.ids.uuid7(table.clock.now_ms())
        records = [] if plan.by_winners else [self.record(plan, delete)]
        deletion = change(base.snapshot, result, plan, records, OP)
        if is_nothing(deletion):
            return result
        try:
            committed = commit_or_discard(table, base, deletion, self.runner.identity, result.done)
        except CommitConflictError:
            return None
        self.delete = delete if records else None
        self.transaction = committed.header.seq
        self.counts = committed.header.counts
        return result

    def execute(self, base: Base, plan: DeletePlan) -> RewriteResult:
        if not plan.groups:
            return RewriteResult()
        work = RowWork(op=OP, hides=(self.record(plan),), only_touched=True)
        if plan.by_winners:
            gone = hidden_condition([self.record(plan)], base.snapshot.schema)
            assert gone is not None  # of a record there is one
            work = RowWork(op=OP, keep=stays(gone), keep_winners=True, only_touched=True)
        return execute(
            base.table,
            base.snapshot,
            self.runner.engine,
            plan.groups,
            work,
            self.on_progress,
            go_on=False,
        )

    def record(self, plan: DeletePlan, delete: str = "") -> Delete:
        """Return the delete record; its sequence and time are set when it is committed."""
        return Delete(delete, 0, 0, msgspec.Raw(plan.where), plan.partitions or None)

    def report(self, plan: DeletePlan, result: RewriteResult) -> DeleteReport:
        return DeleteReport(
            table=self.runner.table.settings.name,
            dry_run=self.options.dry_run,
            mode=plan.mode,
            delete=self.delete,
            transaction=self.transaction,
            parts_read=plan.parts_in,
            parts_rewritten=len(result.rewritten),
            parts_dropped=len(plan.dropped),
            parts_excluded=plan.excluded,
            parts_hidden=plan.hidden,
            counts=self.counts,
            holds=plan.holds,
            failures=tuple(result.failures),
            replans=self.runner.replans,
            requests=self.runner.requests,
            seconds=self.runner.seconds,
        )
