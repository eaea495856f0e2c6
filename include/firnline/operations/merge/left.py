"""Parts that a merge leaves as they are: how many of which partition, and why.

Numbers and not a list: a plan of millions of parts is no larger for those that stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from firnline.log.records import Marker

Reasoned = tuple[str, Sequence[Marker]]
"""A reason, and the parts of one partition that stay for it."""


class LeftParts(msgspec.Struct, frozen=True, gc=False):
    """Live parts of one partition that a merge leaves unchanged for one reason."""

    partition: str
    reason: str
    parts: int
    bytes: int


class Tally:
    """Counts parts by partition and reason."""

    def __init__(self) -> None:
        self._counted: dict[tuple[str, str], tuple[int, int]] = {}

    def count(self, partition: str, reason: str, parts: int, size: int) -> None:
        """Count parts of one partition and their bytes."""
        before, bytes_before = self._counted.get((partition, reason), (0, 0))
        self._counted[partition, reason] = before + parts, bytes_before + size

    def add(self, partition: str, found: Iterable[Reasoned]) -> None:
        """Count parts of one partition."""
        for reason, parts in found:
            if parts:
                self.count(partition, reason, len(parts), sum(m.b for m in parts))

    def rows(self) -> tuple[LeftParts, ...]:
        """Return what was counted, by partition and reason."""
        return tuple(
            LeftParts(partition, reason, parts, size)
            for (partition, reason), (parts, size) in sorted(self._counted.items())
        )
