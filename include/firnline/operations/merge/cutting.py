"""Cut a group into slices by the statistics of row groups: pure, from footers that were read.

Cut points are quantiles of the rows by one column. A slice reads every row group that may have a
row of it, so row groups that lie across a cut point are read twice. Slices that would read much
more than the group has are not made: sorted inputs of many row groups can be cut anywhere, and
inputs whose row groups all hold the whole range cannot be cut at all.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from firnline.parquet.footers import RowGroupFacts
from firnline.types.values import Scalar, bound_key, canonical

MOST_READS = 1.5
"""Bytes that a slice reads at most, as a multiple of an equal share of the group's bytes: so two
tasks need at most three quarters of the time of one, and all together read half as much again."""
_SMALL_BYTES = 2**20


def is_small(size: int) -> bool:
    """Return True for a part that is read with one GET, whatever of it is needed."""
    return size <= _SMALL_BYTES


@dataclass(frozen=True, slots=True)
class PartGroups:
    """The row groups of one input."""

    bytes: int
    """Of the object."""
    row_groups: tuple[RowGroupFacts, ...]


@dataclass(frozen=True, slots=True)
class Reads:
    """What a slice reads of one input."""

    part: int
    """Place of the input in the group."""
    row_groups: tuple[int, ...] | None
    """Numbers of the row groups, ascending; None: all, with one GET."""
    bytes: int


@dataclass(frozen=True, slots=True)
class SlicePlan:
    """One slice of a group."""

    low: Scalar
    """Rows at or after this value, in canonical form; None: from the beginning."""
    high: Scalar
    """Rows before this value; None: to the end, nulls included."""
    share: float
    """Estimate of its share of the rows, 0 to 1."""
    reads: tuple[Reads, ...]

    @property
    def bytes(self) -> int:
        """Bytes that it reads, footers not counted."""
        return sum(each.bytes for each in self.reads)


def cut_into_slices(parts: Sequence[PartGroups], kind: str, most: int) -> tuple[SlicePlan, ...]:
    """Return the slices of a group, in the order of their values; none if it is not worth it.

    Args:
        parts: its inputs.
        kind: SQL type of the column, in canonical form.
        most: number of slices that is wanted.
    """
    chunks = list(_chunks(parts, kind))
    total = sum(part.bytes for part in parts)
    points = _Quantiles(chunks)
    for count in range(most, 1, -1):
        cuts = points.cuts(count)
        if not cuts:
            return ()
        found = _slices(parts, chunks, cuts)
        if max(each.bytes for each in found) * len(found) <= MOST_READS * total:
            return found
    return ()


def share_outputs(slices: Sequence[SlicePlan], outputs: int) -> list[int]:
    """Return for each slice its number of the outputs of a group: by its rows, at least one."""
    found = [1] * len(slices)
    for _ in range(outputs - len(slices)):
        most = max(range(len(slices)), key=lambda place: slices[place].share / found[place])
        found[most] += 1
    return found


@dataclass(frozen=True, slots=True)
class _Chunk:
    """A row group with comparable bounds."""

    part: int
    number: int
    rows: int
    bytes: int
    low: Any = None
    """None: no value, or unknown."""
    high: Any = None
    """None: no value, unknown, or no upper bound."""
    first: Scalar = None
    """``low`` in canonical form."""
    nulls: bool = False
    known: bool = False

    def slices(self, cuts: Sequence[Any]) -> Iterable[int]:
        """Return the numbers of the slices that may have a row of it."""
        last = len(cuts)
        if not self.known:
            return range(last + 1)
        if self.low is None:
            return (last,)
        end = last if self.high is None else bisect_right(cuts, self.high)
        found = range(bisect_right(cuts, self.low), end + 1)
        return (*found, last) if self.nulls and end < last else found


def _chunks(parts: Sequence[PartGroups], kind: str) -> Iterator[_Chunk]:
    for place, part in enumerate(parts):
        for number, group in enumerate(part.row_groups):
            yield _chunk(place, number, group, kind)


def _chunk(part: int, number: int, group: RowGroupFacts, kind: str) -> _Chunk:
    unknown = _Chunk(part, number, group.rows, group.bytes)
    key = bound_key(kind)
    if group.bounds is None or key is None:
        return unknown
    low, high, nulls = group.bounds
    try:
        first = None if low is None else canonical(kind, low)
        least = None if first is None else key(first)
        most = None if high is None else key(canonical(kind, high))
    except (ValueError, TypeError):
        return unknown  # bounds of another type, as of a column that had one
    if least is None and nulls < group.rows:
        return unknown
    if least is not None and most is not None and most < least:
        return unknown
    return _Chunk(part, number, group.rows, group.bytes, least, most, first, nulls > 0, True)


@dataclass(frozen=True, slots=True)
class _Cut:
    """A value to cut at."""

    key: Any
    """Its comparable form."""
    value: Scalar
    """Its canonical form."""
    below: float
    """Estimate of the share of the rows that are below it, 0 to 1."""


class _Quantiles:
    """Values below which a share of the rows is, by estimate.

    Of a row group that lies across a value, half of the rows are taken to be below it.
    """

    def __init__(self, chunks: Sequence[_Chunk]) -> None:
        passed: dict[Any, float] = defaultdict(float)
        values: dict[Any, Scalar] = {}
        self.total = 0
        for chunk in chunks:
            if chunk.low is not None:
                self.total += chunk.rows
                values[chunk.low] = chunk.first
        # Half of a row group is below a value that is above its least, and half above its greatest.
        for chunk in chunks:
            if chunk.low is not None:
                passed[chunk.low] += chunk.rows / 2
                if chunk.high is not None:
                    passed[chunk.high] += chunk.rows / 2
        self._cuts: list[_Cut] = []
        below = 0.0
        for at in sorted(passed):
            if at in values and below:
                self._cuts.append(_Cut(at, values[at], below / self.total))
            below += passed[at]

    def cuts(self, count: int) -> list[_Cut]:
        """Return the cut points between ``count`` equal shares, or fewer, in their order."""
        found: dict[Any, _Cut] = {}
        for number in range(1, count) if self._cuts else ():
            wanted = number / count
            place = bisect_left(self._cuts, wanted, key=lambda cut: cut.below)
            near = self._cuts[max(place - 1, 0) : place + 1]
            best = min(near, key=lambda cut: abs(cut.below - wanted))
            found[best.key] = best
        return list(found.values())


def _slices(
    parts: Sequence[PartGroups],
    chunks: Sequence[_Chunk],
    cuts: Sequence[_Cut],
) -> tuple[SlicePlan, ...]:
    keys = [cut.key for cut in cuts]
    needed: list[dict[int, list[_Chunk]]] = [defaultdict(list) for _ in range(len(cuts) + 1)]
    for chunk in chunks:
        for number in chunk.slices(keys):
            needed[number][chunk.part].append(chunk)
    ends: list[Scalar] = [None, *(cut.value for cut in cuts), None]
    below = [0.0, *(cut.below for cut in cuts), 1.0]
    return tuple(
        SlicePlan(
            low=ends[number],
            high=ends[number + 1],
            share=below[number + 1] - below[number],
            reads=tuple(_reads(parts[place], of_part) for place, of_part in sorted(each.items())),
        )
        for number, each in enumerate(needed)
    )


def _reads(part: PartGroups, needed: Sequence[_Chunk]) -> Reads:
    place = needed[0].part
    if len(needed) == len(part.row_groups) or is_small(part.bytes):
        return Reads(place, None, part.bytes)
    return Reads(place, tuple(chunk.number for chunk in needed), sum(c.bytes for c in needed))
