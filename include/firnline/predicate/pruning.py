"""Evaluate a predicate for one row, or for all rows of a part from what its marker states."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from firnline.predicate.hashing import LiteralHashes
from firnline.predicate.tree import And, Compare, Equal, In, IsNull, Not, Or, Predicate, bind
from firnline.types.hashes import Hashes
from firnline.types.schema import normalise
from firnline.types.values import Scalar, bound_key, canonical

PartStats = Mapping[str, tuple[Scalar, Scalar, int]]
"""A read-only ``firnline.types.values.Stats``."""
_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: bool(a == b),
    "!=": lambda a, b: bool(a != b),
    "<": lambda a, b: bool(a < b),
    "<=": lambda a, b: bool(a <= b),
    ">": lambda a, b: bool(a > b),
    ">=": lambda a, b: bool(a >= b),
}


class Outcomes(NamedTuple):
    """The results that a predicate may have for the rows of a part; a superset of the real ones."""

    true: bool
    false: bool
    unknown: bool


_ANY = Outcomes(true=True, false=True, unknown=True)
_NOT_TRUE = Outcomes(true=False, false=True, unknown=True)


class _Bounds(NamedTuple):
    """Bounds of the non-null values of a column, as comparable keys."""

    key: Callable[[Any], Any]
    low: Any
    high: Any
    """None if unbounded above."""


def evaluate(tree: Predicate, row: Mapping[str, object], columns: Mapping[str, str]) -> bool | None:
    """Return the predicate's result for one row: True, False, or None for unknown.

    Tests compare DuckDB's result with it, and simulations use it.

    Args:
        tree: any tree.
        row: column -> value; a column that is missing is null.
        columns: the table's schema, column -> SQL type.

    Raises:
        UsageError: see ``predicate.tree.bind``.
        ValueError: a value of the row is not of its column's type.
    """
    return _evaluate(bind(tree, columns), row, columns)


class Pruner:
    """Tests a predicate against statistics and hash ranges of parts; binds and sorts it only once.

    Raises UsageError as ``predicate.tree.bind``.
    """

    def __init__(self, tree: Predicate, columns: Mapping[str, str]) -> None:
        self._tree = bind(tree, columns)
        self._columns = columns
        self._lists: _Lists = {}
        self._literals = LiteralHashes(self._tree, columns)

    def outcomes(self, stats: PartStats, hashes: Hashes = ()) -> Outcomes:
        """Return the possible results for the rows of a part; unreadable statistics are ignored.

        Args:
            stats: of the part, by the table's names.
            hashes: hash ranges of the part, likewise.
        """
        return self._outcomes(self._tree, stats, hashes)

    def matches_nothing(self, stats: PartStats, hashes: Hashes = ()) -> bool:
        """Return True if it is proven that no row of a part satisfies the predicate."""
        return not self.outcomes(stats, hashes).true

    def matches_all(self, stats: PartStats, hashes: Hashes = ()) -> bool:
        """Return True if it is proven that every row of a part satisfies the predicate."""
        outcomes = self.outcomes(stats, hashes)
        return outcomes.true and not outcomes.false and not outcomes.unknown

    def _outcomes(self, tree: Predicate, stats: PartStats, hashes: Hashes) -> Outcomes:
        excluded = bool(hashes) and self._literals.exclude(tree, hashes)
        if isinstance(tree, And | Or):
            if excluded:  # without a look at its arguments, of which there may be 100,000
                return _NOT_TRUE
            args = [self._outcomes(arg, stats, hashes) for arg in tree.args]
            return _joined(args, conjunction=isinstance(tree, And))
        if isinstance(tree, Not):
            inner = self._outcomes(tree.arg, stats, hashes)
            return Outcomes(true=inner.false, false=inner.true, unknown=inner.unknown)
        outcomes = _of_leaf(tree, stats, self._columns, self._lists)
        return outcomes._replace(true=False) if excluded else outcomes


Leaf = Compare | In | IsNull
_Lists = dict[tuple[int, str], list[Any]]
"""(identity of an ``in`` node, type) -> its values as sorted keys."""


def _evaluate(
    tree: Predicate, row: Mapping[str, object], columns: Mapping[str, str]
) -> bool | None:
    if isinstance(tree, And | Or):
        decisive = isinstance(tree, Or)
        answers = {_evaluate(arg, row, columns) for arg in tree.args}
        if decisive in answers:
            return decisive
        return None if None in answers else not decisive
    if isinstance(tree, Not):
        answer = _evaluate(tree.arg, row, columns)
        return None if answer is None else not answer
    value = row.get(tree.column)
    if isinstance(tree, IsNull):
        return value is None
    if value is None:
        return None
    kind = normalise(columns[tree.column])
    key = _key(kind)
    own = key(canonical(kind, value))
    if isinstance(tree, In):
        return any(own == key(literal) for literal in tree.values)
    return _OPERATORS[tree.op](own, key(tree.value))


def _key(kind: str) -> Callable[[Any], Any]:
    key = bound_key(kind)
    if key is None:
        raise ValueError(f"values of type {kind} cannot be compared")
    return key


def _joined(args: Sequence[Outcomes], *, conjunction: bool) -> Outcomes:
    # An argument that is always false decides a conjunction, one always true a disjunction.
    decisive = Outcomes(true=not conjunction, false=conjunction, unknown=False)
    if decisive in args:
        return decisive
    return Outcomes(
        true=(all if conjunction else any)(arg.true for arg in args),
        false=(any if conjunction else all)(arg.false for arg in args),
        unknown=any(arg.unknown for arg in args),
    )


def _of_leaf(tree: Leaf, stats: PartStats, columns: Mapping[str, str], lists: _Lists) -> Outcomes:
    stated = stats.get(tree.column)
    if stated is None:
        return _ANY._replace(unknown=not isinstance(tree, IsNull))
    low, _, nulls = stated
    if isinstance(tree, IsNull):
        return Outcomes(true=nulls > 0, false=low is not None, unknown=False)
    if low is None:
        return Outcomes(true=False, false=False, unknown=nulls > 0)
    kind = normalise(columns[tree.column])
    bounds = _bounds(stats, tree.column, kind)
    if bounds is None:
        return _ANY
    if isinstance(tree, In):
        place = id(tree), kind
        if place not in lists:
            lists[place] = sorted(bounds.key(value) for value in tree.values)
        true, false = _within(lists[place], bounds)
    else:
        true, false = _compare(tree, bounds)
    return Outcomes(true=true, false=false, unknown=nulls > 0)


def _bounds(stats: PartStats, column: str, kind: str) -> _Bounds | None:
    low, high, _ = stats[column]
    key = bound_key(kind)
    if key is None:
        return None
    try:
        # canonical refuses bounds of another type, as a foreign or later writer may write them.
        return _Bounds(
            key, key(canonical(kind, low)), None if high is None else key(canonical(kind, high))
        )
    except (ValueError, TypeError):
        return None


def _compare(tree: Compare, bounds: _Bounds) -> tuple[bool, bool]:
    """Return whether a value within the bounds can make a leaf true, and whether one can false."""
    literal = bounds.key(tree.value)
    below = bounds.low < literal
    not_above = bounds.low <= literal
    above = bounds.high is None or bounds.high > literal
    not_below = bounds.high is None or bounds.high >= literal
    if isinstance(tree, Equal) or tree.op == "!=":
        can, cannot = _equal(literal, bounds)
        return (can, cannot) if isinstance(tree, Equal) else (cannot, can)
    return {
        "<": (below, not_below),
        "<=": (not_above, above),
        ">": (above, not_above),
        ">=": (not_below, below),
    }[tree.op]


def _within(keys: list[Any], bounds: _Bounds) -> tuple[bool, bool]:
    """Return the same for a sorted list, with one binary search."""
    index = bisect_left(keys, bounds.low)
    can = index < len(keys) and (bounds.high is None or bool(keys[index] <= bounds.high))
    return can, not (can and bool(bounds.low == bounds.high))


def _equal(literal: object, bounds: _Bounds) -> tuple[bool, bool]:
    """Return whether a value can equal the literal, and whether one can differ from it."""
    inside = bool(bounds.low <= literal and (bounds.high is None or bounds.high >= literal))
    return inside, not (bounds.low == literal == bounds.high)
