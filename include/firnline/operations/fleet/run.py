"""Read the tables of the fleet, many at once, and plan for each of them. Writes nothing."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from firnline.commit.base import Base, read_base
from firnline.errors import FirnlineError
from firnline.operations.at_once import at_once
from firnline.operations.fleet.chores import Due, due, due_unread
from firnline.operations.fleet.mirrors import ends_wait, is_overdue
from firnline.operations.fleet.need import Need, Unreadable
from firnline.operations.merge.plan import plan_merge
from firnline.settings.fleet import FleetSettings
from firnline.settings.sections import Operation
from firnline.state.history import history_since
from firnline.state.snapshot import CHECKPOINT_ABOVE
from firnline.table import Table
from firnline.units import DAY_MS

_LOG = logging.getLogger(__name__)

TRANSACTIONS = 1_000
"""Transactions of a table that are counted into the budget at most, the newest."""
STARTED = "fleet__"
"""Beginning of the ids of runs that the planner has started; the rest is the id of its own run.
It is in the history of the tables, where the spent part of the budget is read."""


@dataclass(frozen=True, slots=True)
class Member:
    """A table of the fleet, not opened yet: a thousand open stores would cost memory."""

    name: str
    open: Callable[[], Table]
    """Sends no request; raises FirnlineError."""
    starts: Collection[Operation] = frozenset({"merge"})
    """Operations that the planner starts; without any only its mirror is looked at."""


def need_of(
    table: Table,
    base: Base,
    other: tuple[Due, ...],
    *,
    budgeted: bool,
    starts: Collection[Operation],
) -> Need:
    """Plan the merge of a table that was read, and decide if its mirror is to be published.

    Requests: with a budget 1 LIST and a ranged GET for each transaction of the last 25 hours, at
    most ``TRANSACTIONS``. Of a table with a mirror those of ``mirrors.is_overdue``: 1 LIST and 1
    ranged GET at most.

    Args:
        table: the table, with the settings of the settings file.
        base: the table as it was read.
        other: what else is due.
        budgeted: also look up what of the budget it has used.
        starts: operations that the planner starts.

    Raises:
        FirnlineError: no merge can be planned.
    """
    now_ms = table.clock.now_ms()
    mirror = is_overdue(base, table.settings)
    if "merge" not in starts:
        return Need(table.settings.name, base.seq, mirror=mirror, due=other)
    plan = plan_merge(base.snapshot, base.table.settings, now_ms)
    spent = bytes_spent(table, now_ms) if budgeted and base.seq else 0
    waits = ends_wait(base, plan)
    return Need.of(table.settings.name, plan, spent, mirror=mirror, ends_wait=waits, due=other)


def bytes_spent(table: Table, now_ms: int) -> int:
    """Return the bytes that merges started by the planner have read in the last 24 hours.

    From the table's own history, so that a planner that is started anew, by whomever, knows it.
    """
    return sum(
        header.counts.bytes_in
        for header in history_since(table, now_ms - DAY_MS, TRANSACTIONS)
        if header.op == "merge" and header.run.run_id.startswith(STARTED)
    )


def look_at_fleet(
    tables: Sequence[Member],
    settings: FleetSettings,
    now_ms: int,
    looked: Callable[[Need | Unreadable], object] = lambda _: None,
) -> list[Need | Unreadable]:
    """Return what each table needs, in their order; one that cannot be read holds up no other.

    Requests for each: 2 LIST and the log files that are not folded, with the newest transaction's,
    and those of ``chores.due`` and ``need_of``. Of a log above ``CHECKPOINT_ABOVE`` 1 LIST and
    normally 1 GET for a checkpoint, and no log file that it covers.

    Args:
        tables: the tables.
        settings: says how many are read at the same time, and whether there is a budget.
        now_ms: wall clock, unix ms.
        looked: called after each of them, in the order in which stores answer.
    """
    budgeted = settings.budget is not None

    def look(member: Member) -> Need | Unreadable:
        other = due_unread(member.name, now_ms, member.starts)
        try:
            table = member.open()
            base = read_base(table, checkpoint_above=CHECKPOINT_ABOVE)
            other = due(base, member.starts)
            return need_of(table, base, other, budgeted=budgeted, starts=member.starts)
        except FirnlineError as error:
            # A store that is down needs no verification of each table.
            return Unreadable.of(member.name, error, () if error.retryable else other)
        except Exception as error:  # noqa: BLE001 - logged, and told as the table's state
            # One table must not keep a thousand others from being merged; the run fails all the
            # same, once it has handled them.
            _LOG.exception("table %s could not be read", member.name)
            said = f"{type(error).__name__}: {error}"
            return Unreadable(
                member.name, said, "see the traceback in the log", type(error).__name__, other
            )

    return at_once(tables, look, settings.concurrency, looked)
