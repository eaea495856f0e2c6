"""The pieces of a comparison, one for each partition of a change, and who compares them.

Pieces know neither settings nor log: an engine may send them to its workers. What comes back is
bounded, however many rows differ: counts by partition and by column, and a few rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol, runtime_checkable

import msgspec

from firnline.operations.prepared.evidence import Evidence
from firnline.read.task import ReadTask


class Piece(msgspec.Struct, frozen=True):
    """The rows of one partition before and after a change."""

    partition: str
    before: ReadTask
    after: ReadTask

    @property
    def bytes(self) -> int:
        """Bytes of the parts that are read."""
        return self.before.bytes + self.after.bytes

    @property
    def parts(self) -> int:
        """Number of parts that are read."""
        return len(self.before.parts) + len(self.after.parts)


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """The figures that are wanted of pieces, and what their comparison may use."""

    keys: tuple[str, ...]
    """Columns that match rows."""
    samples: int
    """Rows of each kind at most, over all pieces."""
    memory: int
    """Bytes of DuckDB's buffers for one comparison at a time; it spills beyond them."""
    threads: int


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """The evidence of some pieces."""

    evidence: Evidence
    requests: dict[str, int] = {}
    """Sent by a worker, through a store of its own."""


Compare = Callable[[Iterable[Piece], Wanted], Iterator[Compared]]
"""Compares pieces, and yields evidence of some of them at a time, in their order."""


@runtime_checkable
class Comparing(Protocol):
    """An engine whose workers compare pieces."""

    def comparison(self) -> Compare:
        """Return what compares pieces on the workers; raises if they cannot, before any work."""
        ...
