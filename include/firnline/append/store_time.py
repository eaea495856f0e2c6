"""What a writer can know of the store's clock without a request of its own.

An object that was not in one listing and is in the next was written between the two. Its
last-modified time is therefore no earlier than the store's clock was when the first listing began,
and from then on this machine counts itself. So a writer that looks at ``_txn/`` again and again, as
every append does, knows how late it can be by the store's clock at most. A single look proves
nothing: what it shows may be years old.
"""

from __future__ import annotations

from dataclasses import dataclass

from firnline.errors import ClockAheadError
from firnline.log import dated

_VALID_MS = 86_400_000
"""A machine's count of time drifts: by seconds a day, and minutes are what matters."""


@dataclass(slots=True)
class StoreTime:
    """An upper bound of the store's clock."""

    _then: int | None = None
    """The store's clock was no later than this, unix ms, …"""
    _elapsed: int = 0
    """… when ``Clock.elapsed_ms`` was this."""

    def appeared(self, modified_ms: int, absent_ms: int) -> None:
        """Take note of an object that a listing shows and the one before it did not.

        Args:
            modified_ms: its last-modified time.
            absent_ms: ``Clock.elapsed_ms`` from before the listing without it.
        """
        self._then, self._elapsed = modified_ms, absent_ms

    def refuse_ahead(self, t: int, elapsed_ms: int) -> None:
        """Raise ClockAheadError when ``t`` (unix ms) surely is ahead of the store's clock.

        Every later transaction would have to be dated after it. A clock that is right, or behind,
        is never refused.
        """
        passed = elapsed_ms - self._elapsed
        if self._then is None or passed > _VALID_MS:
            return
        ahead = t - (self._then + passed)
        if ahead > dated.FAR_MS:
            raise ClockAheadError(
                f"this machine's clock is ahead of the store's by {ahead // 1000} s or more",
                next_step="set this machine's clock and append again; nothing was published",
            )
