"""Parts by path without an object for each of them: what a reading of a checkpoint gives.

Users take ``Mapping[str, Marker]`` and make one marker, a partition's, or all of them, as they
need; what only counts or sums need not make any.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from firnline.log.records import Marker
from firnline.log.union import Past


class Totals(NamedTuple):
    """Figures of some parts."""

    parts: int
    rows: int | None
    """None when one of them does not say."""
    bytes: int


class Figures(NamedTuple):
    """Sizes of the parts of one partition, in no particular order."""

    partition: str
    sizes: Sequence[int]
    """Bytes of each part."""
    rows: Sequence[int | None]
    """Rows of each part, in the same order."""


class PartsView(Mapping[str, Marker]):
    """Parts that are kept in columns."""

    @abstractmethod
    def live(self, past: Past | None) -> PartsView:
        """Those that are live now, or were in a state of the past."""

    @abstractmethod
    def by_partition(self) -> PartitionsView:
        """The same parts by partition path, in order of their names."""

    @abstractmethod
    def totals(self) -> Totals:
        """Summed without a marker."""


class PartitionsView(Mapping[str, list[Marker]]):
    """Partitions whose markers are made when asked for."""

    @abstractmethod
    def figures(self) -> Iterator[Figures]:
        """Each partition's, in order, without a marker."""


def totals(parts: Mapping[str, Marker]) -> Totals:
    """Figures of all parts."""
    if isinstance(parts, PartsView):
        return parts.totals()
    return summed(parts.values())


def dead(parts: Mapping[str, Marker]) -> int:
    """How many of them are dead by now."""
    if isinstance(parts, PartsView):
        return len(parts) - len(parts.live(None))
    return sum(marker.tmb is not None for marker in parts.values())


def figures(partitions: Mapping[str, list[Marker]]) -> Iterator[Figures]:
    """Each partition's, in order."""
    if isinstance(partitions, PartitionsView):
        yield from partitions.figures()
        return
    for partition, markers in partitions.items():
        yield Figures(partition, [m.b for m in markers], [m.n for m in markers])


def summed(markers: Iterable[Marker]) -> Totals:
    """Figures of markers."""
    parts = size = 0
    rows: int | None = 0
    for marker in markers:
        parts, size = parts + 1, size + marker.b
        rows = None if rows is None or marker.n is None else rows + marker.n
    return Totals(parts, rows, size)
