"""Removal of whole partitions: one transaction tombstones the parts, clean-up deletes them later.

Only the parts of the snapshot that is committed on are dropped. What an append adds meanwhile
stays.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec

from firnline.commit.base import Base, take_base
from firnline.commit.transaction import Change, commit
from firnline.errors import UsageError
from firnline.log.txn_file import Counts, RunIdentity, TxnHeader
from firnline.operations.drop.past_rows import PastRows
from firnline.operations.drop.plan import (
    DropPlan,
    PartitionInfo,
    Removals,
    Undecided,
    describe,
    plan_drop,
    refuse_changed,
)
from firnline.operations.operation import Work
from firnline.operations.options import DropOptions
from firnline.operations.runner import Report, Runner
from firnline.properties.in_force import current, in_force
from firnline.state.history import history
from firnline.state.holds import Held
from firnline.state.snapshot import Snapshot, read_snapshot
from firnline.table import Table

_LOG = logging.getLogger(__name__)
_OP = "drop"
_HISTORY = 50
"""Newest transactions that are searched for an earlier try of the same run."""
_NAMED = 1_000
"""Partitions that a transaction's header names; also keys and partitions of a report."""
P = TypeVar("P", bound=Removals)


class DropReport(Report, frozen=True, kw_only=True):
    """Result of a removal or a TTL: its plan and what was done."""

    table: str
    dry_run: bool
    partitions: tuple[str, ...]
    """The first 1,000 of those that lost parts."""
    partition_count: int
    parts: int
    rows: int
    """Rows of the dropped parts that state them."""
    parts_without_rows: int | None
    """Parts whose rows are not in ``rows``; None: an earlier try of this run dropped them."""
    bytes: int
    transaction: int | None
    """Sequence number; None when nothing was committed."""
    done_earlier: bool = False
    """An earlier try of the same run had committed it."""
    replans: int = 0
    """Times that the run planned again because another run replaced parts of the plan."""
    keys: tuple[str, ...] = ()
    """TTL by a column, or of a former layout, which drops part by part: the first 1,000 parts that
    were dropped."""
    kept: dict[str, int] = {}
    """TTL: reason -> number of partitions (by a column: parts) that stay."""
    hidden: PastRows | None = None
    """TTL of rows: those that it hid, in parts that stay."""
    undecided: tuple[Undecided, ...] = ()
    """TTL: the first 1,000 partitions that it could not decide on."""
    requests: dict[str, int]
    seconds: float


@dataclass(frozen=True, slots=True)
class Survey:
    """The partitions of a table, from which those to drop are picked."""

    partitions: list[PartitionInfo]
    """Every partition with live parts, by name."""
    grace_ms: int
    """Time within which a drop can be undone, in ms: ``cleanup.grace`` of the table."""


def survey(table: Table) -> Survey:
    """Return what there is to drop. Requests: one LIST and the log reads; nothing is written."""
    snapshot = read_snapshot(table.store, table.paths)
    found = [describe(name, markers) for name, markers in snapshot.partitions.items()]
    settings = in_force(table.settings, current(snapshot.properties), any_key=True)
    return Survey(found, settings.cleanup.grace)


def list_partitions(table: Table) -> list[PartitionInfo]:
    """Return every partition with live parts, by name. Requests: those of ``survey``."""
    return survey(table).partitions


def preview(table: Table, options: DropOptions) -> DropPlan:
    """Plan as ``run_drop`` would. Requests: those of ``take_base``; errors of ``plan_drop``."""
    return plan_drop(take_base(table).snapshot, options.partitions, options.expected)


def run_drop(work: Work, options: DropOptions) -> DropReport:
    """Tombstone all live parts of the named partitions in one transaction.

    Requests: one LIST each of ``_log/`` and ``_txn/`` and the log reads, four for the probe of the
    store (once a process), two PUT and a LIST, however many partitions and parts. When a partition
    is not what it was, one LIST and at most 50 ranged GET besides, for an earlier try of the run:
    a second try of a run that has committed finds that transaction and reports it.

    Args:
        work: on what, and for whom.
        options: which partitions, and what they held when somebody agreed.

    Raises:
        PlanChangedError: a partition differs from ``options.expected`` in the very snapshot
            that would be committed on; nothing was dropped.
        UsageError: a partition that does not exist.
        CommitConflictError, CommitExpiredError, CommitUnknownError: see ``transaction.commit``.
    """
    table = work.table
    runner = Runner(table, work.identity)

    def plan(base: Base) -> DropPlan:
        return plan_drop(base.snapshot, options.partitions, options.expected)

    def refuse(snapshot: Snapshot) -> None:
        refuse_changed(snapshot, options.expected)

    try:
        removed = remove(runner, _OP, plan, dry_run=options.dry_run, refuse=refuse)
    except UsageError:
        header = None if options.dry_run else _earlier_try(table, options, work.identity)
        if header is None:
            raise
        _LOG.info("an earlier try of this run committed it as transaction %d", header.seq)
        return _report(
            runner,
            dry_run=False,
            partitions=header.partitions,
            partition_count=len(header.partitions),
            parts=header.counts.parts_in,
            rows=header.counts.rows_deleted,
            parts_without_rows=None,
            bytes=header.counts.bytes_in,
            transaction=header.seq,
            done_earlier=True,
        )
    return report(runner, removed, dry_run=options.dry_run)


@dataclass(frozen=True, slots=True)
class Removed(Generic[P]):
    """A plan and the transaction that did it."""

    plan: P
    transaction: int | None


def remove(
    runner: Runner,
    op: str,
    make_plan: Callable[[Base], P],
    *,
    dry_run: bool,
    refuse: Callable[[Snapshot], None] | None = None,
    why: str = "",
) -> Removed[P]:
    """Plan on the newest state and commit; start over when another run replaced parts of the plan.

    Args:
        runner: of the run, on its table.
        op: name of the operation in the history.
        make_plan: pure, from the state and the settings in force.
        dry_run: plan only.
        refuse: see ``transaction.Change``.
        why: reason for the history, beyond ``op``.

    Raises:
        CommitConflictError: rivals took parts away more than ``merge.max_replans`` times.
    """

    def act(base: Base, plan: P) -> int:
        table = base.table
        removal = Change(
            op=op,
            replaces=tuple(m.p for r in plan.removals for m in r.parts),
            adds=(),
            counts=Counts(
                parts_in=plan.parts, rows_in=plan.rows, rows_deleted=plan.rows, bytes_in=plan.bytes
            ),
            partitions=tuple(sorted({r.partition for r in plan.removals})),
            deletes=tuple(
                msgspec.structs.replace(record, id=table.ids.uuid7(table.clock.now_ms()))
                for record in plan.records
            ),
            refuse=refuse,
            planned=base.snapshot,
            holds=Held.of(base.snapshot).holds,
            why=why,
        )
        return commit(table, base, removal, runner.identity).header.seq

    return Removed(*runner.run(make_plan, act, ends=lambda plan: dry_run or plan.nothing_to_do))


def report(runner: Runner, removed: Removed[P], *, dry_run: bool, **more: Any) -> DropReport:
    """Return the figures of a removal; ``more`` are the fields that only TTL has."""
    plan = removed.plan
    return _report(
        runner,
        dry_run=dry_run,
        partitions=tuple(r.partition for r in plan.removals[:_NAMED]),
        partition_count=len(plan.removals),
        parts=plan.parts,
        rows=plan.rows,
        parts_without_rows=plan.parts_without_rows,
        bytes=plan.bytes,
        transaction=removed.transaction,
        **more,
    )


def _report(runner: Runner, **fields: Any) -> DropReport:
    return DropReport(
        table=runner.table.settings.name,
        replans=runner.replans,
        requests=runner.requests,
        seconds=runner.seconds,
        **fields,
    )


def _earlier_try(table: Table, options: DropOptions, run: RunIdentity) -> TxnHeader | None:
    """Return the transaction in which an earlier try of this run dropped these partitions."""
    if not run.run_id:
        return None
    wanted = tuple(sorted(set(options.partitions)))[:_NAMED]
    for header in history(table, _HISTORY):
        if header.run.is_run_of(run) and header.op == _OP and header.partitions == wanted:
            return header
    return None
