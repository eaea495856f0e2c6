"""Counts the appends that the newest days of a table's log show. Pure.

The log file of an append, and the markers of its parts, are there for ``cleanup.grace`` at least,
whatever merges and clean-ups have done since: within that time nothing is missing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from firnline.state.snapshot import Snapshot
from firnline.units import DAY_MS

LONGEST_WINDOW_MS = 7 * DAY_MS
"""Time that is looked at, at most: what is older says less of the days to come."""
SHORTEST_WINDOW_MS = DAY_MS // 24
"""Time that is looked at, at least."""


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Appends of a stretch of time."""

    window_ms: int
    """Length of the stretch, until now."""
    appends: float
    """A whole number, unless it is that of ``at``; ``parts`` likewise."""
    parts: float
    bytes: int
    partitions: int
    """Partitions that got some of the parts."""

    @property
    def days(self) -> float:
        """Length of the stretch in days."""
        return self.window_ms / DAY_MS

    @property
    def appends_a_day(self) -> float:
        """Appends in 24 hours."""
        return self.appends / self.days

    @property
    def parts_a_day(self) -> float:
        """Parts in 24 hours."""
        return self.parts / self.days

    @property
    def part_bytes(self) -> int:
        """Mean size of a part in bytes; 0 without any."""
        return int(self.bytes / self.parts) if self.parts else 0

    def at(self, appends_a_day: float) -> Arrivals:
        """Return what the same rows in another number of appends a day would be.

        Each append has as many parts as before, and the bytes of a day stay: so parts grow as
        appends become fewer. There has to be an append to go by.
        """
        appends = appends_a_day * self.days
        return replace(self, appends=appends, parts=self.parts / self.appends * appends)

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "window_ms": self.window_ms,
            "appends": round(self.appends, 2),
            "appends_a_day": round(self.appends_a_day, 2),
            "parts": round(self.parts, 2),
            "bytes": self.bytes,
            "partitions": self.partitions,
        }


def arrivals_of(snapshot: Snapshot, grace_ms: int, now_ms: int) -> Arrivals:
    """Return the appends of the newest days that the log certainly has whole.

    That is ``cleanup.grace``, but at most 7 days and at least an hour; of a younger table, from
    which nothing was deleted yet, the time since its first append.

    Args:
        snapshot: the state now.
        grace_ms: ``cleanup.grace``.
        now_ms: unix ms.
    """
    appended = [item.name.t for item in snapshot.listing.values() if item.name.kind == "append"]
    window = min(grace_ms, LONGEST_WINDOW_MS)
    if appended and not snapshot.purged:
        window = min(window, now_ms - min(appended))
    window = max(window, SHORTEST_WINDOW_MS)
    newest = [t for t in appended if t >= now_ms - window]
    times = frozenset(newest)
    # Parts of transactions state their order; those of appends do not.
    parts = [m for m in snapshot.parts.values() if m.t in times and m.o is None]
    return Arrivals(
        window_ms=window,
        appends=len(newest),
        parts=len(parts),
        bytes=sum(m.b for m in parts),
        partitions=len({snapshot.paths.partition_of(m.p) for m in parts}),
    )
