"""One slice of a group: the rows of its key ranges; other tasks merge the rest.

A task reads the row groups that may hold its rows. They hold others too, so every scan has the
condition of the ranges (``kernel.cuts``), and rows are counted by it: the slices of a group
together have each row once, whatever the statistics of its inputs say.
"""

from __future__ import annotations

from collections.abc import Mapping

from firnline.kernel.cuts import Keys, band
from firnline.kernel.task import Slice
from firnline.types.sql import fold_name


def rows_within(rows: str, wanted: Slice | None, types: Mapping[str, str]) -> str:
    """Return a query's rows that are in a slice; all of them without one.

    Args:
        rows: a query.
        wanted: the slice.
        types: DuckDB's type by column of the query.
    """
    if wanted is None:
        return rows
    kinds = {fold_name(name): (name, kind) for name, kind in types.items()}
    conditions: list[str] = []
    for each in wanted.ranges:
        column, kind = kinds[fold_name(each.column)]
        low, high = (None if end is None else (end,) for end in (each.low, each.high))
        conditions.append(band(Keys((column,), (kind,)), low, high))
    return f"SELECT * FROM ({rows}) WHERE {' AND '.join(conditions)}"  # noqa: S608 -- quoted by ``band``
