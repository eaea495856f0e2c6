"""Hash ranges of a part: between which hashes the values of columns lie in its rows.

A part of partition 3 of ``bucket(64, id)`` has ``(("id",), ("long",), 64, 3, 3)``; an output of
``cluster_by: hash`` has the range of hashes that it was made for, with 0 buckets. A range is only
stated by who has hashed the rows, or has copied them from parts that state it: the name of a
directory says neither the number of buckets nor the hash function.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

LARGEST = 2**32 - 1
"""Largest hash."""
BUCKET_MASK = 0x7FFFFFFF
"""Bits of a hash that choose its bucket (Iceberg specification)."""


About = tuple[tuple[str, ...], tuple[str, ...], int]
"""What a range is of: columns, forms and number of buckets."""


class HashRange(msgspec.Struct, frozen=True, array_like=True):
    """A range of hashes, by ``types.murmur3.hash_rows``, of all rows without a null in the columns.

    Without bounds no row has a value in each of the columns.
    """

    columns: tuple[str, ...]
    forms: tuple[str, ...]
    """For each column the bytes that were hashed, by ``types.murmur3.form_of``."""
    buckets: int
    """The range is of ``(hash & BUCKET_MASK) % buckets``; 0: of the hash itself."""
    low: int | None
    high: int | None
    """Inclusive."""

    @property
    def about(self) -> About:
        """Return what it is a range of."""
        return (self.columns, self.forms, self.buckets)

    @property
    def bounds(self) -> tuple[int, int] | None:
        """Return smallest and largest hash; None if no row has a value in each of the columns."""
        return None if self.low is None or self.high is None else (self.low, self.high)

    @property
    def is_whole(self) -> bool:
        """Return True if it excludes no value."""
        return (self.low, self.high) == (0, (self.buckets or LARGEST + 1) - 1)

    @property
    def is_sound(self) -> bool:
        """Return True if it has the shape of a range; other writers may leave anything."""
        bounds = (self.low is None) == (self.high is None)
        return bounds and len(self.columns) == len(self.forms) > 0 and self.buckets >= 0


Hashes = tuple[HashRange, ...]
"""All ranges of a part."""


def around(parts: Iterable[Hashes]) -> Hashes:
    """Return the ranges that hold for the rows of all parts; what one does not state is left out.

    A part without any leaves none.
    """
    common: dict[About, HashRange] | None = None
    for ranges in parts:
        mine = {each.about: each for each in ranges}
        if common is None:
            common = dict(mine)
        else:
            common = {a: hull(common[a], mine[a]) for a in common.keys() & mine.keys()}
    found = (each for each in (common or {}).values() if not each.is_whole)
    return tuple(sorted(found, key=lambda each: each.about))


def hull(one: HashRange, other: HashRange) -> HashRange:
    """Return the range that holds for the rows of both."""
    mine, theirs = one.bounds, other.bounds
    if mine is None or theirs is None:
        return other if mine is None else one
    low, high = min(mine[0], theirs[0]), max(mine[1], theirs[1])
    return msgspec.structs.replace(one, low=low, high=high)
