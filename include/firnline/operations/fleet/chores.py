"""Clean-ups, drops by age and verifications that are due: without a run by the clock for each.

Each table has a time of the day of its own, by its name, so that a thousand of them do not begin at
midnight. What was due at that time is started once: the id of the run holds the time, and nothing
else has to be remembered.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from firnline.commit.base import Base
from firnline.errors import FirnlineError
from firnline.log.parts_view import deaths
from firnline.operations.cleanup.retention import TXN_KEPT, kept_ms
from firnline.operations.cleanup.run import look
from firnline.operations.drop.expired import plan_ttl
from firnline.operations.erase.pending import ripe_certificates
from firnline.properties.in_force import waits
from firnline.settings.sections import Operation
from firnline.state.snapshot import Snapshot
from firnline.units import DAY_MS, about_size, counted

WEEK_MS = 7 * DAY_MS
_SPREAD_MS = DAY_MS // 4
"""Time after midnight (UTC) over which the daily times of tables are spread."""
_MONDAY_MS = 4 * DAY_MS
"""The first Monday, unix ms."""
_IN_ANY_CASE = 4
"""A table that has not changed is verified every so many weeks: objects get lost all the same."""


@dataclass(frozen=True, slots=True)
class Due:
    """An operation of a table that is to be started."""

    operation: Operation
    since_ms: int
    """The table's own time at which it was due, unix ms."""
    why: str
    """Clause for notes and logs."""

    @property
    def run(self) -> str:
        """Return the time for the id of the run: ``2026-11-27T03:17:00``."""
        return datetime.fromtimestamp(self.since_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S")

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {"operation": self.operation, "since_ms": self.since_ms, "why": self.why}


def daily(name: str, now_ms: int) -> int:
    """Return the newest time of the day of a table that is past, unix ms: between 0 and 6 UTC."""
    at = _offset(name, _SPREAD_MS)
    return (now_ms - at) // DAY_MS * DAY_MS + at


def weekly(name: str, now_ms: int) -> int:
    """Return the newest time of the week of a table that is past, unix ms: at any hour."""
    at = _MONDAY_MS + _offset(name, WEEK_MS)
    return (now_ms - at) // WEEK_MS * WEEK_MS + at


def _offset(name: str, within_ms: int) -> int:
    """Return a time below ``within_ms``, whole minutes, by a name alone."""
    return zlib.crc32(name.encode()) % (within_ms // 60_000) * 60_000


def due(base: Base, operations: Collection[Operation]) -> tuple[Due, ...]:
    """Return what is due for a table that was read.

    What cannot be planned is due, too: its run fails, and tells and alerts as ever.

    Requests: none, unless something seems to be there for a clean-up: then those of its plan, and
    without anything to delete those of ``ripe_certificates``.

    Args:
        base: the table.
        operations: those that the planner of the fleet starts.
    """
    if not base.snapshot.listing:
        return ()
    name, now_ms = base.table.settings.name, base.table.clock.now_ms()
    today, week = daily(name, now_ms), weekly(name, now_ms)
    chores: list[Due] = []
    if "ttl" in operations and (why := _past(base, today)):
        chores.append(Due("ttl", today, why))
    if "tombstone_cleanup" in operations and (
        why := _to_delete(base, today) or _to_complete(base, today)
    ):
        chores.append(Due("tombstone_cleanup", today, why))
    if "verify" in operations and (why := _to_verify(base, week)):
        chores.append(Due("verify", week, why))
    return tuple(chores)


def due_unread(name: str, now_ms: int, operations: Collection[Operation]) -> tuple[Due, ...]:
    """Return what is due for a table that could not be read: its verification says what is wrong.

    Args:
        name: of the table.
        now_ms: wall clock, unix ms.
        operations: those that the planner of the fleet starts.
    """
    if "verify" not in operations:
        return ()
    return (Due("verify", weekly(name, now_ms), "its log could not be read"),)


def _past(base: Base, at_ms: int) -> str:
    """Return what was past its time to live; empty for nothing."""
    try:
        plan = plan_ttl(base.snapshot, base.table.settings, at_ms)
    except FirnlineError as error:
        return f"it cannot be planned: {error.message}"
    if plan.nothing_to_do:
        return ""
    if not plan.removals:
        return "rows are past their time to live"
    partitions = counted(len(plan.removals), "partition")
    return f"parts in {partitions} are past their time to live"


def _to_delete(base: Base, at_ms: int) -> str:
    """Return what a clean-up would delete; empty for nothing."""
    if not _seems_ripe(base, at_ms):
        return ""
    try:
        plan = look(base.table)
    except FirnlineError as error:
        return f"it cannot be planned: {error.message}"
    if plan.nothing_to_do:
        return ""
    return f"{counted(plan.count, 'object')} ({about_size(plan.bytes)}) may be deleted"


def _to_complete(base: Base, at_ms: int) -> str:
    """Return which certificates of erases a clean-up tries to complete; empty for none."""
    try:
        ripe = ripe_certificates(base.table, base.snapshot, at_ms)
    except FirnlineError as error:
        return f"certificates cannot be listed: {error.message}"
    return f"{counted(len(ripe), 'certificate')} may be completed" if ripe else ""


def _seems_ripe(base: Base, at_ms: int) -> bool:
    """Return True if the log has something that was due at a time, or may have old transactions.

    Those of a table that is in use go with its parts. Nothing waits for a date in the future
    (``log.dated``), so the plan itself looks at that.
    """
    snapshot, now_ms = base.snapshot, base.table.clock.now_ms()
    grace = waits(snapshot.properties, base.table.settings, at_ms).grace
    limit = at_ms - grace
    dates = [tmb for tmb in deaths(snapshot.parts) if tmb > snapshot.purged]
    dates += [t for key, t in snapshot.log_tombstones.items() if key in snapshot.listing]
    late = snapshot.behind_since.values()
    if any(t <= limit or t > now_ms for t in dates) or any(t <= limit for t in late):
        return True
    quiet = at_ms - changed_ms(snapshot)
    return snapshot.seq > TXN_KEPT and kept_ms(grace) < quiet <= kept_ms(grace) + DAY_MS


def _to_verify(base: Base, at_ms: int) -> str:
    """Return why a table is verified; empty if it is not."""
    if changed_ms(base.snapshot) >= at_ms - WEEK_MS:
        return "it has changed since a week before"
    # The week's number, shifted by the name: not all tables in the same week.
    number = at_ms // WEEK_MS + _offset(base.table.settings.name, _IN_ANY_CASE * 60_000) // 60_000
    return f"every {_IN_ANY_CASE} weeks in any case" if number % _IN_ANY_CASE == 0 else ""


def changed_ms(snapshot: Snapshot) -> int:
    """Return the newest last-modified time of a log file, unix ms; 0 without any."""
    return max((meta.modified_ms for meta in snapshot.listing.values()), default=0)
