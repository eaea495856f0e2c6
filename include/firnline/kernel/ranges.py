# ruff: noqa: S608 -- every name and literal is quoted; DuckDB is confined to this task's folder
"""Cuts the rows of a group into key ranges, one output each (``cluster_by``).

Cut points are quantiles of a sample of the keys. Every row is in exactly one range whatever the
cut points are: a range is the number of the first cut point that the row is below, nulls being
above everything. Texts of statements only, nothing runs here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from firnline.kernel.task import KernelTask
from firnline.types.sql import fold_name, quote_name

SAMPLE_ROWS = 20_000
"""Keys a cut is decided on: the error of a range's share is about 1 %."""
RANK_BITS = 6
"""Per column of a z-order: 64 ranks, so that 2 columns tell 4,096 cells apart. More would cost
DuckDB more time in planning than they save in reading."""

SAMPLE = "firnline_sample"

Cut = tuple[str | None, ...]
"""One value per key column, as text."""


@dataclass(frozen=True, slots=True)
class Keys:
    """What rows are clustered by."""

    names: tuple[str, ...]
    """Of the key columns."""
    types: tuple[str, ...]
    made: str | None = None
    """Expression that makes the one key column; None: they are columns of the table."""

    def rows(self, rows: str) -> str:
        """Rows with their key columns."""
        if self.made is None:
            return rows
        return f"SELECT *, {self.made} AS {quote_name(self.names[0])} FROM ({rows})"

    @property
    def order(self) -> str:
        """What stands behind ORDER BY."""
        return ", ".join(f"{quote_name(name)} ASC NULLS LAST" for name in self.names)


def free_name(task: KernelTask, wish: str) -> str:
    """A column name that the table does not have."""
    taken = {fold_name(name) for name, _ in task.columns}
    while wish in taken:
        wish += "_"
    return wish


def take_sample(columns: Sequence[str], rows: str) -> str:
    """Statement that keeps some rows of a query, by chance, as the table ``SAMPLE``."""
    listed = ", ".join(map(quote_name, columns))
    return (
        f"CREATE TEMP TABLE {SAMPLE} AS SELECT {listed} FROM ({rows})"
        f" USING SAMPLE reservoir({SAMPLE_ROWS} ROWS) REPEATABLE (1)"
    )


def cut_points(names: Sequence[str], rows: str, count: int) -> str:
    """Query for the ``count - 1`` cut points that make ``count`` equal shares of a sample.

    Args:
        names: key columns.
        rows: the sample, with these columns.
        count: ranges.
    """
    keys = ", ".join(map(quote_name, names))
    order = ", ".join(f"{quote_name(name)} ASC NULLS LAST" for name in names)
    texts = ", ".join(f"CAST({quote_name(name)} AS VARCHAR)" for name in names)
    share = f"number * {count} // total"
    return (
        f"WITH ranked AS (SELECT {keys}, row_number() OVER (ORDER BY {order}) - 1 AS number,"
        f" count(*) OVER () AS total FROM ({rows}))"
        f" SELECT {texts} FROM ranked"
        f" WHERE number > 0 AND {share} > (number - 1) * {count} // total ORDER BY number"
    )


def distinct(cuts: Sequence[Cut]) -> list[Cut]:
    """Cut points without those that repeat the one before: no row would lie between."""
    return list(dict.fromkeys(cuts))


def range_number(keys: Keys, cuts: Sequence[Cut]) -> str:
    """Expression for the range of a row, 0 to ``len(cuts)``."""
    cases = " ".join(
        f"WHEN NOT {_at_or_above(keys.names, keys.types, cut)} THEN {number}"
        for number, cut in enumerate(cuts)
    )
    return f"CASE {cases} ELSE {len(cuts)} END" if cuts else "0"


def z_order(columns: Sequence[tuple[str, str]], cuts: Sequence[Sequence[Cut]]) -> str:
    """Expression that interleaves the bits of the columns' ranks, the first column's on top.

    Args:
        columns: (name, type) of each.
        cuts: for each the cut points between its ranks.
    """
    count = len(columns)
    pieces = [
        _rank(name, kind, [cut[0] for cut in points if cut[0] is not None], count, place)
        for place, ((name, kind), points) in enumerate(zip(columns, cuts, strict=True))
    ]
    return f"CAST({' + '.join(pieces)} AS BIGINT)"


def _rank(name: str, kind: str, cuts: Sequence[str], count: int, place: int) -> str:
    """The spread bits of a value's rank: a binary search among the cut points."""
    top = (1 << RANK_BITS) - 1

    def leaf(rank: int) -> int:
        scaled = rank * top // len(cuts) if cuts else 0
        return sum(
            (scaled >> bit & 1) << (bit * count + count - 1 - place) for bit in range(RANK_BITS)
        )

    def search(low: int, high: int) -> str:
        if low == high:
            return str(leaf(low))
        middle = (low + high + 1) // 2
        above, below = search(middle, high), search(low, middle - 1)
        bound = literal(cuts[middle - 1], kind)
        return f"CASE WHEN {quote_name(name)} >= {bound} THEN {above} ELSE {below} END"

    nulls = sum(1 << (bit * count + count - 1 - place) for bit in range(RANK_BITS))
    return f"CASE WHEN {quote_name(name)} IS NULL THEN {nulls} ELSE {search(0, len(cuts))} END"


def _at_or_above(names: Sequence[str], types: Sequence[str], cut: Cut) -> str:
    """Whether a row's key is at or above a cut point; true or false, never null."""
    if not names:
        return "true"
    column, rest = quote_name(names[0]), _at_or_above(names[1:], types[1:], cut[1:])
    if cut[0] is None:
        return f"({column} IS NULL AND {rest})"
    value = literal(cut[0], types[0])
    return f"({column} IS NULL OR {column} > {value} OR ({column} = {value} AND {rest}))"


def literal(text: str, kind: str) -> str:
    """A value from its text."""
    # A NUL ends the statement for DuckDB's parser.
    pieces = ["'" + piece.replace("'", "''") + "'" for piece in text.split("\0")]
    return f"CAST(({' || chr(0) || '.join(pieces)}) AS {kind})"
