"""Groups small parts for a merge: size tiers up to a target.

Parts are taken smallest first. A group grows while the next part is no larger than twice what has
been gathered, so that a full-size part is never rewritten for a tiny one, and every byte is
rewritten O(log(target / part)) times over the table's life. Below a floor (1/64 of the target)
all sizes count as one: there the cost is requests, not bytes.

Merging what a plan says makes the same plan empty (fixpoint): a group is closed because the next
part is more than twice its sum, and its one output keeps that distance.

A finished partition is grouped without regard to sizes (``group_in_order``, smallest first): then
no two groups fit together, and none is left to be merged with another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter

from firnline.log.records import Marker
from firnline.settings.load import MergeSettings

FACTOR = 2
FLOOR_SHARE = 64
LARGE = "is large enough (3/4 of target_size)"


@dataclass(frozen=True, slots=True)
class Tier:
    """Bounds of a group."""

    target: int
    """Bytes of a full part."""
    min_inputs: int
    max_inputs: int
    floor_of: int = 0
    """Bytes whose 64th part is the floor; 0: the target."""

    @property
    def floor(self) -> int:
        """Below this many bytes all sizes count as one."""
        return (self.floor_of or self.target) // FLOOR_SHARE

    @property
    def full(self) -> int:
        """Parts of this many bytes or more are left as they are."""
        return full_from(self.target)


def tier_of(policy: MergeSettings) -> Tier:
    """Return the bounds of a group of a table that is not clustered."""
    return Tier(policy.target_size, policy.min_inputs, policy.max_parts_per_group)


def full_from(target: int) -> int:
    """Return the size from which on a part is not small any more: 3/4 of the target."""
    return target * 3 // 4


def is_small(size: int, rows: int | None, policy: MergeSettings) -> bool:
    """Return True if a part is small by bytes and by rows; see ``size_of``."""
    return size_of(size, rows, policy) < full_from(policy.target_size)


def size_of(size: int, rows: int | None, policy: MergeSettings) -> int:
    """Return the size of a part in bytes of the target: by bytes or by rows, the larger share.

    Args:
        size: bytes of the part.
        rows: None if its writer does not say.
        policy: has the target.
    """
    if policy.target_rows is None or rows is None:
        return size
    return max(size, rows * policy.target_size // policy.target_rows)


def sizer(policy: MergeSettings) -> Callable[[Marker], int]:
    """Return ``size_of`` for markers."""
    if policy.target_rows is None:
        return attrgetter("b")  # plans ask it several times of each of a million parts
    return lambda marker: size_of(marker.b, marker.n, policy)


def group_by_size(sizes: Sequence[int], tier: Tier) -> list[range]:
    """Cut sizes, sorted ascending, into runs that may be merged each into one part.

    Returns every run, also those too small to be worth it: see ``worthwhile``.
    """
    return _cut(sizes, tier, partial(_too_large, tier))


def group_newest_first(sizes: Sequence[int], tier: Tier) -> list[range]:
    """Cut sizes, in insertion order, into runs that may be merged each into one part.

    For tables with a primary key, whose groups must be contiguous in insertion order. Runs begin
    at the newest part, where small ones arrive: a large one before them is not rewritten until
    half of its size has come behind it.
    """
    count = len(sizes)
    runs = _cut(sizes[::-1], tier, partial(_too_large, tier))
    return [range(count - run.stop, count - run.start) for run in reversed(runs)]


def _too_large(tier: Tier, size: int, total: int) -> bool:
    return too_large(size, total, tier)


def too_large(size: int, total: int, tier: Tier) -> bool:
    """Return True if ``size`` bytes are too many to rewrite for ``total`` smaller ones."""
    return size > max(FACTOR * total, tier.floor)


def group_in_order(sizes: Sequence[int], tier: Tier) -> list[range]:
    """Cut sizes into runs up to the target without changing their order, whatever the sizes.

    For what is rewritten in any case, and for finished partitions. Of sizes sorted ascending, and
    of neighbours in any order, no two runs fit into the target together.
    """
    return _cut(sizes, tier, lambda _size, _total: False)


def _cut(sizes: Sequence[int], tier: Tier, too_large: Callable[[int, int], bool]) -> list[range]:
    """Runs up to the bounds; ``too_large(size, total)`` ends one before a part of ``size``."""
    runs: list[range] = []
    start, total = 0, 0
    for index, size in enumerate(sizes):
        count = index - start
        over = total + size > tier.target or count >= tier.max_inputs
        if count and (over or too_large(size, total)):
            runs.append(range(start, index))
            start, total = index, 0
        total += size
    if start < len(sizes):
        runs.append(range(start, len(sizes)))
    return runs


def worthwhile(count: int, total: int, tier: Tier) -> bool:
    """Return True if merging ``count`` parts of ``total`` bytes pays: enough, or a full part.

    Some of the parts never pay where all of them do not.
    """
    return count >= tier.min_inputs or (count >= 2 and total >= tier.full)


def shrinks(count: int, total: int, tier: Tier) -> bool:
    """Return True if merging ``count`` parts of a finished partition leaves fewer of them.

    More than the target is in one group only where parts of one insertion time cannot be
    separated; they stay as they are.
    """
    return count >= 2 and total <= tier.target
