"""The merge: small parts of a partition become one sorted part.

Groups are committed as they complete, those of the last seconds in one transaction, so that a
killed run keeps its progress; a group that cannot be read is reported and the others go on. Where
several merges may work at once (``merge.slots``), a run works in turns (``merge.turns``).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from firnline.commit.base import Base, take_base
from firnline.errors import RunFailedError
from firnline.kernel.engine import Engine, at_once, running
from firnline.log.txn_file import Counts
from firnline.operations.committer import Committer, Done
from firnline.operations.kernel_tasks import MERGE_SOURCE, unread
from firnline.operations.merge.plan import MergePlan, plan_merge
from firnline.operations.merge.slices import Gathering, tasks_of
from firnline.operations.merge.turns import limited, next_turn, partitions_of
from firnline.operations.operation import Work
from firnline.operations.options import MergeOptions
from firnline.operations.runner import Failure, Progress, Report, Runner, what_helps
from firnline.state.history import add_counts
from firnline.state.snapshot import CHECKPOINT_ABOVE
from firnline.table import Table
from firnline.units import counted

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
    groups_lost: int
    """Groups whose parts another run had replaced first; their outputs were deleted."""
    replans: int
    """Times that the run planned again because another run replaced parts of the plan."""
    requests: dict[str, int]
    seconds: float


def preview(
    table: Table, options: MergeOptions, *, checkpoint_above: int = CHECKPOINT_ABOVE
) -> MergePlan:
    """Read the log and plan; nothing is written but an unpublished transaction's log file.

    Memory: of a large table about 130 bytes for each part, by its newest checkpoint; and 1 KB for
    each part of a group.

    Requests: those of ``take_base``. Above ``checkpoint_above`` bytes of log files 1 LIST and
    normally 1 GET for the newest checkpoint, and no GET for the log files that it covers.
    """
    return _plan(take_base(table, checkpoint_above=checkpoint_above), options, frozenset())


def run_merge(work: Work, options: MergeOptions) -> MergeReport:
    """Plan, merge, commit.

    Requests: one LIST each of ``_log/`` and ``_txn/`` and the log reads, then N GET for N inputs,
    the outputs, four for the probe of the store and a commit per transaction (two PUT and a LIST).
    Of a group that is sliced: a ranged GET for the footer of each input of several row groups, and
    in each slice, for an input of which it needs all row groups, one GET, of some, one for the
    footer and one for each stretch of neighbours. With ``merge.slots`` above 1 the two LIST and
    reads of new log files again for each turn.

    Args:
        work: on what, and for whom; told when the work begins, a group completes or a transaction
            commits.
        options: what to merge.

    Raises:
        MergeFailedError: some groups failed; what completed is committed, and the error
            holds the report.
        CommitExpiredError, CommitUnknownError: see ``transaction.commit``.
    """
    state = _Run(Runner(work.table, work.identity, work.engine), options, work.tell)
    more = True
    while more:
        _, done = state.runner.run(
            state.plan,
            state.execute,
            ends=lambda plan: options.dry_run or plan.nothing_to_do,
        )
        more = done is not None and not done.is_last
    report = state.report()
    if report.failures:
        raise MergeFailedError(report)
    return report


class MergeFailedError(RunFailedError):
    """A merge that ended with groups it could not handle; carries the report."""

    def __init__(self, report: MergeReport) -> None:
        super().__init__(
            f"{len(report.failures)} of {counted(report.groups, 'group')} of table "
            f"{report.table} could not "
            f"be merged, {report.groups_done} were; the first, {report.failures[0]}",
            next_step=what_helps(report.failures),
            causes=(failure.error for failure in report.failures),
        )
        self.report = report


def _plan(
    base: Base, options: MergeOptions, excluded: frozenset[str], max_bytes: int | None = None
) -> MergePlan:
    table = base.table
    plan = plan_merge(
        base.snapshot,
        table.settings,
        table.clock.now_ms(),
        partitions=options.partitions,
        max_bytes=options.max_bytes if max_bytes is None else max_bytes,
        full=options.full,
        excluded=excluded,
    )
    if table.settings.merge.sql is not None and plan.groups:
        from firnline.kernel.query.process import check_query

        # Before the start, instead of in each group after all of its parts were read.
        check_query(table.settings.merge.sql, MERGE_SOURCE, base.snapshot.schema, table.clock)
    return plan


@dataclass(frozen=True, slots=True)
class _Turn:
    """A turn that is over."""

    is_last: bool
    """True if nothing of the plan is left."""


@dataclass
class _Run:
    """The state of one run."""

    runner: Runner
    options: MergeOptions
    on_progress: Callable[[Progress], None]
    todo: frozenset[str] | None = None
    """Partitions of the first plan that no turn has had; None before it, and without turns."""
    bytes_read: int = 0
    """Bytes of the inputs of all turns that are over."""
    groups_lost: int = 0
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

    def plan(self, base: Base) -> MergePlan:
        """Plan what is left. After a turn only partitions of the first plan that no turn has had.

        So the run ends, whatever is appended and merged beside it.
        """
        plan = _plan(base, self.options, frozenset(self.unreadable), self._bytes_left(base))
        if self.todo is not None:
            plan = limited(plan, self.todo)
        planned = len(plan.groups) + len(plan.hidden)
        self.groups = self.groups_done + len(self.failures) + planned
        self.parts_merged = sum(c.parts_in for c in self.counts)
        self.parts_in = self.parts_merged + plan.parts_in + plan.parts_hidden
        return plan

    def _bytes_left(self, base: Base) -> int | None:
        """Return the bytes that the turns to come may read; None before the first, or unlimited."""
        bound = self.options.max_bytes
        if bound is None:
            bound = base.table.settings.merge.max_bytes_per_run
        return None if bound is None or self.todo is None else max(0, bound - self.bytes_read)

    def execute(self, base: Base, plan: MergePlan) -> _Turn | None:
        """Run a plan, or a turn of it; None when another run replaced some of its parts.

        Between turns that is as it should be: what another merge has done is not to do any more.
        """
        slots = base.table.settings.merge.slots
        if slots == 1:
            return None if self._work(base, plan) else _Turn(is_last=True)
        tasks_at_once = at_once(self.runner.engine) if plan.groups else 1
        turn = next_turn(plan, self.runner.identity, slots, tasks_at_once)
        self._work(base, turn)
        self.bytes_read += turn.bytes_in
        todo = partitions_of(plan) if self.todo is None else self.todo
        self.todo = todo - partitions_of(turn)
        return _Turn(is_last=not self.todo)

    def _work(self, base: Base, plan: MergePlan) -> int:
        """Merge and commit; return the number of groups that another run was quicker with."""
        engine = self.runner.engine if plan.groups else None
        with Committer(base.table, self.runner.identity, base, self._committed) as committer:
            for group in plan.hidden:
                committer.add((group, unread(group)))
                self.parts_merged += len(group.parts)
            if engine is not None:
                self._merge(base, plan, engine, committer)
            committer.commit_all()
        self.groups_lost += committer.conflicts
        return committer.conflicts

    def _merge(self, base: Base, plan: MergePlan, engine: Engine, committer: Committer) -> None:
        gathering = Gathering(base.table, list(tasks_of(base.table, base.snapshot, plan.groups)))
        self.tasks = self.tasks_done + len(gathering.tasks)
        self._report_progress()  # the first group may take long: what is done until then is no plan
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
                failure = Failure.of(group.partition, result)
                _LOG.error("%s", failure)
                self.failures.append(failure)
                self.unreadable.update(m.p for m in group.parts)
        self._report_progress()

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

    def report(self) -> MergeReport:
        return MergeReport(
            table=self.runner.table.settings.name,
            dry_run=self.options.dry_run,
            groups=self.groups,
            groups_done=self.groups_done,
            tasks=self.tasks_done,
            transactions=tuple(self.transactions),
            counts=add_counts(self.counts),
            failures=tuple(self.failures),
            groups_lost=self.groups_lost,
            replans=self.runner.replans,
            requests=self.runner.requests,
            seconds=self.runner.seconds,
        )
