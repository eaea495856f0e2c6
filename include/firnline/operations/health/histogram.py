"""Classes of part sizes: one scale for the command line and the page."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

SIZE_STEPS = tuple(4**step * 1024 for step in range(1, 11))
"""Upper bounds in bytes of all classes of the histogram but the last: 4 KiB, 16 KiB … 1 GiB."""


def histogram(sizes: Iterable[int]) -> list[int]:
    """Count the sizes in each class bounded by ``SIZE_STEPS``, and those beyond the last."""
    counts = [0] * (len(SIZE_STEPS) + 1)
    for size in sizes:
        counts[bisect_right(SIZE_STEPS, size)] += 1
    return counts
