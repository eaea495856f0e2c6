"""Plan what the fleet needs: pure, printable, with a reason for every table not started."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from firnline.operations.fleet.chores import WEEK_MS, Due
from firnline.operations.fleet.need import Need, Unreadable
from firnline.operations.fleet.quiet import quiet_now
from firnline.settings.fleet import FleetSettings, format_budget
from firnline.units import about_size

_VERIFIED_SHARE = 4
"""One run starts the verifications of the tables divided by this, plus one, at most."""


@dataclass(frozen=True, slots=True)
class Held:
    """A table whose merge cannot be started now, whatever it would save, with the reason."""

    reason: str
    under_way: bool = False
    """A run is queued or running: what it may read counts as spent."""


@dataclass(frozen=True, slots=True)
class Start:
    """A merge to start."""

    need: Need
    max_bytes: int | None = None
    """Bytes that it may read at most; None: all that its own plan has."""

    @property
    def bytes(self) -> int:
        """Return the bytes that it reads at most."""
        return self.need.bytes if self.max_bytes is None else self.max_bytes

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {**self.need.to_json(), "max_bytes": self.max_bytes}


@dataclass(frozen=True, slots=True)
class Waiting:
    """A table with something to merge that is not started, and why."""

    need: Need
    reason: str

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {**self.need.to_json(), "reason": self.reason}


@dataclass(frozen=True, slots=True)
class Chore:
    """A clean-up, drop by age or verification that is due."""

    table: str
    due: Due
    reason: str = ""
    """Why it is not started; empty: it is."""

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {"table": self.table, **self.due.to_json(), "reason": self.reason}


@dataclass(frozen=True, slots=True)
class FleetPlan:
    """The merges to start, in the order in which they pay off, and what else is due."""

    now_ms: int
    budget: int | None
    """Bytes a day; None: no limit."""
    spent: int
    """Bytes that merges which the planner started have read in the last 24 hours."""
    under_way: int
    """Bytes that merges which are queued or running now may read."""
    starts: tuple[Start, ...]
    waiting: tuple[Waiting, ...]
    idle: tuple[str, ...]
    """Tables with nothing to merge."""
    unreadable: tuple[Unreadable, ...]
    mirrors: tuple[str, ...] = ()
    """Tables whose mirror is to be published, whatever becomes of their merge."""
    chores: tuple[Chore, ...] = ()
    """Other operations that are due, started or not, by operation and table."""

    @property
    def nothing_to_do(self) -> bool:
        """Return True if nothing is to be started, and no mirror to be published."""
        return not self.starts and not self.mirrors and all(each.reason for each in self.chores)

    @property
    def tables(self) -> int:
        """Return the number of tables that were looked at."""
        return len(self.starts) + len(self.waiting) + len(self.idle) + len(self.unreadable)

    def to_json(self) -> dict[str, Any]:
        """Return plain data: totals, then a row for each table that has something to merge."""
        return {
            "now_ms": self.now_ms,
            "tables": self.tables,
            "idle": len(self.idle),
            "saved": sum(start.need.saved for start in self.starts),
            "bytes": sum(start.bytes for start in self.starts),
            "budget_bytes": self.budget,
            "spent_bytes": self.spent,
            "under_way_bytes": self.under_way,
            "starts": [start.to_json() for start in self.starts],
            "waiting": [waiting.to_json() for waiting in self.waiting],
            "unreadable": [table.to_json() for table in self.unreadable],
            "mirrors": list(self.mirrors),
            "due": [chore.to_json() for chore in self.chores],
        }


def plan_fleet(
    found: Iterable[Need | Unreadable],
    settings: FleetSettings,
    now_ms: int,
    held: Mapping[str, Held] | None = None,
    held_chores: Mapping[tuple[str, str], Held] | None = None,
) -> FleetPlan:
    """Decide which merges to start, by ``Need.rank``, and what else.

    What does not fit into the rest of the budget is started with this rest as its limit, if its
    smallest group fits.

    Args:
        found: the tables.
        settings: budget, quiet hours and number of runs.
        now_ms: wall clock, unix milliseconds.
        held: tables whose merge cannot be started, and why.
        held_chores: table and other operation that cannot be started, and why.
    """
    unreadable: list[Unreadable] = []
    needs: list[Need] = []
    for each in found:
        if isinstance(each, Unreadable):
            unreadable.append(each)
        else:
            needs.append(each)
    ranked = sorted((need for need in needs if not need.idle), key=lambda need: need.rank)
    held = held or {}
    under_way = sum(n.bytes for n in ranked if n.table in held and held[n.table].under_way)
    spent = sum(need.spent for need in needs)
    quiet = quiet_now(settings, now_ms)
    chosen = _Chosen(settings, quiet, spent + under_way)
    for need in ranked:
        chosen.add(need, held.get(need.table))
    return FleetPlan(
        now_ms=now_ms,
        budget=settings.budget,
        spent=spent,
        under_way=under_way,
        starts=tuple(chosen.starts),
        waiting=tuple(chosen.waiting),
        idle=tuple(sorted(need.table for need in needs if need.idle)),
        unreadable=tuple(unreadable),
        mirrors=tuple(sorted(need.table for need in needs if need.mirror)),
        chores=tuple(_chores([*needs, *unreadable], quiet, held_chores or {})),
    )


def _chores(
    needs: Sequence[Need | Unreadable],
    quiet: str | None,
    held: Mapping[tuple[str, str], Held],
) -> Iterator[Chore]:
    """Yield what is due; neither the budget nor ``max_runs``, which are of merges, bounds it.

    Of verifications one run starts a quarter of the tables: a new Airflow does not begin with all.
    """
    left = 1 + len(needs) // _VERIFIED_SHARE
    due = [(each.table, due) for each in needs for due in each.due]
    for table, one in sorted(due, key=lambda pair: _turn(*pair)):
        why = held.get((table, one.operation))
        reason = quiet or ("" if why is None else why.reason)
        if not reason and one.operation == "verify":
            left -= 1
            reason = "" if left >= 0 else "other tables are verified first"
        yield Chore(table, one, reason)


def _turn(table: str, due: Due) -> tuple[str, int, str]:
    """Return the place of a chore among others: of a verification another one each week."""
    place = zlib.crc32(f"{due.since_ms // WEEK_MS} {table}".encode())
    return due.operation, place if due.operation == "verify" else 0, table


class _Chosen:
    """The tables chosen so far, best first."""

    def __init__(self, settings: FleetSettings, quiet: str | None, spent: int) -> None:
        self.settings = settings
        self.quiet = quiet
        self.left = None if settings.budget is None else max(0, settings.budget - spent)
        self.starts: list[Start] = []
        self.waiting: list[Waiting] = []

    def add(self, need: Need, held: Held | None) -> None:
        reason = self._reason(need, held)
        if reason is not None:
            self.waiting.append(Waiting(need, reason))
            return
        bounded = self.left is not None and need.bytes > self.left
        start = Start(need, self.left if bounded else None)
        self.starts.append(start)
        if self.left is not None:
            self.left -= start.bytes

    def _reason(self, need: Need, held: Held | None) -> str | None:
        if held is not None:
            return held.reason
        if self.quiet is not None:
            return self.quiet
        most = self.settings.max_runs
        if most is not None and len(self.starts) >= most:
            return f"the planner starts at most {most} merges in one run (fleet.max_runs)"
        if self.left is None or not need.bytes or 0 < self.left >= need.least_bytes:
            return None
        assert self.settings.budget is not None
        budget = format_budget(self.settings.budget)
        if not self.left:
            return f"nothing is left of the budget of {budget}"
        smallest = about_size(need.least_bytes)
        return f"{about_size(self.left)} are left of the budget of {budget}, it needs {smallest}"
