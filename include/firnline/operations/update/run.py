"""Update: new values for the rows that a condition is true for, in one transaction.

Rows that an append brings while an update runs stay as they are: an update leaves no record, other
than a delete. Of rows that a delete hides meanwhile none comes back (``Change.computed``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from firnline.commit.base import Base, take_base
from firnline.errors import CommitConflictError, RunFailedError
from firnline.log.txn_file import Counts
from firnline.operations.kernel_tasks import change_of
from firnline.operations.operation import Work
from firnline.operations.options import UpdateOptions
from firnline.operations.rewrite.plan import RewritePlan, asked_evidence, refuse_evidence
from firnline.operations.rewrite.prepare import PrepareReport, Way, prepare_by
from firnline.operations.rewriting import (
    RewriteResult,
    commit_or_discard,
    execute,
    is_nothing,
    of_other_tries,
)
from firnline.operations.runner import Failure, Progress, Report, Runner, what_helps
from firnline.operations.update.plan import OP, make_plan, make_work
from firnline.table import Table
from firnline.units import counted


class UpdateReport(Report, frozen=True, kw_only=True):
    """Result of an update: its plan and what was done."""

    table: str
    dry_run: bool
    transaction: int | None
    """Sequence number; None when no row changed and nothing was committed."""
    rows_changed: int
    """Rows that the condition is true for. Of a table with a primary key, and a condition on
    columns of the key alone, older rows of the keys count too."""
    partitions: tuple[str, ...]
    """Partitions with such rows."""
    parts_read: int
    parts_rewritten: int
    parts_excluded: int
    """Statistics prove that no row of theirs changes."""
    counts: Counts
    earlier: bool = False
    """Another try of the same run had committed ``transaction`` before; nothing else was done."""
    failures: tuple[Failure, ...]
    """With any of them nothing is committed."""
    replans: int
    """Times that the run planned again because of what another run committed."""
    requests: dict[str, int]
    seconds: float


class UpdateFailedError(RunFailedError):
    """A part could not be read or written, and nothing was committed; carries the report."""

    def __init__(self, report: UpdateReport) -> None:
        super().__init__(
            f"no row of table {report.table} was updated: "
            f"{counted(len(report.failures), 'group')} of parts could not be rewritten; the first, "
            f"{report.failures[0]}",
            next_step=what_helps(report.failures, " and run it again"),
            causes=(failure.error for failure in report.failures),
        )
        self.report = report


def _most(_: Table, __: UpdateOptions) -> float:
    return 0.0  # no row vanishes


UPDATING = Way(op=OP, plan=make_plan, work=make_work, most=_most)


def preview(table: Table, options: UpdateOptions) -> RewritePlan:
    """Plan as ``run_update`` would; requests of ``take_base``, errors of ``make_plan``."""
    refuse_evidence(options)
    base = take_base(table)
    if options.prepare:
        asked_evidence(base.table, base.snapshot, options)
    return make_plan(base.table, base.snapshot, options)


def run_either(work: Work, options: UpdateOptions) -> UpdateReport | PrepareReport:
    """Update, or prepare an update, as the options say. Raises as either."""
    return prepare_by(UPDATING, work, options) if options.prepare else run_update(work, options)


def run_update(work: Work, options: UpdateOptions) -> UpdateReport:
    """Give the rows that a condition is true for new values: all of them, or none.

    A second run computes from what the first one made: ``n = n + 1`` counts twice. A retry that
    states ``first_try`` does nothing where another try has committed, also one that was given up
    and still runs beside it.

    Requests: one LIST each of ``_log/`` and ``_txn/`` and the log reads, one GET per part that
    statistics do not exclude, the outputs, four for the probe of the store, two PUT and a LIST; for
    a run with ``first_try`` one LIST and a ranged GET per transaction that is kept.

    Args:
        work: on what, and for whom; told whenever a group has been read.
        options: which rows, and their new values.

    Raises:
        UsageError: a condition or an expression that is refused, evidence without ``prepare``, a
            glob that matches no partition.
        UpdateFailedError: a part could not be read, or a value computed; nothing was committed.
        CommitConflictError, CommitExpiredError, CommitUnknownError: see ``transaction.commit``.
    """
    refuse_evidence(options)
    state = _Run(Runner(work.table, work.identity, work.engine), options, work.tell)
    plan, result = state.runner.run(
        state.plan, state.act, ends=lambda plan: options.dry_run or plan.nothing_to_do
    )
    return state.report(plan, result or RewriteResult())


@dataclass
class _Run:
    """The state of one run."""

    runner: Runner
    options: UpdateOptions
    tell: Callable[[Progress], None]
    transaction: int | None = None
    partitions: tuple[str, ...] = ()
    counts: Counts = field(default_factory=Counts)
    earlier: bool = False

    def plan(self, base: Base) -> RewritePlan:
        """Plan; nothing where another try of the run has committed."""
        first, again = self.options.first_try, self.runner.replans > 0
        earlier = of_other_tries(base.table, self.runner.identity, first, OP, again=again)
        if not earlier:
            return make_plan(base.table, base.snapshot, self.options)
        done = earlier[0]
        self.transaction, self.counts, self.earlier = done.seq, done.counts, True
        self.partitions = done.partitions
        return RewritePlan(base.seq, (), ())

    def act(self, base: Base, plan: RewritePlan) -> RewriteResult | None:
        """Rewrite and commit; None when another run changed what the plan was made on."""
        table, snapshot = base.table, base.snapshot
        work = make_work(table, snapshot, self.options)
        engine = self.runner.engine
        result = execute(table, snapshot, engine, plan.groups, work, self.tell, go_on=False)
        if result.failures:
            result.discard(table)
            raise UpdateFailedError(self.report(plan, result))
        update = replace(change_of(snapshot, result.done, op=OP), computed=True)
        if is_nothing(update):
            return result
        try:
            made = commit_or_discard(table, base, update, self.runner.identity, result.done)
        except CommitConflictError:
            return None
        self.transaction, self.counts = made.header.seq, made.header.counts
        self.partitions = update.partitions
        return result

    def report(self, plan: RewritePlan, result: RewriteResult) -> UpdateReport:
        """Return the report of the last plan and what came of it."""
        return UpdateReport(
            table=self.runner.table.settings.name,
            dry_run=self.options.dry_run,
            transaction=self.transaction,
            rows_changed=self.counts.rows_changed
            if self.earlier
            else sum(each.rows_changed for _, each in result.done),
            partitions=self.partitions,
            parts_read=plan.parts_in,
            parts_rewritten=len(result.rewritten),
            parts_excluded=len(plan.left_alone),
            counts=self.counts,
            earlier=self.earlier,
            failures=tuple(result.failures),
            replans=self.runner.replans,
            requests=self.runner.requests,
            seconds=self.runner.seconds,
        )
