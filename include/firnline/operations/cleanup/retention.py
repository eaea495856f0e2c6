"""How long clean-up keeps transactions, for all that judge whether one is missing."""

from __future__ import annotations

from firnline.units import DAY_MS

TXN_KEPT = 100
"""Newest transactions that are never deleted: protects a machine whose clock is days ahead."""
TXN_AGE_MS = 7 * DAY_MS
"""Younger ones stay too: seven times the longest ``commit_ttl``, so that no committer, however
slow, finds the number that it wants to take free again."""


def first_kept(newest: int) -> int:
    """Return the first number that is never deleted; ``newest``: the newest transaction's."""
    return newest - TXN_KEPT + 1


def kept_ms(grace: int) -> int:
    """Return the age in ms below which no transaction is deleted.

    Args:
        grace: the longest ``cleanup.grace`` of anybody who may be at work, ms. A committer that
            published late wrote the transaction up to a day before its parts could be used.
    """
    return max(TXN_AGE_MS, grace + DAY_MS)
