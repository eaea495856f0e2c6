"""An upper bound of the store's clock, without a request of its own.

An object that is missing in one listing and present in the next was written between the two. Its
last-modified time is therefore no earlier than the store's clock was when the first listing began,
and from then on this machine measures the time itself. So a writer that lists ``_txn/`` repeatedly,
as every append does, knows how late it can be at most by the store's clock. A single listing proves
nothing: what it shows may be years old.
"""

from __future__ import annotations

from dataclasses import dataclass

from firnline.errors import ClockAheadError
from firnline.log import dated

_VALID_MS = 86_400_000
"""Validity of a bound in ms. A machine's clock drifts by seconds a day, and minutes matter."""


@dataclass(slots=True)
class StoreTime:
    """An upper bound of the store's clock."""

    _then: int | None = None
    """Upper bound of the store's clock, unix ms, at ``_elapsed``."""
    _elapsed: int = 0
    """``Clock.elapsed_ms`` to which ``_then`` belongs."""

    def appeared(self, modified_ms: int, absent_ms: int) -> None:
        """Record an object that a listing shows and the previous one did not.

        Args:
            modified_ms: its last-modified time.
            absent_ms: ``Clock.elapsed_ms`` from before the listing without it.
        """
        self._then, self._elapsed = modified_ms, absent_ms

    def refuse_ahead(self, t: int, elapsed_ms: int) -> None:
        """Raise ClockAheadError if ``t`` (unix ms) is certainly ahead of the store's clock.

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
