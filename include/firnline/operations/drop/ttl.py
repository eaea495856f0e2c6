"""TTL: drops expired partitions in one transaction, clean-up deletes the objects later."""

from __future__ import annotations

from firnline.commit.base import Base, take_base
from firnline.operations.drop.expired import TtlPlan, plan_ttl
from firnline.operations.drop.run import DropReport, remove, report
from firnline.operations.operation import Work
from firnline.operations.options import TtlOptions
from firnline.operations.runner import Runner
from firnline.table import Table

_OP = "ttl"
_NAMED = 1_000


def preview(table: Table, options: TtlOptions) -> TtlPlan:
    """Plan as ``run_ttl`` would. Requests: those of ``take_base``; errors of ``plan_ttl``."""
    return _plan(take_base(table), options)


def run_ttl(work: Work, options: TtlOptions) -> DropReport:
    """Tombstone what is past the table's ``ttl.keep``, in one transaction.

    Requests: one LIST each of ``_log/`` and ``_txn/`` and the log reads; when something goes,
    four for the probe of the store (once a process) and a commit besides (two PUT and a LIST).

    Raises:
        UsageError: see ``plan_ttl``.
        CommitConflictError, CommitExpiredError, CommitUnknownError: see ``transaction.commit``.
    """
    runner = Runner(work.table, work.identity)
    removed = remove(runner, _OP, lambda base: _plan(base, options), dry_run=options.dry_run)
    plan = removed.plan
    return report(
        runner,
        removed,
        dry_run=options.dry_run,
        keys=tuple(plan.single_parts[:_NAMED]),
        kept=plan.kept,
        undecided=plan.undecided[:_NAMED],
    )


def _plan(base: Base, options: TtlOptions) -> TtlPlan:
    now = base.table.clock.now_ms()
    return plan_ttl(base.snapshot, base.table.settings, now, partitions=options.partitions)
