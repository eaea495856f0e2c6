"""The dead parts that readers of a mirror may still use.

A reader of a mirror may have begun with a version until a newer one replaced it, and has the grace
from then, as a reader of the table itself. So a part may go once a version that does not show it is
as old as the grace. Each format says which one that is.
"""

from __future__ import annotations

from dataclasses import dataclass

from firnline.state.snapshot import Snapshot
from firnline.units import DAY_MS, about_duration, counted

LONGEST_WAIT_MS = 7 * DAY_MS
"""Longest time after the grace that a dead part is kept for readers of the mirror. Without a bound,
a mirror that is not published any more would keep all parts for ever."""
NONE = -1
"""No version is as old as the grace: no dead part may go."""


@dataclass(frozen=True, slots=True)
class Readers:
    """The parts that readers of the mirror may still use."""

    until: int
    """Date of the newest transaction that a version as old as the grace shows: parts that died up
    to it may go. -1: none may go."""
    seq: int
    """Newest transaction that the mirror shows."""
    at: int
    """When that was read from the table, unix ms."""
    format: str = "Delta"
    """Of the mirror, as messages name it."""

    def uses(self, tmb: int, due_ms: int, now_ms: int) -> bool:
        """Return True if a dead part has to wait for the mirror.

        Args:
            tmb: its tombstone.
            due_ms: when readers of the table are done with it, unix ms.
            now_ms: wall clock.
        """
        return tmb > self.until and now_ms < due_ms + LONGEST_WAIT_MS

    def warning(self, snapshot: Snapshot, now_ms: int, grace: int, forced: int) -> str | None:
        """Return a sentence about a mirror that lags behind; None if it does not.

        Args:
            snapshot: newest state of the table.
            now_ms: wall clock.
            grace: of the table, ms.
            forced: parts that this run deletes although the mirror shows them.
        """
        since = lacks_since(snapshot, self.seq, self.at)
        if since is None or now_ms - since < grace:
            return None
        text = (
            f"the {self.format} mirror shows transaction {self.seq}, read "
            f"{about_duration(now_ms - self.at)} ago, and the newest is {snapshot.seq}: parts wait "
            "for it; run `firnline mirror`, and see what it says"
        )
        if not forced:
            return text
        goes = "goes" if forced == 1 else "go"
        return f"{text}; {counted(forced, 'part')} that it shows {goes} all the same"


def lacks_since(snapshot: Snapshot, seq: int, at: int) -> int | None:
    """Return when the first transaction took effect that a mirror does not show, unix ms.

    None if it shows all of them; ``at`` where the log does not know all of them any more.

    Args:
        snapshot: newest state of the table.
        seq: newest transaction that the mirror shows.
        at: when that was read from the table, unix ms.
    """
    if seq >= snapshot.seq:
        return None
    since = [snapshot.effective(t) for t, each in snapshot.times if each > seq]
    return min(since) if len(since) == snapshot.seq - seq else at
