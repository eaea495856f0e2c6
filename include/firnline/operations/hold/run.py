"""Put a legal hold on rows of a table, end it, and list those in force.

Each is one transaction that changes the table's properties and no part. From then on nobody commits
a change that removes such rows (``commit.change.refuse_held``): a run that was under way is planned
again on the state that has the hold.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from firnline.commit.base import Base, take_base
from firnline.commit.transaction import commit
from firnline.log.txn_file import TxnHeader
from firnline.operations.hold.plan import (
    HeldFigures,
    HoldPlan,
    figures_of,
    plan_end,
    plan_hold,
)
from firnline.operations.local import identity_here
from firnline.operations.operation import Work
from firnline.operations.options import EndHoldOptions, HoldOptions
from firnline.operations.properties.run import change_to
from firnline.operations.runner import Report, Runner
from firnline.state.dead import without_object
from firnline.state.holds import Held
from firnline.table import Table


class HoldReport(Report, frozen=True, kw_only=True):
    """Result of a hold or of its end."""

    table: str
    dry_run: bool
    hold: HeldFigures
    transaction: int | None
    requests: dict[str, int]
    seconds: float


class HoldsView(Report, frozen=True, kw_only=True):
    """The holds of a table."""

    table: str
    seq: int
    """Newest transaction."""
    holds: tuple[HeldFigures, ...]


def list_holds(table: Table) -> HoldsView:
    """Return the holds in force, in the order in which they were put.

    Requests: those of ``take_base``, and once for all holds those of ``_there``.
    """
    base = take_base(table)
    found = _there(base, [figures_of(base.snapshot, hold) for hold in Held.of(base.snapshot).holds])
    return HoldsView(table=table.settings.name, seq=base.seq, holds=found)


def preview_hold(table: Table, options: HoldOptions) -> HoldPlan:
    """Plan as ``run_hold`` would; requests of ``take_base`` and ``_there``, errors as there."""
    base = take_base(table)
    user = identity_here(table, "cli").user
    return _on_objects(base, plan_hold(base, options, table.clock.now_ms(), user))


def preview_end(table: Table, options: EndHoldOptions) -> HoldPlan:
    """Plan as ``run_end`` would; requests of ``take_base`` and ``_there``, errors as there."""
    base = take_base(table)
    return _on_objects(base, plan_end(base, options))


def run_hold(work: Work, options: HoldOptions) -> HoldReport:
    """Put a hold, in one transaction.

    Requests: those of ``take_base`` and ``_there``, four for the probe of the store and two PUT and
    a LIST.

    Raises:
        UsageError: see ``plan_hold``.
        CommitConflictError, CommitExpiredError, CommitUnknownError: see ``transaction.commit``.
    """
    now, user = work.table.clock.now_ms(), work.identity.user
    why = f"hold {options.name}: {options.why}"
    return _run(
        work, lambda base: plan_hold(base, options, now, user), why, dry_run=options.dry_run
    )


def run_end(work: Work, options: EndHoldOptions) -> HoldReport:
    """End a hold, in one transaction; requests and errors as of ``run_hold``, of ``plan_end``."""
    why = f"end of hold {options.name}: {options.why}"
    return _run(work, lambda base: plan_end(base, options), why, dry_run=options.dry_run)


def _run(work: Work, make: Callable[[Base], HoldPlan], why: str, *, dry_run: bool) -> HoldReport:
    table = work.table
    runner = Runner(table, work.identity)

    def act(base: Base, plan: HoldPlan) -> TxnHeader:
        change = change_to(base, plan.after, why)
        return commit(base.table, base, change, work.identity).header

    def plan_on(base: Base) -> HoldPlan:
        return _on_objects(base, make(base))

    plan, header = runner.run(plan_on, act, ends=lambda _: dry_run)
    return HoldReport(
        table=table.settings.name,
        dry_run=dry_run,
        hold=plan.hold if header is None else _as_put(plan.hold, header),
        transaction=None if header is None else header.seq,
        requests=runner.requests,
        seconds=runner.seconds,
    )


def _on_objects(base: Base, plan: HoldPlan) -> HoldPlan:
    (hold,) = _there(base, [plan.hold])
    return msgspec.structs.replace(plan, hold=hold)


def _there(base: Base, holds: Sequence[HeldFigures]) -> tuple[HeldFigures, ...]:
    """Return holds without the dead parts that have no object: nothing keeps what is deleted.

    Requests: 1 LIST for each 1,000 objects of ``_data/``, where a dead part may have rows of one.
    """
    if not any(hold.dead.parts for hold in holds):
        return tuple(holds)
    gone = without_object(base.table.store, base.snapshot)
    return tuple(figures_of(base.snapshot, hold, gone) for hold in holds)


def _as_put(hold: HeldFigures, header: TxnHeader) -> HeldFigures:
    """Return a hold with the time of the transaction, if that put it."""
    held = () if header.properties is None else header.properties.held
    t = next((each.t for each in held if each.name == hold.name), hold.t)
    return msgspec.structs.replace(hold, t=t)
