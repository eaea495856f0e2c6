"""Changes the columns of a table with one small transaction; no part is read or written.

Readers see the new columns from the commit on, whatever the parts hold; merges write the parts
they touch, and those that nothing else asks for, in the new form. What the record means stands in
``log.schema_changes`` and in RFC 4.
"""

from __future__ import annotations

import msgspec

from firnline.commit.base import take_base
from firnline.commit.change import Change
from firnline.commit.transaction import commit
from firnline.errors import CommitConflictError
from firnline.log.schema_changes import record
from firnline.log.txn_file import Counts, RunIdentity
from firnline.operations.evolve.plan import Evolution, LazyPlan, plan_lazily
from firnline.operations.report import Effort, TransactionReport
from firnline.operations.schema_fix.run import EVOLVE
from firnline.state.snapshot import Snapshot
from firnline.store.probe import probe
from firnline.table import Table


class LazyOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What one run is asked to do."""

    evolution: Evolution
    dry_run: bool = False


def preview(table: Table, options: LazyOptions) -> LazyPlan:
    """What ``run_lazily`` would do; its errors. Requests: those of ``take_base``."""
    base = take_base(table)
    return plan_lazily(base.snapshot, base.table.settings, options.evolution)


def run_lazily(table: Table, options: LazyOptions, run: RunIdentity) -> TransactionReport:
    """Widen, rename and drop columns in one transaction that touches no part.

    Requests: those of ``take_base``; four for the probe of the store and two PUT.

    Args:
        table: the table.
        options: what is to become of which columns.
        run: who runs it, for the history.

    Raises:
        UsageError: see ``plan_lazily``.
        SchemaConflictError: log files contradict each other; a change at once mends that.
        CommitConflictError, CommitExpiredError, CommitUnknownError: see ``transaction.commit``.
    """
    effort = Effort(table)
    seq = None
    while True:
        base = take_base(table)
        table = base.table
        plan = plan_lazily(base.snapshot, table.settings, options.evolution)
        if options.dry_run or plan.nothing_to_do:
            break
        if table.settings.locking == "fenced":
            probe(table.store, table.paths.prefix, ids=table.ids, clock=table.clock)
        try:
            seq = commit(table, base, _change(table, plan, options.evolution), run).header.seq
            break
        except CommitConflictError as conflict:
            effort.replan(conflict)
    return TransactionReport(
        table=table.settings.name,
        dry_run=options.dry_run,
        plan=plan.to_json(),
        transaction=seq,
        replans=effort.replans,
        requests=effort.requests,
        seconds=effort.seconds,
    )


def _change(table: Table, plan: LazyPlan, evolution: Evolution) -> Change:
    def refuse(snapshot: Snapshot) -> None:
        # A delete may have named the column meanwhile, an append the new name.
        if plan_lazily(snapshot, table.settings, evolution).what != plan.what:
            raise CommitConflictError(
                "somebody else changed the same columns meanwhile",
                next_step="run it again: it plans on the columns that are there now",
            )

    change_id = table.ids.uuid7(table.clock.now_ms())
    return Change(
        op=EVOLVE,
        replaces=(),
        adds=(),
        counts=Counts(),
        deletes=(record(change_id, plan.what),),
        refuse=refuse,
        why=plan.what.in_words(),
    )
