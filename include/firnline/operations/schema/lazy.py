"""Changes the columns of a table with one small transaction; no part is read or written.

Readers see the new columns from the commit on, whatever the parts hold; merges write the parts
they touch, and those that nothing else asks for, in the new form. What the record means stands in
``log.schema_changes`` and in RFC 4.
"""

from __future__ import annotations

from firnline.commit.base import Base, take_base
from firnline.commit.change import Change
from firnline.commit.transaction import commit
from firnline.errors import CommitConflictError, UsageError
from firnline.log.schema_changes import Evolved, record
from firnline.log.txn_file import Counts
from firnline.mirror.delta import columns as delta
from firnline.mirror.iceberg import hold as iceberg
from firnline.next_steps import PLAN_ANEW
from firnline.operations.operation import Work
from firnline.operations.options import Evolution, LazyOptions
from firnline.operations.runner import Runner, TransactionReport
from firnline.operations.schema.evolution import LazyPlan, plan_lazily
from firnline.state.snapshot import Snapshot
from firnline.table import Table

_READS = {"delta": delta.reads_narrower, "iceberg": iceberg.reads_narrower}
"""Format of a mirror -> types as which its readers take columns of narrower ones in parts."""


def preview(table: Table, options: LazyOptions) -> LazyPlan:
    """Plan as ``run_lazily`` would; its errors. Requests: those of ``take_base``."""
    return _plan(take_base(table), options)


def _plan(base: Base, options: LazyOptions) -> LazyPlan:
    plan = plan_lazily(base.snapshot, base.table.settings, options.evolution)
    refuse_to_hold(base.table, base.snapshot, plan.what)
    return plan


def run_lazily(work: Work, options: LazyOptions) -> TransactionReport:
    """Widen, rename and drop columns in one transaction that touches no part.

    Requests: those of ``take_base``; four for the probe of the store and those of
    ``commit`` (two PUT and a LIST).

    Args:
        work: on what, and for whom.
        options: what is to become of which columns.

    Raises:
        UsageError: see ``plan_lazily`` and ``refuse_to_hold``.
        SchemaConflictError: log files contradict each other; a change at once repairs that.
        CommitConflictError, CommitExpiredError, CommitUnknownError: see ``transaction.commit``.
    """
    table = work.table
    runner = Runner(table, work.identity)

    def act(base: Base, plan: LazyPlan) -> int:
        wanted = _change(base.table, plan, options.evolution)
        return commit(base.table, base, wanted, work.identity).header.seq

    plan, seq = runner.run(
        lambda base: _plan(base, options),
        act,
        ends=lambda plan: options.dry_run or plan.nothing_to_do,
    )
    return TransactionReport(
        table=table.settings.name,
        dry_run=options.dry_run,
        plan=plan.to_json(),
        transaction=seq,
        replans=runner.replans,
        requests=runner.requests,
        seconds=runner.seconds,
    )


def refuse_to_hold(table: Table, snapshot: Snapshot, what: Evolved) -> None:
    """Raise UsageError for a change that would hold a mirror of the table until a merge.

    Args:
        table: with the settings in force.
        snapshot: the newest state.
        what: the change.
    """
    names = table.settings.mirrors
    if not names or not snapshot.live:
        return
    held = [*what.rename, *what.drop]
    held += [
        column
        for column, kind in what.widen.items()
        if not all(_READS[name](kind) for name in names)
    ]
    if held:
        raise UsageError(
            f"table {table.settings.name} has a mirror ({', '.join(names)}), which would stand "
            "still until merges have rewritten every part because of a lazy change of "
            f"{', '.join(held)}",
            next_step="leave --lazy out: then the parts are rewritten at once",
        )


def _change(table: Table, plan: LazyPlan, evolution: Evolution) -> Change:
    def refuse(snapshot: Snapshot) -> None:
        # A delete may have named the column meanwhile, an append the new name.
        if plan_lazily(snapshot, table.settings, evolution).what != plan.what:
            raise CommitConflictError(
                "somebody else changed the same columns meanwhile",
                next_step=PLAN_ANEW,
            )

    change_id = table.ids.uuid7(table.clock.now_ms())
    return Change(
        op="evolve",
        replaces=(),
        adds=(),
        counts=Counts(),
        deletes=(record(change_id, plan.what),),
        refuse=refuse,
        why=plan.what.in_words(),
    )
