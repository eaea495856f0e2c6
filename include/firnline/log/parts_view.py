"""Mappings of parts by path that create markers lazily, as read from a checkpoint.

Callers use ``Mapping[str, Marker]`` and create one marker, those of a partition, or all of them;
counts and sums create none.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from firnline.log.records import Marker
from firnline.log.union import Past
from firnline.types.order import Order

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Ints = npt.NDArray[np.int64]


class Totals(NamedTuple):
    """Number and sizes of parts."""

    parts: int
    rows: int | None
    """Sum of the rows; None if a part does not state them."""
    bytes: int


class Dead(NamedTuple):
    """Number and sizes of parts that died at one time."""

    parts: int
    bytes: int


_NOTHING = Dead(0, 0)


class Figures(NamedTuple):
    """Sizes of the parts of one partition, in no particular order."""

    partition: str
    sizes: Sequence[int]
    """Bytes of each part."""
    rows: Sequence[int | None]
    """Rows of each part, in the same order."""


class Numbers(NamedTuple):
    """Numbers of the parts of one partition as arrays of one order; -1 for what is not stated."""

    sizes: Ints
    """Bytes of each part."""
    rows: Ints
    times: Ints
    """Times of the log files, unix ms."""
    sequences: Ints
    """Data sequences."""
    first: Ints
    """Insertion times of the first rows, unix ms (``Marker.order``)."""
    last: Ints
    """Insertion times of the last rows."""
    in_runs: bool
    """True if a part is in a clustered run or a split group; it may be a dead one."""


class PartsView(Mapping[str, Marker]):
    """Parts that are kept in columns."""

    @abstractmethod
    def live(self, past: Past | None) -> PartsView:
        """Return the parts that are live now, or were in a past state."""

    @abstractmethod
    def by_partition(self) -> PartitionsView:
        """Return the parts by partition path, in the order of their names."""

    @abstractmethod
    def deaths(self) -> dict[int, Dead]:
        """Return the parts that died at each time (unix ms) without creating markers."""

    @abstractmethod
    def totals(self) -> Totals:
        """Return the totals without creating markers."""


class PartitionsView(Mapping[str, list[Marker]]):
    """Partitions whose markers are created lazily."""

    @abstractmethod
    def figures(self) -> Iterator[Figures]:
        """Yield the figures of each partition, in order, without creating markers."""

    @abstractmethod
    def numbers(self, partition: str) -> Numbers:
        """Return the numbers of a partition without creating markers of a checkpoint's parts.

        Raises OverflowError: a log file has a number of more than 64 bits.
        """

    @abstractmethod
    def orders(self) -> Iterator[tuple[str, Counter[Order]]]:
        """Yield each partition and how many of its parts state which sort order; see ``orders``."""

    @abstractmethod
    def writers(self) -> Iterator[tuple[str, Sequence[tuple[str, ...]]]]:
        """Yield each partition and the writers of each of its parts; see ``writers``."""


def totals(parts: Mapping[str, Marker]) -> Totals:
    """Return the totals of parts."""
    if isinstance(parts, PartsView):
        return parts.totals()
    return summed(parts.values())


def dead(parts: Mapping[str, Marker]) -> int:
    """Return the number of dead parts."""
    if isinstance(parts, PartsView):
        return len(parts) - len(parts.live(None))
    return sum(marker.tmb is not None for marker in parts.values())


def deaths(parts: Mapping[str, Marker]) -> dict[int, Dead]:
    """Return the dead parts by the time since when they are dead, unix ms."""
    if isinstance(parts, PartsView):
        return parts.deaths()
    return died(parts.values())


def died(
    markers: Iterable[Marker], known: Mapping[int, Dead] = MappingProxyType({})
) -> dict[int, Dead]:
    """Return what is dead among markers, as ``deaths``, together with what is known already."""
    found = dict(known)
    for marker in markers:
        if marker.tmb is not None:
            before = found.get(marker.tmb, _NOTHING)
            found[marker.tmb] = Dead(before.parts + 1, before.bytes + marker.b)
    return found


def figures(partitions: Mapping[str, list[Marker]]) -> Iterator[Figures]:
    """Yield the figures of each partition, in order."""
    if isinstance(partitions, PartitionsView):
        yield from partitions.figures()
        return
    for partition, markers in partitions.items():
        yield Figures(partition, [m.b for m in markers], [m.n for m in markers])


def orders(partitions: Mapping[str, list[Marker]]) -> Iterator[tuple[str, Counter[Order]]]:
    """Yield each partition, in order, and how many of its parts state which sort order.

    Columns have the names that they have in the parts; parts that state none are counted too.
    """
    if isinstance(partitions, PartitionsView):
        yield from partitions.orders()
        return
    for partition, markers in partitions.items():
        yield partition, Counter(marker.sorted_by() for marker in markers)


def writers(
    partitions: Mapping[str, list[Marker]],
) -> Iterator[tuple[str, Sequence[tuple[str, ...]]]]:
    """Yield each partition and the writers of each of its parts, in the order of ``figures``.

    Of a part that names none an empty tuple.
    """
    if isinstance(partitions, PartitionsView):
        yield from partitions.writers()
        return
    for partition, markers in partitions.items():
        yield partition, [marker.w or () for marker in markers]


def summed(markers: Iterable[Marker]) -> Totals:
    """Return the totals of markers."""
    parts = size = 0
    rows: int | None = 0
    for marker in markers:
        parts, size = parts + 1, size + marker.b
        rows = None if rows is None or marker.n is None else rows + marker.n
    return Totals(parts, rows, size)
