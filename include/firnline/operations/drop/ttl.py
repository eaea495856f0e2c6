"""TTL: drops expired partitions in one transaction, clean-up deletes the objects later."""

from __future__ import annotations

from firnline.commit.base import Base, take_base
from firnline.errors import TooMuchRemovedError
from firnline.operations.drop.expired import TtlPlan, plan_ttl
from firnline.operations.drop.pages import share_text
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

    With ``ttl.rows`` the same transaction hides the past rows of parts that hold younger ones.

    Not more of the table than ``ttl.max_removed_fraction``, unless somebody has agreed to more
    (``options.agreed``) or to any (``options.force``).

    Requests: one LIST each of ``_log/`` and ``_txn/`` and the log reads; when something goes,
    four for the probe of the store (once a process) and a commit besides (two PUT and a LIST).

    Raises:
        UsageError: see ``plan_ttl``.
        TooMuchRemovedError: more of the table is past than may go; nothing was dropped.
        CommitConflictError, CommitExpiredError, CommitUnknownError: see ``transaction.commit``.
    """
    runner = Runner(work.table, work.identity)

    def plan(base: Base) -> TtlPlan:
        made = _plan(base, options)
        if made.is_too_much and not options.dry_run:
            raise _too_much(work.table, made)
        return made

    removed = remove(runner, _OP, plan, dry_run=options.dry_run)
    did = removed.plan
    return report(
        runner,
        removed,
        dry_run=options.dry_run,
        keys=tuple(did.single_parts[:_NAMED]),
        kept=did.kept,
        undecided=did.undecided[:_NAMED],
        hidden=did.hides,
    )


def _plan(base: Base, options: TtlOptions) -> TtlPlan:
    now = base.table.clock.now_ms()
    return plan_ttl(
        base.snapshot,
        base.table.settings,
        now,
        partitions=options.partitions,
        force=options.force,
        agreed=options.agreed,
    )


def _too_much(table: Table, plan: TtlPlan) -> TooMuchRemovedError:
    name, allowed = table.settings.name, "ttl.max_removed_fraction allows"
    if plan.allowed > plan.most:
        allowed = "was agreed to, and has become past since, at most"
    return TooMuchRemovedError(
        f"{share_text(plan.fraction)} of {name} is past its time to live, more than {allowed} "
        f"({share_text(plan.allowed)}), so nothing was dropped",
        next_step=f"see with `firnline ttl {name} --dry-run` whether ttl.keep and what it goes by "
        "are right; if all of this is to go, run it with --force",
    )
