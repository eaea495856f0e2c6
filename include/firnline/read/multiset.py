"""The multiset difference of rows in DuckDB: those that one side has more often than the other.

Rows are equal where their digests are (docs/format.md, "Digests of rows"): nulls equal each other,
every NaN equals every other, and -0.0 is not 0.0. SQL takes the two zeros for equal, so floats are
told apart by their text besides; that of a NaN may have a sign, which does not count. No digest
stands in for a value. DuckDB spills the counting to disk beyond its memory.
"""

# ruff: noqa: S608 -- every name is quoted; rows are a plan's own text

from __future__ import annotations

from collections.abc import Sequence

from firnline.types.sql import quote_name

_FLOATS = ("FLOAT", "DOUBLE", "REAL")


def differing(
    columns: Sequence[tuple[str, str]], before: Sequence[str], after: Sequence[str], count: str
) -> str:
    """Return the SELECT of the rows that differ, each once.

    Args:
        columns: (name, SQL type) of the columns, by all of which rows are compared.
        before: SELECTs whose rows together are one side.
        after: those of the other side.
        count: name of the column to add: how many more of the row there are after; below 0, before.
    """
    listed = ", ".join(quote_name(name) for name, _ in columns)
    told_apart = ", ".join(part for name, kind in columns for part in _told_apart(name, kind))
    weight = quote_name(count)
    sides = " UNION ALL ".join(
        f"SELECT {listed}, {sign} AS {weight} FROM ({rows})"
        for sign, reads in ((-1, before), (1, after))
        for rows in reads
    )
    return (
        f"SELECT {listed}, CAST(sum({weight}) AS BIGINT) AS {weight} FROM ({sides})"
        f" GROUP BY {told_apart} HAVING sum({weight}) <> 0"
    )


def value_differs(one: str, other: str, kind: str) -> str:
    """Return the condition that two columns of a type have different values."""
    pairs = zip(_told_apart(one, kind), _told_apart(other, kind), strict=True)
    return f"({' OR '.join(f'{a} IS DISTINCT FROM {b}' for a, b in pairs)})"


def _told_apart(name: str, kind: str) -> list[str]:
    """Return the expressions that are equal for equal values of a column only."""
    column = quote_name(name)
    if not any(one in kind.upper() for one in _FLOATS):
        return [column]
    return [column, f"replace(CAST({column} AS VARCHAR), '-nan', 'nan')"]
