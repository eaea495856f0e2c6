"""Digest of a multiset of rows: two sums of 64 bits, one for each of two hashes of a row.

Rows in any order have the same digest, and digests of disjoint multisets add up. The hash of a row
is that of ``types.rowhash`` (docs/format.md, "Digests of rows").
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

ALGORITHM = "r1"
"""Name of the hash of a row; a change of any digest gets another name."""
_WORD = 2**64
_TEXT = re.compile(rf"{ALGORITHM}:([0-9a-f]{{16}})([0-9a-f]{{16}})")


class Digest(NamedTuple):
    """Sums of the two hashes of all rows, each modulo 2**64."""

    first: int = 0
    second: int = 0

    def plus(self, other: Digest) -> Digest:
        """Return the digest of both multisets together."""
        return Digest((self.first + other.first) % _WORD, (self.second + other.second) % _WORD)

    def minus(self, other: Digest) -> Digest:
        """Return the digest of the rows that are left when those of ``other`` go."""
        return Digest((self.first - other.first) % _WORD, (self.second - other.second) % _WORD)

    def __str__(self) -> str:
        return f"{ALGORITHM}:{self.first:016x}{self.second:016x}"


NOTHING = Digest()
"""Digest of no rows."""


def parse_digest(text: str | None) -> Digest | None:
    """Return a digest from its text; None if there is none, or one of another algorithm."""
    found = _TEXT.fullmatch(text) if text else None
    return None if found is None else Digest(int(found[1], 16), int(found[2], 16))


def total(digests: Iterable[Digest]) -> Digest:
    """Return the digest of all multisets together."""
    whole = NOTHING
    for each in digests:
        whole = whole.plus(each)
    return whole
