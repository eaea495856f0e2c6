"""Replace parts outside of a merge: what rewrite, delete, replace and erase share.

``execute`` and ``change`` do all of it where parts with matching rows are rewritten. How another
operation uses the pieces:

1. plan ``PlannedGroup``s on ``base.snapshot`` (parts in insertion order, with the deletes that are
   pending on them; for a table with a primary key the groups contiguous in that order),
2. make a task of each: ``kernel_task(table, base.snapshot, number, group, RowWork(op=…, …))``,
3. loop over ``run_groups``: a partition at a time, all of its groups done or none,
4. ``change_of(base.snapshot, partition.done, op=…, deletes=…)``: one partition, or several put
   together. Inputs without a hidden row (``only_touched``) are not replaced. New parts have the
   base as their sequence and name ``deletes`` as applied. ``is_nothing`` says of a change that it
   replaces nothing: then there is nothing to commit, unless it brings a delete record,
5. ``commit_or_discard``: a partition of which no row is left needs nothing special, its parts are
   tombstoned and none is added. On ``CommitConflictError`` take a new base and plan again.

What becomes of outputs after a failure: ``firnline.commit.outputs``.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial

import msgspec

from firnline.commit.base import Base
from firnline.commit.outputs import Outputs
from firnline.commit.transaction import Change, Committed, commit
from firnline.kernel.engine import Engine, running
from firnline.kernel.task import KernelResult, KernelTask
from firnline.log.records import Delete, Marker
from firnline.log.txn_file import Counts, RunIdentity, TxnHeader
from firnline.operations.committer import Done, outputs_of
from firnline.operations.groups import PlannedGroup
from firnline.operations.hidden import shown_failure
from firnline.operations.kernel_tasks import RowWork, change_of, kernel_task, rewritten_parts
from firnline.operations.runner import Failure, Progress
from firnline.operations.selection import Selected
from firnline.state.history import history
from firnline.state.holds import Held
from firnline.state.snapshot import Snapshot
from firnline.store.create import Attempt
from firnline.table import Table

_LOG = logging.getLogger(__name__)
_TRANSACTIONS = 1_000_000
"""More transactions than are ever kept."""


@dataclass
class RewriteResult:
    """The result of the kernels for a plan."""

    done: list[Done] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    """Parts that stay as they are because they, or others in their group, could not be read."""

    @property
    def unchanged(self) -> list[str]:
        """Return the parts that were read and hold no matching row."""
        return [key for _, result in self.done for key in result.unchanged]

    @property
    def rewritten(self) -> list[tuple[str, Marker, int]]:
        """Return (partition, part, rows removed) of the parts that are replaced."""
        return [
            (group.partition, marker, result.rows_hidden.get(marker.p, 0))
            for group, result in self.done
            for marker in rewritten_parts(group, result)
        ]

    def discard(self, table: Table) -> None:
        """Delete the outputs, which nobody has tried to commit."""
        Outputs(table, outputs_of(self.done)).delete()


def execute(
    table: Table,
    snapshot: Snapshot,
    engine: Engine,
    groups: Sequence[PlannedGroup],
    work: RowWork,
    tell: Callable[[Progress], None],
    *,
    go_on: bool,
) -> RewriteResult:
    """Read all groups; a part without a matching row stays, the others are rewritten.

    Nothing is committed.

    Args:
        table: the table.
        snapshot: what the groups were planned on.
        engine: runs the kernels.
        groups: parts to read.
        work: what makes a row go.
        tell: called whenever a group has been read.
        go_on: read the other groups after a failure, and those of the failed partition again
            without the part at fault; False ends with the first failure.
    """
    result = RewriteResult()
    progress = _GroupProgress(groups, tell)
    todo = list(groups)
    try:
        while todo:
            todo = _pass(table, snapshot, engine, todo, work, result, progress, go_on=go_on)
    except BaseException:
        result.discard(table)
        raise
    return result


def change(
    snapshot: Snapshot,
    result: RewriteResult,
    selected: Selected,
    deletes: Sequence[Delete],
    op: str,
) -> Change:
    """Return the transaction: new parts, tombstones of replaced and dropped parts, records.

    ``selected`` keeps the rows of legal holds.
    """
    made = change_of(snapshot, result.done, op=op, deletes=deletes)
    dropped = [marker for _, marker in selected.dropped]
    rows, counts = sum(m.n or 0 for m in dropped), made.counts
    # Rows that a delete took away as the winners of their keys are deleted rows.
    removed = counts.rows_removed
    return replace(
        made,
        replaces=(*made.replaces, *(m.p for m in dropped)),
        counts=msgspec.structs.replace(
            counts,
            parts_in=counts.parts_in + len(dropped),
            rows_in=counts.rows_in + rows,
            rows_deleted=counts.rows_deleted + rows + removed,
            rows_removed=0,
            bytes_in=counts.bytes_in + sum(m.b for m in dropped),
        ),
        partitions=tuple(sorted({*made.partitions, *(p for p, _ in selected.dropped)})),
        clean=tuple(result.unchanged),
        holds=Held.of(snapshot).holds,
    )


@dataclass
class RunTotals:
    """The groups that a run over several partitions has read, and the transactions it has made."""

    tell: Callable[[Progress], None]
    groups: int = 0
    groups_done: int = 0
    parts_in: int = 0
    parts_read: int = 0
    counts: list[Counts] = field(default_factory=list)
    transactions: list[int] = field(default_factory=list)

    def planned(self, groups: int, parts: int) -> None:
        """Count what a plan adds to what is done; every further plan of the run replaces it."""
        self.groups = self.groups_done + groups
        self.parts_in = self.parts_read + parts

    def read(self, group: PlannedGroup, result: KernelResult) -> None:
        """Count a group that was read, and report."""
        if result.error is None:
            self.groups_done += 1
            self.parts_read += len(group.parts)
        self.report()

    def committed(self, seq: int, counts: Counts) -> None:
        """Count a transaction."""
        self.transactions.append(seq)
        self.counts.append(counts)

    def report(self) -> None:
        """Tell the progress."""
        self.tell(
            Progress(
                groups=self.groups,
                groups_done=self.groups_done,
                parts_in=self.parts_in,
                parts_merged=self.parts_read,
                parts_done=sum(c.parts_in for c in self.counts),
                transactions=len(self.transactions),
            )
        )


@dataclass
class _GroupProgress:
    groups: Sequence[PlannedGroup]
    tell: Callable[[Progress], None]
    read: int = 0
    done: int = 0

    def __call__(self, group: PlannedGroup, result: KernelResult) -> None:
        if result.error is None:
            self.read += len(group.parts)
            self.done += 1
        parts = sum(len(g.parts) for g in self.groups)
        self.tell(
            Progress(
                groups=len(self.groups),
                groups_done=min(self.done, len(self.groups)),
                parts_in=parts,
                parts_merged=min(self.read, parts),
                parts_done=0,
                transactions=0,
            )
        )


def _pass(
    table: Table,
    snapshot: Snapshot,
    engine: Engine,
    groups: Sequence[PlannedGroup],
    work: RowWork,
    total: RewriteResult,
    progress: _GroupProgress,
    *,
    go_on: bool,
) -> list[PlannedGroup]:
    """Run groups once; return those to run again without the parts at fault."""
    tasks = [
        (group, kernel_task(table, snapshot, number, group, work))
        for number, group in enumerate(groups)
    ]
    again: list[PlannedGroup] = []
    with closing(run_groups(table, engine, tasks, progress)) as running:
        for result in running:
            if result is None:
                continue
            total.done += result.done
            total.failures += result.failures
            if not result.failures:
                continue
            mine = [group for group in groups if group.partition == result.partition]
            if not go_on:
                total.failed += [m.p for group in mine for m in group.parts]
                return []
            rest = _without(mine, result.failures)
            kept = {m.p for group in rest for m in group.parts}
            total.failed += [m.p for group in mine for m in group.parts if m.p not in kept]
            again += rest
    return again


def _without(groups: Sequence[PlannedGroup], failures: Sequence[Failure]) -> list[PlannedGroup]:
    """Return the groups without the parts at fault; none when a failure names no part."""
    bad = {failure.key for failure in failures}
    if None in bad:
        return []
    rest = [
        PlannedGroup(
            group.partition, tuple(m for m in group.parts if m.p not in bad), group.deletes
        )
        for group in groups
    ]
    return [group for group in rest if group.parts]


@dataclass(frozen=True, slots=True)
class PartitionResult:
    """The result of one partition: every group is done, or some failed."""

    partition: str
    done: tuple[Done, ...]
    """Empty when a group failed: the outputs of the others are deleted already."""
    failures: tuple[Failure, ...]


def run_groups(
    table: Table,
    engine: Engine,
    work: Sequence[tuple[PlannedGroup, KernelTask]],
    on_result: Callable[[PlannedGroup, KernelResult], None] = lambda _group, _result: None,
) -> Generator[PartitionResult | None]:
    """Run tasks and give partitions back as they complete, in any order.

    None comes at least once a second while no partition completes, for callers that go by the
    clock. Closing the iterator cancels what runs and deletes the outputs of partitions that are
    not complete; those of a partition that was given back are the caller's.

    Args:
        table: the table; the kernels' requests are added to its store's counters.
        engine: runs the kernels.
        work: groups with their tasks; ``task.group`` is the place in this sequence.
        on_result: called for every group, failed ones too.
    """
    waiting: dict[str, int] = defaultdict(int)
    for group, _ in work:
        waiting[group.partition] += 1
    results: dict[str, list[Done]] = defaultdict(list)
    tasks = [task for _, task in work]
    hidden = {column for task in tasks if task.keys is not None for column in task.keys.columns}
    with Outputs(table) as new, running(engine, tasks) as found:
        for result in found:
            if result is None:
                yield None
                continue
            table.store.counters.add(result.requests)
            group = work[result.group][0]
            new.add(*outputs_of([(group, result)]))
            on_result(group, result)
            results[group.partition].append((group, result))
            if len(results[group.partition]) == waiting[group.partition]:
                batch = results.pop(group.partition)
                yield _complete(new, group.partition, batch, partial(_in_log, table, hidden))


def _complete(
    new: Outputs, partition: str, batch: list[Done], tell: Callable[[Failure], None]
) -> PartitionResult:
    failed = [(group, result) for group, result in batch if result.error is not None]
    failures = tuple(Failure.of(group.partition, result) for group, result in failed)
    for failure in failures:
        tell(failure)
    if failures:
        new.delete(outputs_of(batch))
        return PartitionResult(partition, (), failures)
    new.release(outputs_of(batch))
    return PartitionResult(partition, tuple(sorted(batch, key=lambda d: d[1].group)), ())


def _in_log(table: Table, hidden: Collection[str], failure: Failure) -> None:
    """Log a failure, of an erase without the values of its columns that the path has."""
    if hidden:
        failure = shown_failure(failure, table.paths.data_dir, hidden)
    _LOG.error("%s", failure)


def of_other_tries(
    table: Table, run: RunIdentity, first_try: int, op: str, *, again: bool
) -> list[TxnHeader]:
    """Return what other tries of this execution of a run have committed, the newest first.

    The first try looks, too: it may have slept until a retry has committed.

    Requests: none for a run without ``first_try``; else one LIST and a ranged GET per transaction
    that is kept.

    Args:
        table: the table.
        run: this try.
        first_try: the first try of this execution; 0: every try does all of it.
        op: the operation.
        again: the try plans again, as a try that was given up may have committed beside it.
    """
    if not first_try or not run.run_id:
        return []
    # Of a first try only its retries count: under its own number the run may have been done before,
    # and is to be done again.
    least = first_try if again or run.try_number > first_try else run.try_number + 1
    return [
        header
        for header in history(table, _TRANSACTIONS)
        if header.op == op and header.run.is_run_of(run) and header.run.try_number >= least
    ]


def is_nothing(change: Change) -> bool:
    """Return True if a change replaces nothing and adds nothing: no input was rewritten."""
    return not (change.replaces or change.adds or change.deletes)


def commit_or_discard(
    table: Table,
    base: Base,
    change: Change,
    run: RunIdentity,
    done: Sequence[Done],
    attempt: Attempt | None = None,
) -> Committed:
    """Commit; after a failure the outputs of ``done`` go, unless they may be live.

    Args:
        table: the table.
        base: see ``transaction.commit``, as of ``change`` and ``run``.
        change: what to commit.
        run: who does it.
        done: groups whose outputs it brings.
        attempt: of other new objects that it brings, too.

    Raises what ``transaction.commit`` raises.
    """
    with Outputs(table, outputs_of(done), attempt) as new:
        return commit(table, base, change, run, new.attempt)
