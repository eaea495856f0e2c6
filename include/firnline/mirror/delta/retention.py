"""Find the dead parts that readers of the mirror may still use.

A reader of the mirror may have begun with a version until a newer one replaced it, and has the
grace from then, as a reader of the table itself. So a part may go once a version that does not show
it is as old as the grace. Which one that is follows from the state that the version states; parts
that died before version 0 were never shown.
"""

from __future__ import annotations

from dataclasses import dataclass

from firnline.mirror.delta.expiry import newest_of
from firnline.mirror.delta.head import list_versions, position_of
from firnline.paths import TablePaths
from firnline.store.base import Store
from firnline.units import about_duration

LONGEST_WAIT_MS = 7 * 86_400_000
"""Longest time after the grace that a dead part is kept for readers of the mirror. Without a bound,
a mirror that is not published any more would keep all parts for ever."""
_NONE = -1


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

    def uses(self, tmb: int, due_ms: int, now_ms: int) -> bool:
        """Return True if a dead part has to wait for the mirror.

        Args:
            tmb: its tombstone.
            due_ms: when readers of the table are done with it, unix ms.
            now_ms: wall clock.
        """
        return tmb > self.until and now_ms < due_ms + LONGEST_WAIT_MS

    def warning(self, seq: int, now_ms: int, grace: int, forced: int) -> str | None:
        """Return a sentence about a mirror that lags behind; None if it does not.

        Args:
            seq: newest transaction of the table.
            now_ms: wall clock.
            grace: of the table, ms.
            forced: parts that this run deletes although the mirror shows them.
        """
        lag = now_ms - self.at
        if self.seq >= seq or lag <= grace:
            return None
        text = (
            f"the Delta mirror shows transaction {self.seq}, read {about_duration(lag)} ago, and "
            f"the newest is {seq}: parts wait for it; run `firnline mirror`, and see what it says"
        )
        return f"{text}; {forced} parts that it shows go all the same" if forced else text


def readers_of(store: Store, paths: TablePaths, grace: int, now_ms: int) -> Readers | None:
    """Return what readers of the mirror may use; None for a table without a mirror.

    Requests: a LIST per 1,000 versions, and 1 or 2 ranged GET.

    Raises MirrorDamagedError.
    """
    listing = list_versions(store, paths, whole=True)
    versions = listing.versions
    if not versions:
        return None
    newest = position_of(store, versions[-1].key)
    old = newest_of(listing, now_ms - grace)
    if old is None and versions[0].number == 0:
        old = versions[0]
    if old is None:
        return Readers(_NONE, newest.seq, newest.at)
    shown = newest if old is versions[-1] else position_of(store, old.key)
    return Readers(shown.t, newest.seq, newest.at)
