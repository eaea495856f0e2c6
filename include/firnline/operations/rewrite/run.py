"""The rewrite of partitions: keeps rows by a filter, or computes new ones by a query.

All or nothing for each partition: its transaction is committed when all of it is written, and
readers see nothing before. Partitions that are committed stay so when a later one fails.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Literal

from firnline.commit.base import Base, take_base
from firnline.commit.outputs import Outputs
from firnline.errors import CommitConflictError
from firnline.operations.committer import outputs_of
from firnline.operations.kernel_tasks import kernel_task
from firnline.operations.operation import Work
from firnline.operations.options import RewriteOptions
from firnline.operations.rewrite.plan import (
    OP,
    PlannedPartition,
    RewritePlan,
    asked_evidence,
    make_plan,
    make_work,
    refuse_evidence,
)
from firnline.operations.rewrite.report import (
    PartitionRewrite,
    RewriteFailedError,
    RewriteRefusedError,
    RewriteReport,
    change,
    too_much,
)
from firnline.operations.rewriting import (
    PartitionResult,
    RunTotals,
    commit_or_discard,
    is_nothing,
    of_other_tries,
    run_groups,
)
from firnline.operations.runner import Failure, Runner
from firnline.state.history import add_counts
from firnline.table import Table

__all__ = [
    "RewriteFailedError",
    "RewriteOptions",
    "RewriteRefusedError",
    "RewriteReport",
    "preview",
    "run_rewrite",
]
_NAMED = 1_000
"""Partitions that a report names."""


def preview(table: Table, options: RewriteOptions) -> RewritePlan:
    """Plan as ``run_rewrite`` would, or ``run_prepare``; requests of ``take_base``.

    Raises UsageError as either, for all that is wrong without reading a part.
    """
    refuse_evidence(options)
    base = take_base(table)
    if options.prepare:
        asked_evidence(base.table, base.snapshot, options)
    return make_plan(base.table, base.snapshot, options, None)


def run_rewrite(work: Work, options: RewriteOptions) -> RewriteReport:
    """Rewrite partitions, each in one transaction.

    A filter may be run again at any time and changes nothing the second time. A query is applied
    again to what an earlier run made of a partition; a retry that states ``first_try`` goes on
    where the tries before it ended, also beside one of them that was given up and still runs.

    Requests: one LIST each of ``_log/`` and ``_txn/`` and the log reads, one GET per part that
    statistics do not exclude, the outputs, four for the probe of the store, two PUT and a LIST per
    partition that changes; for a run with ``first_try`` one LIST and a ranged GET per
    transaction that is kept.

    Args:
        work: on what, and for whom; told whenever a group is read or a partition is committed.
        options: which partitions, and what becomes of their rows.

    Raises:
        UsageError: options that contradict each other, a condition or query that is refused, a
            glob that matches no partition, evidence without ``prepare``.
        RewriteFailedError: some partitions could not be rewritten; the others are.
        RewriteRefusedError: some would have lost too many rows; the others are rewritten.
        CommitConflictError, CommitExpiredError, CommitUnknownError: see ``transaction.commit``.
    """
    refuse_evidence(options)
    totals = RunTotals(work.tell)
    state = _Run(Runner(work.table, work.identity, work.engine), options, totals)
    state.runner.run(state.plan, state.act, ends=lambda plan: options.dry_run or plan.nothing_to_do)
    report = state.report()
    if not report.failures:
        return report
    if report.refused:
        raise RewriteRefusedError(report)
    raise RewriteFailedError(report)


@dataclass
class _Run:
    """The state of one run."""

    runner: Runner
    options: RewriteOptions
    totals: RunTotals
    only: frozenset[str] | None = None
    """Partitions in which another run replaced parts; None: the plan is the first one."""
    partition_count: int = 0
    parts_untouched: int = 0
    partitions_earlier: int = 0
    partitions: list[PartitionRewrite] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    mine: set[str] = field(default_factory=set)
    """Partitions that this try has committed."""

    @property
    def table(self) -> Table:
        return self.runner.table

    def plan(self, base: Base) -> RewritePlan:
        plan = make_plan(base.table, base.snapshot, self.options, self._left(base))
        if self.only is None:
            self.partition_count = len(plan.partitions)
        self.totals.planned(len(plan.groups), plan.parts_in)
        return plan

    def act(self, base: Base, plan: RewritePlan) -> Literal[True] | None:
        """Run a plan to its end; None when another run replaced parts of some partitions."""
        planned = {p.partition: p for p in plan.partitions}
        lost: list[str] = []
        on = base
        for partition in plan.partitions:
            if not partition.groups:
                unread = PartitionResult(partition.partition, (), ())
                on = self._finish(base, on, partition, unread, lost)
        if plan.groups:
            work = make_work(self.table, base.snapshot, self.options)
            tasks = [
                (group, kernel_task(self.table, base.snapshot, number, group, work))
                for number, group in enumerate(plan.groups)
            ]
            engine = self.runner.engine
            with closing(run_groups(self.table, engine, tasks, self.totals.read)) as results:
                for result in results:
                    if result is not None:
                        on = self._finish(base, on, planned[result.partition], result, lost)
        # Only those: a query would be applied a second time to its own rows.
        self.only = frozenset(lost)
        return None if lost else True

    def _left(self, base: Base) -> frozenset[str] | None:
        """Return the partitions to plan, without those another try has done; None for all."""
        first, only = self.options.first_try, self.only
        again = self.runner.replans > 0
        earlier = of_other_tries(self.table, self.runner.identity, first, OP, again=again)
        if not earlier:
            return only
        done = {partition for header in earlier for partition in header.partitions}
        self.partitions_earlier = len(done - self.mine)
        return (frozenset(base.snapshot.partitions) if only is None else only) - done

    def _finish(
        self,
        planned_on: Base,
        on: Base,
        planned: PlannedPartition,
        result: PartitionResult,
        lost: list[str],
    ) -> Base:
        """Commit one partition; returns the base for the next."""
        if result.failures:
            self.failures += result.failures
            return on
        of_partition = change(planned_on.snapshot, planned, result.done, OP)
        of_partition = replace(of_partition, computed=self.options.sql is not None)
        most = 1.0 if self.options.force else self.table.settings.rewrite.max_removed_fraction
        refused = too_much(planned, of_partition, result.done, most)
        if refused is not None:
            Outputs(self.table, outputs_of(result.done)).delete()
            self.failures.append(refused)
            return on
        unchanged = sum(len(r.unchanged) for _, r in result.done)
        self.parts_untouched += unchanged
        transaction: int | None = None
        if not is_nothing(of_partition):
            try:
                made = commit_or_discard(
                    self.table, on, of_partition, self.runner.identity, result.done
                )
            except CommitConflictError:
                lost.append(planned.partition)
                return take_base(self.table, since=on)
            transaction = made.header.seq
            self.totals.committed(transaction, made.header.counts)
            self.mine.add(planned.partition)
            on = made.base or take_base(self.table, since=on)
        if len(self.partitions) < _NAMED:
            counts = of_partition.counts
            self.partitions.append(
                PartitionRewrite.of(planned.partition, counts, unchanged, transaction)
            )
        self.totals.report()
        return on

    def report(self) -> RewriteReport:
        return RewriteReport(
            table=self.table.settings.name,
            dry_run=self.options.dry_run,
            partitions=tuple(sorted(self.partitions, key=lambda p: p.partition)),
            partition_count=self.partition_count,
            partitions_changed=len(self.totals.transactions),
            transactions=tuple(self.totals.transactions),
            counts=add_counts(self.totals.counts),
            partitions_earlier=self.partitions_earlier,
            parts_untouched=self.parts_untouched,
            failures=tuple(self.failures),
            replans=self.runner.replans,
            requests=self.runner.requests,
            seconds=self.runner.seconds,
        )
