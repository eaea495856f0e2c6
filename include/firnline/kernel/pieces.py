"""Decide whether a group is sorted in pieces: key ranges that each fit into memory.

A sort that does not fit spills all of its rows to disk and merges them from there. Ranges that fit
are sorted one after the other in memory, and what they write is joined row group by row group
(``parquet.join``). Rows that would have to be written to files of their ranges first are left to
one sort if their keys have a fixed width. docs/rfcs/0007 and 0009 have the measurements.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile
from pathlib import Path

import duckdb

from firnline.kernel.duckdb import MEMORY_SHARE, quote_list
from firnline.kernel.ranges import Spreader
from firnline.kernel.sort_codes import has_fixed_width
from firnline.kernel.task import Cluster, KernelTask
from firnline.types.schema import normalise
from firnline.types.sql import fold_name
from firnline.types.values import bound_key

# ruff: noqa: S608 -- every name and path is quoted; DuckDB is confined to this task's folder

_SORT_FACTOR = 1.5
"""Bytes that a sort needs in memory for each byte of its rows."""
_HEADROOM = 1.5
"""Pieces are made this much smaller than memory: they differ in size, and so do rows."""
_TEXT_BYTES = 16
"""Bytes of a text in memory besides its characters."""
_FIXED_BYTES = 8
_MOST_PIECES = 512
_ROWS_OF_A_RUN = 2048
"""Rows of each sorted run that a sort on disk holds in memory, for every thread."""
_RUNS_SHARE = 1 / 4
"""Fraction of DuckDB's memory that these rows may take."""


def sort_in_pieces(
    task: KernelTask,
    connection: duckdb.DuckDBPyConnection,
    folder: Path,
    stop_if_asked: Callable[[], None],
    codes: Mapping[str, str],
    staged: Sequence[Path],
) -> Spreader | None:
    """Return what splits the rows into pieces; None if they are sorted at once.

    Args:
        task: the group.
        connection: its database.
        folder: its scratch folder.
        stop_if_asked: raises if the task was told to stop.
        codes: see ``sort_codes``.
        staged: the inputs.
    """
    types = {fold_name(name): kind for name, kind in task.columns}
    # Cut points are values of the leading columns that have an order as text.
    keys = list(
        takewhile(
            lambda key: bound_key(normalise(types[fold_name(key.column)])) is not None,
            task.sort_by,
        )
    )
    # A query has used the inputs up; what finds the winners of keys would run twice.
    if not keys or task.query is not None or task.primary_key:
        return None
    size, rows = _size(connection, staged)
    count = _pieces(task, size)
    if count == 1:
        return None
    cluster = Cluster(method="range", columns=tuple(key.column for key in keys), outputs=count)
    descending = tuple(key.descending for key in keys)
    common = task, cluster, connection, folder, stop_if_asked, codes
    at_once = has_fixed_width(task, codes) and runs_fit(task, size / max(rows, 1), count)
    return Spreader(*common, descending, pieces=True, at_once=at_once)


def _pieces(task: KernelTask, size: int) -> int:
    """Return the number of pieces; 1 if rows of so many bytes fit into memory."""
    needed = size * _SORT_FACTOR
    limit = task.memory * MEMORY_SHARE
    if needed <= limit:
        return 1
    return min(_MOST_PIECES, int(needed * _HEADROOM / limit) + 1)


def runs_fit(task: KernelTask, row_bytes: float, runs: int) -> bool:
    """Return True if a sort on disk has memory for what it holds of each run.

    Args:
        task: the group.
        row_bytes: mean size of a row in memory.
        runs: number of sorted runs on disk; pieces are smaller than runs, so there are fewer.
    """
    held = _ROWS_OF_A_RUN * task.threads * row_bytes * runs
    return held <= task.memory * MEMORY_SHARE * _RUNS_SHARE


def _size(connection: duckdb.DuckDBPyConnection, staged: Sequence[Path]) -> tuple[int, int]:
    """Return about how many bytes the rows of files take in memory, and how many there are."""
    text = "type = 'BYTE_ARRAY'"
    size, rows = connection.execute(
        f"SELECT sum(num_values * CASE WHEN {text} THEN {_TEXT_BYTES} ELSE {_FIXED_BYTES} END"
        f" + CASE WHEN {text} THEN total_uncompressed_size ELSE 0 END),"
        " sum(row_group_num_rows) FILTER (column_id = 0)"
        f" FROM parquet_metadata({quote_list(list(staged))})"
    ).fetchall()[0]
    return int(size or 0), int(rows or 0)
