"""The repartition: rows of partitions of a former layout move to those of the table's layout.

One transaction for each source partition: it tombstones the parts that were read and brings their
rows in one or several other partitions, so a reader sees every row once, before and after. What is
committed stays, and is not done again.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Literal

import msgspec

from firnline.commit.base import Base, read_base, take_base
from firnline.commit.outputs import Outputs
from firnline.commit.transaction import Change
from firnline.errors import CommitConflictError, RunFailedError
from firnline.log.txn_file import Counts
from firnline.next_steps import PLANNED_ON_CURRENT
from firnline.operations.committer import outputs_of
from firnline.operations.kernel_tasks import change_of, kernel_task
from firnline.operations.operation import Work
from firnline.operations.options import RepartitionOptions
from firnline.operations.repartition.plan import (
    OP,
    RepartitionPlan,
    is_former,
    plan_repartition,
    refuse_other_layout,
    work_of,
)
from firnline.operations.rewriting import (
    PartitionResult,
    RunTotals,
    commit_or_discard,
    is_nothing,
    run_groups,
)
from firnline.operations.runner import Failure, Report, Runner, what_helps
from firnline.state.history import add_counts
from firnline.state.snapshot import Snapshot
from firnline.table import Table

_NAMED = 1_000
"""Partitions that a report names."""


class Moved(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of one source partition that was moved."""

    partition: str
    targets: int
    """Partitions that got its rows."""
    parts_in: int
    parts_out: int
    rows: int
    transaction: int


class RepartitionReport(Report, frozen=True, kw_only=True):
    """Result of a repartition: its plan and what was done."""

    table: str
    dry_run: bool
    layout: tuple[str, ...]
    partition_count: int
    """Partitions of the plan."""
    partitions: tuple[Moved, ...]
    """The first 1,000 of those that were moved."""
    transactions: tuple[int, ...]
    counts: Counts
    partitions_left: int
    """Chosen partitions of a former layout at the end of the run: writers have appended to them
    meanwhile, or they failed. The next run moves them."""
    parts_left: int
    failures: tuple[Failure, ...]
    replans: int
    """Times that the run planned again because another run replaced parts of the plan."""
    requests: dict[str, int]
    seconds: float


class RepartitionFailedError(RunFailedError):
    """Some partitions could not be moved; carries the report."""

    def __init__(self, report: RepartitionReport) -> None:
        super().__init__(
            f"partitions of table {report.table} could not be moved, "
            f"{len(report.transactions)} of {report.partition_count} were; the first, "
            f"{report.failures[0]}",
            next_step=what_helps(report.failures),
            causes=(failure.error for failure in report.failures),
        )
        self.report = report


def preview(table: Table, options: RepartitionOptions) -> RepartitionPlan:
    """Plan as ``run_repartition`` would; requests of ``take_base``, errors of the run."""
    return _plan(take_base(table), options)


def run_repartition(work: Work, options: RepartitionOptions) -> RepartitionReport:
    """Move the rows of partitions of a former layout, a transaction for each of them.

    Requests: one LIST each of ``_log/`` and ``_txn/`` and the log reads, one GET per part of the
    source partitions, one PUT per new part (more for large ones), four for the probe of the store,
    a commit (two PUT and a LIST) per source partition, and the log once more at the end.

    Args:
        work: on what, and for whom; told whenever a group is read or a partition is committed.
        options: which partitions.

    Raises:
        UsageError: see ``plan_repartition``.
        PropertiesDifferError: the settings name another layout than the table has.
        RepartitionFailedError: some partitions could not be moved; the others are.
        CommitConflictError, CommitExpiredError, CommitUnknownError: see ``transaction.commit``.
    """
    totals = RunTotals(work.tell)
    state = _Run(Runner(work.table, work.identity, work.engine), options, totals)
    state.runner.run(state.plan, state.act, ends=lambda plan: options.dry_run or plan.nothing_to_do)
    report = state.report()
    if report.failures:
        raise RepartitionFailedError(report)
    return report


def _plan(
    base: Base, options: RepartitionOptions, left: frozenset[str] | None = None
) -> RepartitionPlan:
    """Plan; ``left``: partitions of an earlier plan of this run, None for the first one."""
    refuse_other_layout(base.table, base.properties)
    globs = options.partitions if left is None else ()
    plan = plan_repartition(
        base.snapshot, base.table.settings, partitions=globs, every=options.every
    )
    if left is None:
        return plan
    return replace(plan, sources=tuple(s for s in plan.sources if s.partition in left))


@dataclass
class _Run:
    """The state of one run."""

    runner: Runner
    options: RepartitionOptions
    totals: RunTotals
    done: set[str] = field(default_factory=set)
    """Partitions that are moved, or failed."""
    chosen: frozenset[str] | None = None
    """Partitions of the first plan."""
    layout: tuple[str, ...] = ()
    left: tuple[int, int] = (0, 0)
    """Partitions and parts of a former layout, of those that were chosen."""
    moved: list[Moved] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)

    @property
    def table(self) -> Table:
        return self.runner.table

    def plan(self, base: Base) -> RepartitionPlan:
        left = None if self.chosen is None else self.chosen - self.done
        plan = _plan(base, self.options, left)
        if self.chosen is None:
            self.chosen = frozenset(source.partition for source in plan.sources)
        self.layout = plan.layout
        self.totals.planned(len(plan.groups), plan.parts_in)
        self._look(base.snapshot)
        return plan

    def act(self, base: Base, plan: RepartitionPlan) -> Literal[True] | None:
        """Run a plan to its end; None when another run replaced parts of some partitions."""
        work, lost, on = work_of(self.table), False, base
        tasks = [
            (group, kernel_task(self.table, base.snapshot, number, group, work))
            for number, group in enumerate(plan.groups)
        ]
        engine, read = self.runner.engine, self.totals.read
        with closing(run_groups(self.table, engine, tasks, read)) as results:
            for result in results:
                if result is None:
                    continue
                try:
                    on = self._finish(base, on, result)
                except CommitConflictError:
                    lost = True
                    on = take_base(self.table, since=on)
        if self.totals.transactions and not lost:
            # What writers have appended meanwhile: a commit that meets no rival does not list it.
            self._look(read_base(self.table).snapshot)
        return None if lost else True

    def _finish(self, planned_on: Base, on: Base, result: PartitionResult) -> Base:
        """Commit one partition; return the base for the next. Raises CommitConflictError."""
        if result.failures:
            self.failures += result.failures
            self.done.add(result.partition)
            return on
        if on.table.settings.partition_by != planned_on.table.settings.partition_by:
            Outputs(self.table, outputs_of(result.done)).delete()
            raise CommitConflictError(
                "another run changed the table's layout meanwhile", next_step="run it again"
            )
        change = _change(planned_on.snapshot, result)
        if not is_nothing(change):
            made = commit_or_discard(self.table, on, change, self.runner.identity, result.done)
            on = made.base or take_base(self.table, since=on)
            self.totals.committed(made.header.seq, change.counts)
            targets = {self.table.paths.parse_part(m.p).partition for m in change.adds}
            moved = Moved(
                partition=result.partition,
                targets=len(targets),
                parts_in=change.counts.parts_in,
                parts_out=change.counts.parts_out,
                rows=change.counts.rows_out,
                transaction=made.header.seq,
            )
            self.moved += [moved] if len(self.moved) < _NAMED else []
        self.done.add(result.partition)
        self.totals.report()
        return on

    def _look(self, snapshot: Snapshot) -> None:
        settings, chosen = self.table.settings, self.chosen or frozenset()
        left = [p for p in chosen if p in snapshot.partitions and is_former(settings, p)]
        self.left = len(left), sum(len(snapshot.partitions[p]) for p in left)

    def report(self) -> RepartitionReport:
        return RepartitionReport(
            table=self.table.settings.name,
            dry_run=self.options.dry_run,
            layout=self.layout,
            partition_count=len(self.chosen or ()),
            partitions=tuple(sorted(self.moved, key=lambda one: one.partition)),
            transactions=tuple(self.totals.transactions),
            counts=add_counts(self.totals.counts),
            partitions_left=self.left[0],
            parts_left=self.left[1],
            failures=tuple(self.failures),
            replans=self.runner.replans,
            requests=self.runner.requests,
            seconds=self.runner.seconds,
        )


def _change(planned: Snapshot, result: PartitionResult) -> Change:
    """Return the transaction of one source partition."""
    made = change_of(planned, result.done, op=OP)
    targets = {part.partition for _, found in result.done for part in found.parts}

    def refuse(snapshot: Snapshot) -> None:
        """Refuse a base with a delete that goes by the former place of the rows.

        Its record says which partitions it is about, and would miss the rows in the new ones.
        """
        for delete in snapshot.deletes.values():
            if delete.seq > planned.seq and delete.partitions:
                raise CommitConflictError(
                    f"transaction {delete.seq} deleted rows of some partitions meanwhile",
                    next_step=PLANNED_ON_CURRENT,
                )

    return replace(
        made,
        # A run of clustered parts is one of one partition.
        adds=tuple(msgspec.structs.replace(marker, c=None) for marker in made.adds),
        partitions=tuple(sorted({*made.partitions, *targets})),
        refuse=refuse,
    )
