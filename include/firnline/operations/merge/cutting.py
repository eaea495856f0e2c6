"""Cut a group into slices by the statistics of row groups: pure, from footers that were read.

A group is cut in two, and each half again, until there are as many slices as wanted. Cut points are
quantiles of the rows by one column; of several columns each cut takes that by which the halves read
least. A slice reads every row group that may have a row of it, so row groups that lie across a cut
point are read twice. Slices that would read much more than the group has are not made: sorted
inputs of many row groups can be cut anywhere, and inputs whose row groups all hold the whole range
of every column cannot be cut at all.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from firnline.parquet.footers import RowGroupFacts
from firnline.types.values import Bounds, Scalar, bound_key, canonical

MOST_READS = 1.5
"""Bytes that a slice reads at most, as a multiple of an equal share of the group's bytes: so two
tasks need at most three quarters of the time of one, and all together read half as much again."""
_SMALL_BYTES = 2**20
_STEPS = 8
"""Numbers of slices are tried downwards, each less by such a part."""
_ROUNDING = 1e-9
_T = TypeVar("_T")


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
    """One slice of a group; of each column the rows in a range."""

    low: tuple[Scalar, ...]
    """Rows at or after these values, in canonical form; None: from the beginning."""
    high: tuple[Scalar, ...]
    """Rows before these values; None: to the end, nulls included."""
    share: float
    """Estimate of its share of the rows, 0 to 1."""
    reads: tuple[Reads, ...]
    narrowed: tuple[float, ...]
    """Number of times that the cuts around it have halved the values of each column."""

    @property
    def bytes(self) -> int:
        """Bytes that it reads, footers not counted."""
        return sum(each.bytes for each in self.reads)


def cut_into_slices(
    parts: Sequence[PartGroups], kinds: Sequence[str], most: int, halvings: int | None = None
) -> tuple[SlicePlan, ...]:
    """Return the slices of a group; none if it is not worth it.

    Those of one column are in the order of their values.

    Args:
        parts: its inputs.
        kinds: SQL types of the columns that ``RowGroupFacts.bounds`` are of, in canonical form.
        most: number of slices that is wanted.
        halvings: how often the values of one column may be halved; None: as often as needed.
    """
    total = sum(part.bytes for part in parts)
    chunks = [
        _Chunk(
            place,
            number,
            group.bytes,
            group.rows,
            tuple(map(_ends, group.bounds, kinds, [group.rows] * len(kinds))),
        )
        for place, part in enumerate(parts)
        for number, group in enumerate(part.row_groups)
    ]
    whole = _Box.around(chunks, len(kinds))
    best: tuple[SlicePlan, ...] = ()
    count = most
    while count > max(len(best), 1):
        boxes = _Cutter(halvings, MOST_READS * total / count).boxes(whole, count)
        if len(boxes) > max(len(best), 1):
            slices = tuple(_slice(parts, box) for box in boxes)
            if max(each.bytes for each in slices) * len(slices) <= MOST_READS * total:
                best = slices
        count -= max(count // _STEPS, 1)  # a group of 10,000 row groups takes seconds
    return best


def halvings_of(outputs: int, columns: int) -> int:
    """Return how often the outputs of a z-order halve the values of each of its columns, at most.

    Slices that halve none more often leave as many outputs to the other columns: of 8 by 2 columns,
    4 slices by one of them have 2 outputs each, by the other.
    """
    return math.ceil(math.log2(outputs) / columns)


def share_outputs(slices: Sequence[SlicePlan], outputs: int) -> list[int]:
    """Return for each slice its number of the outputs of a group: by its rows, at least one."""
    shares = [1] * len(slices)
    for _ in range(outputs - len(slices)):
        most = max(range(len(slices)), key=lambda place: slices[place].share / shares[place])
        shares[most] += 1
    return shares


@dataclass(frozen=True, slots=True)
class _Cut:
    """A value of a column to cut at."""

    place: int
    """Of the column."""
    key: Any
    """Its comparable form."""
    value: Scalar
    """Its canonical form."""
    below: float
    """Estimate of the share of the rows that are below it, 0 to 1."""


class _Ends(NamedTuple):
    """Comparable bounds of the rows of a row group, in one column."""

    low: Any = None
    """None: no value, or unknown."""
    high: Any = None
    """None: no value, unknown, or no upper bound."""
    first: Scalar = None
    """``low`` in canonical form."""
    nulls: float = 0.0
    """Share of the rows that have none, 0 to 1."""
    known: bool = False

    def below(self, cut: _Cut) -> _Ends | None:
        """Return the bounds of the rows below a cut; None if there can be none."""
        if not self.known:
            return self
        if self.low is None or self.low >= cut.key:
            return None
        across = self.high is None or self.high >= cut.key
        return _Ends(self.low, cut.key if across else self.high, self.first, 0.0, True)

    def above(self, cut: _Cut) -> _Ends | None:
        """Return the bounds of the rows at or after a cut, nulls included; None if none can be."""
        if not self.known or (self.low is not None and self.low >= cut.key):
            return self
        if self.low is not None and (self.high is None or self.high >= cut.key):
            nulls = self.nulls / (1 - self.share_below(cut))
            return _Ends(cut.key, self.high, cut.value, nulls, known=True)
        return _Ends(nulls=1.0, known=True) if self.nulls or self.low is None else None

    def share_below(self, cut: _Cut) -> float:
        """Return an estimate of the share of the rows that are below a cut.

        Of a row group that lies across a cut, half of the values are taken to be below it.
        """
        if not self.known:
            return 0.5
        if self.low is None or self.low >= cut.key:
            return 0.0
        across = self.high is None or self.high >= cut.key
        return (1 - self.nulls) * (0.5 if across else 1.0)


class _Chunk(NamedTuple):
    """The rows of a row group that are in a box."""

    part: int
    number: int
    bytes: int
    """Of the whole row group."""
    rows: float
    """Estimate of their number."""
    ends: tuple[_Ends, ...]
    """Of each column."""

    def halves(self, cut: _Cut) -> tuple[_Chunk | None, _Chunk | None]:
        """Return its rows below a cut and those at or after it; None where there can be none."""
        ends = self.ends[cut.place]
        below = self.rows * ends.share_below(cut)
        return (
            self._with(cut.place, ends.below(cut), below),
            self._with(cut.place, ends.above(cut), self.rows - below),
        )

    def _with(self, place: int, ends: _Ends | None, rows: float) -> _Chunk | None:
        if ends is None:
            return None
        if ends is self.ends[place] and rows == self.rows:
            return self
        return _Chunk(self.part, self.number, self.bytes, rows, _put(self.ends, place, ends))


@dataclass(frozen=True, slots=True)
class _Box:
    """A range of every column, and what may have rows in it."""

    chunks: list[_Chunk]
    low: tuple[Scalar, ...]
    high: tuple[Scalar, ...]
    narrowed: tuple[float, ...]
    share: float

    @classmethod
    def around(cls, chunks: list[_Chunk], columns: int) -> _Box:
        """Return the box of all rows."""
        return cls(chunks, (None,) * columns, (None,) * columns, (0.0,) * columns, 1.0)

    @property
    def bytes(self) -> int:
        """Bytes of the row groups that may have rows in it."""
        return sum(chunk.bytes for chunk in self.chunks)

    def halves(self, cut: _Cut, few: int, many: int) -> tuple[_Box, _Box]:
        """Return the boxes below a cut and at or after it, for ``few`` and ``many`` slices."""
        found = [chunk.halves(cut) for chunk in self.chunks]
        lower = [below for below, _ in found if below is not None]
        upper = [above for _, above in found if above is not None]
        at = cut.place
        both = math.log2(few + many)
        return (
            _Box(
                lower,
                self.low,
                _put(self.high, at, cut.value),
                _put(self.narrowed, at, self.narrowed[at] + both - math.log2(few)),
                self.share * cut.below,
            ),
            _Box(
                upper,
                _put(self.low, at, cut.value),
                self.high,
                _put(self.narrowed, at, self.narrowed[at] + both - math.log2(many)),
                self.share * (1 - cut.below),
            ),
        )

    def cut(self, place: int, most: float) -> _Cut | None:
        """Return the value of a column nearest to a share of the rows; None if none divides it."""
        passed: dict[Any, float] = defaultdict(float)
        values: dict[Any, Scalar] = {}
        total = 0.0
        # Half of a row group is below a value that is above its least, and half above its greatest.
        for chunk in self.chunks:
            ends = chunk.ends[place]
            if not ends.known:
                continue
            total += chunk.rows
            if ends.low is not None:
                values[ends.low] = ends.first
                half = chunk.rows * (1 - ends.nulls) / 2
                passed[ends.low] += half
                if ends.high is not None:
                    passed[ends.high] += half
        cuts: list[_Cut] = []
        below = 0.0
        for at in sorted(passed):
            if at in values and below:
                cuts.append(_Cut(place, at, values[at], below / total))
            below += passed[at]
        return min(cuts, key=lambda cut: abs(cut.below - most), default=None)


@dataclass(frozen=True, slots=True)
class _Cutter:
    """Cuts boxes in two until each is one slice."""

    halvings: int | None
    most: float
    """Bytes that a slice may read."""

    def boxes(self, box: _Box, count: int) -> list[_Box]:
        """Return a box in ``count`` boxes, or fewer where no cut divides it.

        There are none if one of them would read too much.
        """
        if box.bytes > self.most * count:
            return []
        few, many = count // 2, count - count // 2
        halves = self._halves(box, few, many) if few else None
        if halves is None:
            return [box]
        lower = self.boxes(halves[0], few)
        upper = self.boxes(halves[1], many) if lower else []
        return [*lower, *upper] if upper else []

    def _halves(self, box: _Box, few: int, many: int) -> tuple[_Box, _Box] | None:
        """Return the halves that read least, of several alike by the column halved least."""
        choices: list[tuple[float, float, tuple[_Box, _Box]]] = []
        for place, before in enumerate(box.narrowed):
            deepest = before + math.log2((few + many) / few)
            if self.halvings is not None and deepest > self.halvings + _ROUNDING:
                continue
            cut = box.cut(place, few / (few + many))
            if cut is not None:
                lower, upper = box.halves(cut, few, many)
                reads = max(lower.bytes / few, upper.bytes / many)
                choices.append((reads, before, (lower, upper)))
        return min(choices, key=lambda each: each[:2])[2] if choices else None


def _put(values: tuple[_T, ...], place: int, value: _T) -> tuple[_T, ...]:
    return (*values[:place], value, *values[place + 1 :])


def _ends(bounds: Bounds | None, kind: str, rows: int) -> _Ends:
    key = bound_key(kind)
    if bounds is None or key is None:
        return _Ends()
    low, high, nulls = bounds
    try:
        first = None if low is None else canonical(kind, low)
        least = None if first is None else key(first)
        most = None if high is None else key(canonical(kind, high))
    except (ValueError, TypeError):
        return _Ends()  # bounds of another type, as of a column that had one
    if least is None and nulls < rows:
        return _Ends()
    if least is not None and most is not None and most < least:
        return _Ends()
    return _Ends(least, most, first, min(nulls / rows, 1.0) if rows else 0.0, known=True)


def _slice(parts: Sequence[PartGroups], box: _Box) -> SlicePlan:
    needed: dict[int, list[_Chunk]] = defaultdict(list)
    for chunk in box.chunks:
        needed[chunk.part].append(chunk)
    return SlicePlan(
        low=box.low,
        high=box.high,
        share=box.share,
        reads=tuple(_reads(parts[place], of_part) for place, of_part in sorted(needed.items())),
        narrowed=box.narrowed,
    )


def _reads(part: PartGroups, needed: Sequence[_Chunk]) -> Reads:
    place = needed[0].part
    if len(needed) == len(part.row_groups) or is_small(part.bytes):
        return Reads(place, None, part.bytes)
    return Reads(place, tuple(chunk.number for chunk in needed), sum(c.bytes for c in needed))
