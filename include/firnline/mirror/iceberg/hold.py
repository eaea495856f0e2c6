"""States that an Iceberg mirror waits for; needs no library, so that plans may ask for it."""

from __future__ import annotations

from firnline.mirror.hold import Hold, find_hold, parts_with_deletes
from firnline.state.snapshot import Snapshot
from firnline.types.schema import narrower

_WIDENED = frozenset({"TINYINT", "SMALLINT", "INTEGER", "FLOAT"})
"""Types that readers widen to each wider one. None without a sign: readers in Java refuse them."""


def hold_of(snapshot: Snapshot) -> Hold | None:
    """Return why a state cannot be mirrored; None if it can."""
    return _of_rows(snapshot) or find_hold(snapshot, reads_narrower, parts_with_deletes(snapshot))


def _of_rows(snapshot: Snapshot) -> Hold | None:
    """Return a hold for parts whose number of rows, which Iceberg requires, nobody wrote down."""
    uncounted = [marker for marker in snapshot.live.values() if marker.n is None]
    if not uncounted:
        return None
    return Hold(
        parts=len(uncounted),
        first=uncounted[0].p,
        reason=f"the log does not know the rows of {len(uncounted)} of its parts until a merge or "
        "`firnline analyze`",
        since_ms=min(marker.t for marker in uncounted),
    )


def reads_narrower(wanted: str) -> bool:
    """Return True if readers take a column of any narrower type in a part for one of this type.

    Types without a sign do not count: a mirror has no such column. Readers take more digits of a
    DECIMAL for the same column, but not another scale, and a change states the new type only.
    """
    return not _WIDENED.isdisjoint(narrower(wanted))
