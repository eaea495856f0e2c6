"""Cut points of keys, and the conditions of the rows between them.

Every row is in exactly one range whatever the cut points are: a range is the number of the first
cut point that the row is below, nulls being above everything. Values are compared by DuckDB, for
which NaN is the greatest float and equals itself, and 0.0 equals -0.0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from msgspec import structs

from firnline.predicate.tree import opaque
from firnline.types.hashes import LARGEST, Hashes, HashRange
from firnline.types.sql import quote_name

# ruff: noqa: S608 -- every name and literal is quoted; DuckDB is confined to this task's folder

Cut = tuple[str | None, ...]
"""One value per key column, as text."""


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys by which rows are clustered."""

    names: tuple[str, ...]
    """Names of the key columns."""
    types: tuple[str, ...]
    made: str | None = None
    """Expression of the single key column; None: they are columns of the table."""
    descending: tuple[bool, ...] = ()
    """Order of each column; empty: all ascending. Nulls are last in both."""
    hashed: HashRange | None = None
    """Columns and forms of the hash that the key is; None unless it is ``types.murmur3``'s."""

    def hashes(self, cuts: Sequence[Cut], number: int) -> Hashes:
        """Return what the rows of a range (``range_number``) have in common."""
        if self.hashed is None:
            return ()
        ends = [0, *(int(str(cut[0])) for cut in cuts), LARGEST + 1]
        low, high = ends[number], ends[number + 1] - 1
        return (structs.replace(self.hashed, low=low, high=high),)

    def is_descending(self, place: int) -> bool:
        """Return True if a column is sorted from its greatest value down."""
        return bool(self.descending) and self.descending[place]

    def rows(self, rows: str) -> str:
        """Return rows with their key columns."""
        if self.made is None:
            return rows
        return f"SELECT *, {self.made} AS {quote_name(self.names[0])} FROM ({rows})"

    @property
    def order(self) -> str:
        """The expressions for ORDER BY."""
        return ", ".join(
            f"{quote_name(name)} {'DESC' if self.is_descending(place) else 'ASC'} NULLS LAST"
            for place, name in enumerate(self.names)
        )


def distinct(cuts: Sequence[Cut]) -> list[Cut]:
    """Return cut points without repetitions: no row would lie between equal ones."""
    return list(dict.fromkeys(cuts))


def range_number(keys: Keys, cuts: Sequence[Cut]) -> str:
    """Return the expression for the range of a row, 0 to ``len(cuts)``."""
    cases = " ".join(
        f"WHEN NOT {_at_or_after(keys, cut)} THEN {number}" for number, cut in enumerate(cuts)
    )
    return f"CASE {cases} ELSE {len(cuts)} END" if cuts else "0"


def bands(keys: Keys, cuts: Sequence[Cut]) -> list[str]:
    """Return a condition for each range; bounds of the first column let scans skip row groups."""
    ends: list[Cut | None] = [None, *cuts, None]
    return [band(keys, low, high) for low, high in pairwise(ends)]


def band(keys: Keys, low: Cut | None, high: Cut | None) -> str:
    """Return the condition of the rows at or after ``low`` and before ``high``; None: no end.

    It is true or false, or null for a row without a value that is not in the range.
    """
    conditions: list[str] = []
    if low is not None:
        nulls = high is None or high[0] is None
        conditions += [_no_earlier(keys, low, nulls=nulls), _at_or_after(keys, low)]
    if high is not None:
        conditions += [_no_later(keys, high), f"NOT {_at_or_after(keys, high)}"]
    return " AND ".join(each for each in conditions if each) or "true"


def _no_later(keys: Keys, cut: Cut) -> str:
    """Return a condition on the first column alone that rows before a cut point fulfil."""
    if cut[0] is None:
        return ""
    sign = ">=" if keys.is_descending(0) else "<="
    return f"{quote_name(keys.names[0])} {sign} {literal(cut[0], keys.types[0])}"


def _no_earlier(keys: Keys, cut: Cut, *, nulls: bool) -> str:
    """Return a condition on the first column alone that rows at or after a cut point fulfil.

    Without ``nulls``, those that have a value: the form that lets a scan skip row groups.
    """
    column = quote_name(keys.names[0])
    if cut[0] is None:
        return f"{opaque(column)} IS NULL"
    sign = "<=" if keys.is_descending(0) else ">="
    bound = f"{column} {sign} {literal(cut[0], keys.types[0])}"
    return f"({bound} OR {column} IS NULL)" if nulls else bound


def _at_or_after(keys: Keys, cut: Cut, place: int = 0) -> str:
    """Return a condition that a row is at or after a cut point; true or false, never null."""
    if place == len(keys.names):
        return "true"
    column, rest = quote_name(keys.names[place]), _at_or_after(keys, cut, place + 1)
    text = cut[place]
    if text is None:
        return f"({opaque(column)} IS NULL AND {rest})"
    value, sign = literal(text, keys.types[place]), "<" if keys.is_descending(place) else ">"
    return f"({column} IS NULL OR {column} {sign} {value} OR ({column} = {value} AND {rest}))"


def literal(text: str, kind: str) -> str:
    """Return a value as a literal, from its text."""
    # A NUL character ends the statement for DuckDB's parser.
    pieces = ["'" + piece.replace("'", "''") + "'" for piece in text.split("\0")]
    return f"CAST(({' || chr(0) || '.join(pieces)}) AS {kind})"
