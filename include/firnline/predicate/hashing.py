"""Exclude parts by the hashes of literals: which rows a condition can be true for.

A row for which ``id = 5`` is true has the hash of 5 in ``id``, so a part whose hash range does not
hold it has no such row. Literals are hashed by the code that hashes the rows of a part
(``types.murmur3``). A literal that cannot be hashed, a range of hashes of other bytes (the column
was widened since) and a condition that names no values exclude nothing.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from math import prod

from firnline.predicate.tree import And, Equal, In, Not, Or, Predicate
from firnline.types.hashes import BUCKET_MASK, Hashes, HashRange
from firnline.types.schema import normalise
from firnline.types.values import Scalar

MAX_ROWS = 10_000
"""Combinations of values of several columns that are hashed; beyond them nothing is excluded."""

Values = Mapping[str, tuple[Scalar, ...]]
"""Column -> values of which a row has one where a condition is true."""


def values_of(tree: Predicate) -> Values:
    """Return the columns that have to equal one of some literals for a bound tree to be true."""
    if isinstance(tree, Equal):
        return {tree.column: (tree.value,)}
    if isinstance(tree, In):
        return {tree.column: tree.values}
    if isinstance(tree, And):
        shortest: dict[str, tuple[Scalar, ...]] = {}
        for arg in tree.args:
            for column, values in values_of(arg).items():
                shortest[column] = min(shortest.get(column, values), values, key=len)
        return shortest
    if isinstance(tree, Or):
        args = [values_of(arg) for arg in tree.args]
        shared = set.intersection(*(set(arg) for arg in args))
        return {column: tuple(v for arg in args for v in arg[column]) for column in shared}
    return {}


class LiteralHashes:
    """Tests the nodes of a tree against the hash ranges of many parts; hashes literals only once.

    Args:
        tree: a bound tree.
        columns: the table's schema, column -> SQL type.
    """

    def __init__(self, tree: Predicate, columns: Mapping[str, str]) -> None:
        self._tree = tree
        self._columns = columns
        self._by_column: dict[tuple[str, str], dict[Scalar, int] | None] = {}
        self._by_node: dict[tuple[object, ...], list[int] | None] = {}

    def exclude(self, node: Predicate, ranges: Hashes) -> bool:
        """Return True if a node of the tree is true for no row of a part with these ranges.

        Args:
            node: the tree, or one below it.
            ranges: with the columns' names in the table.
        """
        return any(self._excludes(node, each) for each in ranges)

    def _excludes(self, node: Predicate, each: HashRange) -> bool:
        place = (id(node), *each.about)
        if place not in self._by_node:
            self._by_node[place] = self._hashes(values_of(node), each)
        hashes = self._by_node[place]
        if hashes is None:
            return False
        bounds = each.bounds
        if bounds is None:
            return True
        at = bisect_left(hashes, bounds[0])
        return at == len(hashes) or hashes[at] > bounds[1]

    def _hashes(self, values: Values, each: HashRange) -> list[int] | None:
        """Return the sorted hashes of all rows that may match; None if they are not known."""
        lists: list[list[int]] = []
        for column, form in zip(each.columns, each.forms, strict=True):
            of_column = self._of_column(column, form) if column in values else None
            if of_column is None:
                return None
            lists.append([of_column[value] for value in values[column]])
        if len(lists) > 1 and prod(map(len, lists)) > MAX_ROWS:
            return None
        hashes = lists[0] if len(lists) == 1 else _of_rows(lists)
        if each.buckets:
            hashes = [(value & BUCKET_MASK) % each.buckets for value in hashes]
        return sorted(set(hashes))

    def _of_column(self, column: str, form: str) -> dict[Scalar, int] | None:
        """Return the hashes of all literals that the tree compares a column with."""
        from firnline.types.murmur3 import form_of_sql, hash_literals

        place = (column, form)
        if place not in self._by_column:
            kind = normalise(self._columns.get(column, ""))
            literals = list(dict.fromkeys(_literals(self._tree, column)))
            hashes = hash_literals(kind, literals) if form_of_sql(kind) == form else None
            self._by_column[place] = (
                None if hashes is None else dict(zip(literals, hashes.tolist(), strict=True))
            )
        return self._by_column[place]


def _literals(tree: Predicate, column: str) -> Iterator[Scalar]:
    if isinstance(tree, And | Or):
        for arg in tree.args:
            yield from _literals(arg, column)
    elif isinstance(tree, Not):
        yield from _literals(tree.arg, column)
    elif isinstance(tree, In) and tree.column == column:
        yield from tree.values
    elif isinstance(tree, Equal) and tree.column == column:
        yield tree.value


def _of_rows(columns: Sequence[list[int]]) -> list[int]:
    """Return the hashes of all combinations of the columns' hashes."""
    import numpy as np

    from firnline.types.murmur3 import combine_hashes

    grid = np.meshgrid(*(np.array(hashes, np.uint32) for hashes in columns), indexing="ij")
    combined: list[int] = combine_hashes([axis.ravel() for axis in grid]).tolist()
    return combined
