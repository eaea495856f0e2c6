# ruff: noqa: S608 -- columns are numbered here, names are quoted, rows are a plan's own text
"""The difference between two reads of the same columns, by content: what goes, comes and changes.

Equal rows cancel out first, as often as they occur on both sides (``multiset``). What is left is
matched by key where there is one: a row of either side with the same key is one row that changes.
If several rows of one side have a key, they are matched in the order of their other values.

Memory is that of ``Limits``: aggregates, sorts and the rows that differ spill to its folder.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from firnline.read.duckdb import Connection, Limits, faults, relation
from firnline.read.multiset import differing, value_differs
from firnline.read.task import ReadTask
from firnline.store.base import Store
from firnline.types.sql import fold_name, quote_name

_TEXT = 200
"""Characters of a value in a sample."""
Texts = tuple[str | None, ...]
_KINDS = ("was AND is_now", "was AND NOT is_now", "is_now AND NOT was")
"""Conditions on ``pairs``: changed, removed, added."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A row of the difference; values as text in the order of the columns, cut to 200 letters."""

    before: Texts | None
    after: Texts | None
    differs: tuple[bool, ...] = ()
    """For a row that changes, True for each column with another value, whatever its text shows."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Numbers of rows, and changed values by column; a few rows."""

    rows_before: int
    rows_after: int
    removed: int
    added: int
    changed: int
    columns: dict[str, int]
    shown: tuple[Shown, ...]


def difference(
    connection: Connection,
    before: ReadTask,
    after: ReadTask,
    store: Store,
    limits: Limits,
    *,
    keys: Sequence[str],
    samples: int,
) -> Difference:
    """Compare two reads.

    Args:
        connection: of ``open_connection``; holds two temporary tables meanwhile.
        before: rows before.
        after: rows after, of the same columns.
        store: of their parts.
        limits: those of the connection.
        keys: columns that match rows of both sides; none: no row changes.
        samples: rows to return at most of each kind.

    Raises as ``read.duckdb.stream``.
    """
    names = [name for name, _ in before.columns]
    folded = {fold_name(name): number for number, name in enumerate(names)}
    numbers = [folded[fold_name(key)] for key in keys]
    with faults(connection, limits):
        sides = [relation(task, store, connection).sql_query() for task in (before, after)]
        rows = [_one(connection, f"SELECT count(*) FROM ({side})")[0] for side in sides]
        connection.execute(_delta(before.columns, *sides))
        connection.execute(_pairs(len(names), numbers))
        types = [kind for _, kind in before.columns]
        counts = _one(connection, _figures(types))
        shown = [row for kind in _KINDS for row in _samples(connection, types, kind, samples)]
        connection.execute("DROP TABLE pairs")
    changes = dict(zip(names, counts[3:], strict=True))
    return Difference(rows[0], rows[1], counts[0], counts[1], counts[2], changes, tuple(shown))


def _one(connection: Connection, query: str) -> tuple[int, ...]:
    return tuple(int(value or 0) for value in connection.execute(query).fetchall()[0])


def _delta(columns: Sequence[tuple[str, str]], before: str, after: str) -> str:
    """Return the rows that differ: columns ``c0``, ``c1``, …, and ``w``, how often they come."""
    named = ", ".join(f"{quote_name(name)} AS c{n}" for n, (name, _) in enumerate(columns))
    left, right = ([f"SELECT {named} FROM ({side})"] for side in (before, after))
    numbered = [(f"c{n}", kind) for n, (_, kind) in enumerate(columns)]
    return f"CREATE OR REPLACE TEMP TABLE delta AS {differing(numbered, left, right, 'w')}"


def _pairs(width: int, keys: Sequence[int]) -> str:
    """Return one row per row that goes, comes or changes: ``b0``, … before and ``a0``, … after."""
    each = [f"c{n}" for n in range(width)]
    all_columns = ", ".join(each)
    one = f"SELECT {all_columns}, w > 0 AS new FROM delta, range(abs(w))"
    if not keys:
        sides = ", ".join(
            f"CASE WHEN {side} THEN c{n} END AS {letter}{n}"
            for side, letter in (("NOT new", "b"), ("new", "a"))
            for n in range(width)
        )
        made = f"SELECT NOT new AS was, new AS is_now, {sides} FROM ({one})"
        return f"CREATE OR REPLACE TEMP TABLE pairs AS {made}"
    key = ", ".join(f"c{n}" for n in keys)
    sides = ", ".join(
        f"first(c{n}) FILTER ({side}) AS {letter}{n}"
        for side, letter in (("NOT new", "b"), ("new", "a"))
        for n in range(width)
    )
    numbered = (
        f"SELECT *, row_number() OVER (PARTITION BY {key}, new ORDER BY {all_columns}) AS r "
        f"FROM ({one})"
    )
    return (
        "CREATE OR REPLACE TEMP TABLE pairs AS SELECT bool_or(NOT new) AS was, bool_or(new) AS "
        f"is_now, {sides} FROM ({numbered}) GROUP BY {key}, r"
    )


def _figures(types: Sequence[str]) -> str:
    kinds = [f"count(*) FILTER ({kind})" for kind in (_KINDS[1], _KINDS[2], _KINDS[0])]
    columns = [
        f"count(*) FILTER ({_KINDS[0]} AND {value_differs(f'a{n}', f'b{n}', kind)})"
        for n, kind in enumerate(types)
    ]
    return f"SELECT {', '.join([*kinds, *columns])} FROM pairs"


def _samples(connection: Connection, types: Sequence[str], which: str, most: int) -> list[Shown]:
    if not most:
        return []
    width = len(types)
    names = [f"{letter}{n}" for letter in "ba" for n in range(width)]
    columns = [f"left(CAST({name} AS VARCHAR), {_TEXT})" for name in names]
    columns += [value_differs(f"b{n}", f"a{n}", kind) for n, kind in enumerate(types)]
    rows = connection.execute(
        f"SELECT was, is_now, {', '.join(columns)} FROM pairs WHERE {which}"
        f" ORDER BY ALL LIMIT {most}"
    ).fetchall()
    return [
        Shown(
            tuple(row[2 : 2 + width]) if row[0] else None,
            tuple(row[2 + width : 2 + 2 * width]) if row[1] else None,
            tuple(row[2 + 2 * width :]) if row[0] and row[1] else (),
        )
        for row in rows
    ]
