"""The merge: small parts of a partition become one sorted part.

Groups are committed as they complete, those of the last seconds in one transaction, so that a
killed run keeps its progress; a group that cannot be read is reported and the others go on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from firnline.commit.base import Base, take_base
from firnline.errors import RunFailedError
from firnline.kernel.engine import Engine, running
from firnline.kernel.task import KernelResult
from firnline.log.txn_file import Counts, RunIdentity
from firnline.operations.committer import Committer, Done
from firnline.operations.kernel_tasks import MERGE_SOURCE, unread
from firnline.operations.merge.groups import MergePlan, PlannedGroup
from firnline.operations.merge.plan import plan_merge
from firnline.operations.merge.slices import Gathering, tasks_of
from firnline.operations.options import MergeOptions
from firnline.operations.runner import Failure, Progress, Report, Runner
from firnline.state.history import add_counts
from firnline.table import Table

_LOG = logging.getLogger(__name__)


class MergeReport(Report, frozen=True, kw_only=True):
    """Result of a merge: its plan and what was done."""

    table: str
    dry_run: bool
    groups: int
    """Groups of the plan; parts of a partition that are dropped unread count as one."""
    groups_done: int
    tasks: int
    """Kernel tasks that have ended; more than groups where some were sliced."""
    transactions: tuple[int, ...]
    """Sequence numbers of what was committed."""
    counts: Counts
    failures: tuple[Failure, ...]
    replans: int
    """Times that the run planned again because another run replaced parts of the plan."""
    requests: dict[str, int]
    seconds: float


def preview(table: Table, options: MergeOptions) -> MergePlan:
    """Read the log and plan; nothing is written but an unpublished transaction's log file.

    Requests: those of ``take_base``.
    """
    return _plan(take_base(table), options, frozenset())


def run_merge(
    table: Table,
    engine: Callable[[], Engine],
    options: MergeOptions,
    run: RunIdentity,
    on_progress: Callable[[Progress], None] | None = None,
) -> MergeReport:
    """Plan, merge, commit.

    Requests: one LIST each of ``_log/`` and ``_txn/`` and the log reads, then N GET for N inputs,
    the outputs, four for the probe of the store and two per transaction. Of a group that is sliced:
    a ranged GET for the footer of each input of several row groups, and in each slice, for an input
    of which it needs all row groups, one GET, of some, one for the footer and one for each stretch
    of neighbours.

    Args:
        table: the table.
        engine: called once there is something to do, so that no JVM starts for nothing.
        options: what to merge.
        run: who runs it, for the history.
        on_progress: called whenever a group completes or a transaction commits.

    Raises:
        MergeFailedError: some groups failed; what completed is committed, and the error
            holds the report.
        CommitExpiredError, CommitUnknownError: see ``transaction.commit``.
    """
    state = _Run(Runner(table, run, engine), on_progress or (lambda _: None))
    state.runner.run(
        lambda base: state.plan(base, options),
        state.execute,
        ends=lambda plan: options.dry_run or plan.nothing_to_do,
    )
    report = state.report(options)
    if report.failures:
        raise MergeFailedError(report)
    return report


class MergeFailedError(RunFailedError):
    """A merge that ended with groups it could not handle; carries the report."""

    def __init__(self, report: MergeReport) -> None:
        super().__init__(
            f"{len(report.failures)} of {report.groups} groups of table {report.table} could not "
            f"be merged, {report.groups_done} were; the first, {report.failures[0]}",
            next_step="repair or drop the parts that the report names and run it again",
            causes=(failure.error for failure in report.failures),
        )
        self.report = report


def _plan(base: Base, options: MergeOptions, excluded: frozenset[str]) -> MergePlan:
    table = base.table
    plan = plan_merge(
        base.snapshot,
        table.settings,
        table.clock.now_ms(),
        partitions=options.partitions,
        max_bytes=options.max_bytes,
        full=options.full,
        excluded=excluded,
    )
    if table.settings.merge.sql is not None and plan.groups:
        from firnline.kernel.query.process import check_query

        # Before the start, instead of in each group after all of its parts were read.
        check_query(table.settings.merge.sql, MERGE_SOURCE, base.snapshot.schema)
    return plan


@dataclass
class _Run:
    """The state of one run."""

    runner: Runner
    on_progress: Callable[[Progress], None]
    groups: int = 0
    groups_done: int = 0
    tasks: int = 0
    tasks_done: int = 0
    parts_in: int = 0
    parts_merged: int = 0
    counts: list[Counts] = field(default_factory=list)
    transactions: list[int] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    unreadable: set[str] = field(default_factory=set)

    def plan(self, base: Base, options: MergeOptions) -> MergePlan:
        plan = _plan(base, options, frozenset(self.unreadable))
        planned = len(plan.groups) + len(plan.hidden)
        self.groups = self.groups_done + len(self.failures) + planned
        self.parts_merged = sum(c.parts_in for c in self.counts)
        self.parts_in = self.parts_merged + plan.parts_in + plan.parts_hidden
        return plan

    def execute(self, base: Base, plan: MergePlan) -> Literal[True] | None:
        """Run a plan to its end; None when another run replaced some of its parts."""
        engine = self.runner.engine if plan.groups else None
        with Committer(base.table, self.runner.identity, base, self._committed) as committer:
            for group in plan.hidden:
                committer.add((group, unread(group)))
                self.parts_merged += len(group.parts)
            if engine is not None:
                self._merge(base, plan, engine, committer)
            committer.commit_all()
        return None if committer.conflicts else True

    def _merge(self, base: Base, plan: MergePlan, engine: Engine, committer: Committer) -> None:
        gathering = Gathering(base.table, list(tasks_of(base.table, base.snapshot, plan.groups)))
        self.tasks = self.tasks_done + len(gathering.tasks)
        with gathering, running(engine, gathering.tasks) as results:
            for result in results:
                if result is not None:
                    base.table.store.counters.add(result.requests)
                    self.tasks_done += 1
                    self._take(gathering.add(result), committer)
                committer.commit_when_due()

    def _take(self, done: Done | None, committer: Committer) -> None:
        """Take a group, once all of its tasks have ended."""
        if done is not None:
            group, result = done
            if result.error is None:
                committer.add(done)
                self.parts_merged += len(group.parts)
            else:
                self._failed(group, result)
        self._report_progress()

    def _failed(self, group: PlannedGroup, result: KernelResult) -> None:
        failure = Failure.of(group.partition, result)
        _LOG.error("partition %s: %s", failure.partition, failure.message)
        self.failures.append(failure)
        self.unreadable.update(m.p for m in group.parts)

    def _committed(self, seq: int, counts: Counts, groups: int) -> None:
        self.transactions.append(seq)
        self.counts.append(counts)
        self.groups_done += groups
        self._report_progress()

    def _report_progress(self) -> None:
        self.on_progress(
            Progress(
                groups=self.groups,
                groups_done=self.groups_done,
                tasks=self.tasks,
                tasks_done=self.tasks_done,
                parts_in=self.parts_in,
                parts_merged=self.parts_merged,
                parts_done=sum(c.parts_in for c in self.counts),
                transactions=len(self.transactions),
            )
        )

    def report(self, options: MergeOptions) -> MergeReport:
        return MergeReport(
            table=self.runner.table.settings.name,
            dry_run=options.dry_run,
            groups=self.groups,
            groups_done=self.groups_done,
            tasks=self.tasks_done,
            transactions=tuple(self.transactions),
            counts=add_counts(self.counts),
            failures=tuple(self.failures),
            replans=self.runner.replans,
            requests=self.runner.requests,
            seconds=self.runner.seconds,
        )
