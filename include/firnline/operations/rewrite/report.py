"""Reports of a rewrite, and the limit of the rows that a partition may lose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import msgspec

from firnline.commit.transaction import Change
from firnline.errors import RunFailedError, TooMuchRemovedError
from firnline.log.txn_file import Counts
from firnline.operations.committer import Done
from firnline.operations.kernel_tasks import change_of
from firnline.operations.rewrite.plan import PlannedPartition
from firnline.operations.runner import Failure, Report, what_helps
from firnline.state.snapshot import Snapshot
from firnline.units import counted


class PartitionRewrite(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one partition."""

    partition: str
    parts_in: int
    """Parts that are replaced or dropped."""
    parts_untouched: int
    parts_out: int
    rows_in: int
    """Of the parts that are replaced or dropped, without those that readers did not see: hidden by
    a delete, or not the newest of their key."""
    rows_out: int
    rows_removed: int
    """Rows removed; negative where a query added rows."""
    transaction: int | None
    """Sequence number; None when no row was removed and nothing was committed."""

    @classmethod
    def of(
        cls, partition: str, counts: Counts, unchanged: int, transaction: int | None
    ) -> PartitionRewrite:
        """From the counts of its transaction."""
        return cls(
            partition=partition,
            parts_in=counts.parts_in,
            parts_untouched=unchanged,
            parts_out=counts.parts_out,
            rows_in=_visible(counts),
            rows_out=counts.rows_out,
            rows_removed=counts.rows_removed,
            transaction=transaction,
        )


class RewriteReport(Report, frozen=True, kw_only=True):
    """Result of a rewrite: its plan and what was done."""

    table: str
    dry_run: bool
    partitions: tuple[PartitionRewrite, ...]
    """The first 1,000 of those that were read or dropped."""
    partition_count: int
    """Partitions of the plan."""
    partitions_changed: int
    partitions_earlier: int = 0
    """Partitions left out because another try of the same run has done them."""
    transactions: tuple[int, ...]
    counts: Counts
    parts_untouched: int
    """Parts that were read and stay as they are because they lose no row."""
    failures: tuple[Failure, ...]
    """One per group that failed, or partition that would have lost too much: those partitions are
    as they were."""
    replans: int
    """Times that the run planned again because another run replaced parts of the plan."""
    requests: dict[str, int]
    seconds: float

    @property
    def refused(self) -> bool:
        """True if every partition that failed would have lost too many rows."""
        return all(failure.error == TooMuchRemovedError.__name__ for failure in self.failures)


class RewriteFailedError(RunFailedError):
    """Some partitions could not be rewritten; carries the report."""

    def __init__(self, report: RewriteReport) -> None:
        super().__init__(
            f"{_failed(report)} could not be rewritten; the first, {report.failures[0]}",
            next_step=what_helps(report.failures, " and run it again for those partitions"),
            causes=(failure.error for failure in report.failures),
        )
        self.report = report


class RewriteRefusedError(TooMuchRemovedError):
    """Some partitions would have lost too many rows; carries the report."""

    def __init__(self, report: RewriteReport) -> None:
        super().__init__(
            f"{_failed(report)} would lose too many rows; {report.failures[0].message}",
            next_step="see whether the condition says which rows stay (not which go), then run it "
            "again with force",
        )
        self.report = report


def _failed(report: RewriteReport) -> str:
    failed = len({failure.partition for failure in report.failures})
    return (
        f"{failed} of {counted(report.partition_count, 'partition')} of table {report.table} "
        f"(rewritten: {report.partitions_changed})"
    )


def change(snapshot: Snapshot, planned: PlannedPartition, done: Sequence[Done], op: str) -> Change:
    """Return the transaction of one partition: new parts, tombstones of the old ones."""
    made = change_of(snapshot, done, op=op)
    dropped = planned.dropped
    if not dropped:
        return made
    counts, rows = made.counts, sum(m.n or 0 for m in dropped)
    return replace(
        made,
        replaces=(*made.replaces, *(m.p for m in dropped)),
        counts=msgspec.structs.replace(
            counts,
            parts_in=counts.parts_in + len(dropped),
            rows_in=counts.rows_in + rows,
            rows_removed=counts.rows_removed + rows,
            bytes_in=counts.bytes_in + sum(m.b for m in dropped),
        ),
        partitions=(planned.partition,),
    )


def too_much(
    planned: PlannedPartition, wanted: Change, done: Sequence[Done], most: float
) -> Failure | None:
    """Return why a partition would lose too many rows; None when it would not.

    Measured against its visible rows: those that deletes hide are gone already. Parts that are left
    alone and do not state their rows, or of which a delete may hide some, count as empty, so that
    an unknown number asks for force.

    Args:
        planned: the partition.
        wanted: its transaction.
        done: its groups.
        most: fraction of the rows that may vanish.
    """
    stay = {key for _, result in done for key in result.unchanged}
    unchanged = sum(m.n or 0 for group, _ in done for m in group.parts if m.p in stay)
    counts = wanted.counts
    rows, removed = _visible(counts) + unchanged + planned.rows_elsewhere, counts.rows_removed
    if removed <= most * rows:
        return None
    share = 100 * removed / rows if rows else 100
    beside = (
        f"; {planned.uncounted} more parts count as empty: how many of their rows readers see is "
        "not known before a merge"
        if planned.uncounted
        else ""
    )
    return Failure(
        partition=planned.partition,
        error=TooMuchRemovedError.__name__,
        message=f"{removed:,} of the {rows:,} rows of partition {planned.partition or '(none)'} "
        f"would vanish ({share:.1f} %), more than rewrite.max_removed_fraction allows "
        f"({100 * most:g} %){beside}",
        key=None,
    )


def _visible(counts: Counts) -> int:
    """Return the rows of the inputs that were visible to readers."""
    return counts.rows_in - counts.rows_deleted - counts.rows_deduplicated
