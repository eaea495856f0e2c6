"""Parts that one task or a few read and replace, and parts left alone: what plans consist of."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import msgspec

from firnline.log.records import Delete, Marker

SPLIT_MARK = f"{zlib.crc32(b'split'):08x}"
"""Prefix of the run of a split group; a clustered one has ``ClusterSettings.mark``."""


class LeftAlone(msgspec.Struct, frozen=True, gc=False):
    """A live part that the plan leaves unchanged, and why; there may be a million of them."""

    key: str
    partition: str
    bytes: int
    reason: str


@dataclass(frozen=True, slots=True)
class PlannedGroup:
    """Parts of one partition that become one part, or a few: clustered, or one for each slice."""

    partition: str
    parts: tuple[Marker, ...]
    """In insertion order."""
    deletes: tuple[Delete, ...] = ()
    """Deletes that hide rows in some of the parts."""
    outputs: int = 1
    """Parts to write; more than one only where they are clustered or sliced."""
    cluster: str | None = None
    """``ClusterSettings.mark`` of the clustering of the outputs; None if they are not clustered."""

    slices: int = 1
    """Tasks that merge it, each with key ranges; fewer where the footers of its parts do not tell
    ranges apart."""
    sliced_by: tuple[str, ...] = ()
    """Columns of the key ranges; empty for one task."""

    @property
    def bytes(self) -> int:
        """Bytes to read, and at most about as many to write."""
        return sum(m.b for m in self.parts)

    @property
    def newest(self) -> int:
        """Largest insertion time, unix ms."""
        return max(m.order()[1] for m in self.parts)
