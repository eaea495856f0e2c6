# ruff: noqa: S608 -- every name and path is quoted; DuckDB is confined to this task's folder
"""What a file just written holds: rows and statistics for its marker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow.parquet as pq

from firnline.kernel.inputs import scan
from firnline.parquet.stats import from_footer, from_table
from firnline.types.sql import quote_name
from firnline.types.values import Stats


@dataclass(frozen=True, slots=True)
class Written:
    """A finished output on local disk."""

    path: Path
    bytes: int
    rows: int
    """By its own footer, not by what was meant to be written."""
    stats: Stats


def describe(
    connection: duckdb.DuckDBPyConnection, path: Path, stats_columns: Sequence[str]
) -> Written:
    """Rows and statistics of an output, from its footer and where that is silent by a query."""
    footer = pq.read_metadata(path)
    stats = from_footer(footer, stats_columns)
    silent = [name for name in stats_columns if name not in stats]
    if silent:
        stats |= _queried(connection, path, silent)
    return Written(path, path.stat().st_size, footer.num_rows, stats)


def _queried(connection: duckdb.DuckDBPyConnection, path: Path, columns: Sequence[str]) -> Stats:
    """Floats (a footer does not say whether there are NaNs) and texts too long for a footer.

    The extremes go through the same code as the rows of an append: one place knows which bounds
    have a form in the log. NaN is DuckDB's greatest float, so an extreme shows it.
    """
    stats: Stats = {}
    for name in columns:
        column, source = quote_name(name), scan([path])
        kind = connection.execute(f"DESCRIBE SELECT {column} FROM {source}").fetchall()[0][1]
        if any(mark in kind for mark in "[(") and not kind.startswith("DECIMAL"):
            continue  # nested: no bounds, and perhaps no order
        nulls = connection.execute(f"SELECT count(*) - count({column}) FROM {source}").fetchall()
        extremes = connection.sql(
            f"SELECT min({column}) AS {column} FROM {source}"
            f" UNION ALL SELECT max({column}) FROM {source}"
        ).to_arrow_table()
        for found, (low, high, _) in from_table(extremes, [name]).items():
            stats[found] = (low, high, nulls[0][0])
    return stats
