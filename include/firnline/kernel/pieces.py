"""Decide whether a group is sorted in pieces: key ranges that each fit into memory.

A sort that does not fit spills all of its rows to disk and merges them from there. Ranges that fit
are sorted one after the other in memory, and what they write is joined row group by row group
(``parquet.join``). docs/rfcs/0007 has the measurements.
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
    count = _pieces(task, connection, staged)
    if count == 1:
        return None
    cluster = Cluster(method="range", columns=tuple(key.column for key in keys), outputs=count)
    descending = tuple(key.descending for key in keys)
    common = task, cluster, connection, folder, stop_if_asked, codes
    return Spreader(*common, descending, pieces=True, at_once=has_fixed_width(task, codes))


def _pieces(task: KernelTask, connection: duckdb.DuckDBPyConnection, staged: Sequence[Path]) -> int:
    """Return the number of pieces; 1 if the rows fit into memory."""
    needed = _row_bytes(connection, staged) * _SORT_FACTOR
    limit = task.memory * MEMORY_SHARE
    if needed <= limit:
        return 1
    return min(_MOST_PIECES, int(needed * _HEADROOM / limit) + 1)


def _row_bytes(connection: duckdb.DuckDBPyConnection, staged: Sequence[Path]) -> int:
    """Return about how many bytes the rows of files take in memory, from their footers."""
    text = "type = 'BYTE_ARRAY'"
    found = connection.execute(
        f"SELECT sum(num_values * CASE WHEN {text} THEN {_TEXT_BYTES} ELSE {_FIXED_BYTES} END"
        f" + CASE WHEN {text} THEN total_uncompressed_size ELSE 0 END)"
        f" FROM parquet_metadata({quote_list(list(staged))})"
    ).fetchall()
    return int(found[0][0] or 0)
