"""The rows of parts that deletes hide, by their places: for readers that do not know deletes.

Which deletes may hide rows of a part is decided by the state (``Snapshot.pending_deletes``), and
which rows these are by the conditions of ``kernel.visibility``, as for every read and merge.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from firnline.read.duckdb import Connection, Limits, checked, faults, files_of, open_connection
from firnline.read.sql import count_query, hidden_query
from firnline.read.task import ReadPart, ReadTask
from firnline.store.base import Store

Rows = npt.NDArray[np.int64]
"""Row numbers of a part, ascending, each once."""
BATCH_BYTES, BATCH_PARTS = 64 * 2**20, 256
"""Parts that are looked through at once; a larger one alone."""


def hidden_rows(
    task: ReadTask, store: Store, limits: Limits, uncounted: Container[str] = ()
) -> Iterator[tuple[ReadPart, Rows, int | None]]:
    """Yield each part with the numbers of its rows that deletes hide, in any order of the parts.

    Requests: those of a read of the conditions' columns; row groups that their statistics exclude
    are not fetched. Memory: that of DuckDB, and 32 bytes for each row that is hidden in one batch,
    which is a part, or parts of ``BATCH_BYTES`` together.

    Args:
        task: see ``plan.plan_hidden``.
        store: of the table.
        limits: of DuckDB.
        uncounted: keys of parts of which all rows are to be counted, too.

    Returns:
        The part, the numbers ascending from 0, and the number of all rows if it was asked for.

    Raises: as ``stream``, and UsageError: a condition is about a column with a name that DuckDB
    needs for the place of a row.
    """
    for batch in _batches(task.parts):
        connection = open_connection(limits)
        try:
            with faults(connection, limits, (task, store)):
                yield from _hidden_in(task, batch, store, connection, uncounted)
        finally:
            connection.close()


def _batches(parts: Sequence[ReadPart]) -> Iterator[list[ReadPart]]:
    held: list[ReadPart] = []
    size = 0
    for part in parts:
        if held and (size + part.bytes > BATCH_BYTES or len(held) >= BATCH_PARTS):
            yield held
            held, size = [], 0
        held.append(part)
        size += part.bytes
    if held:
        yield held


def _hidden_in(
    task: ReadTask,
    parts: Sequence[ReadPart],
    store: Store,
    connection: Connection,
    uncounted: Container[str],
) -> Iterator[tuple[ReadPart, Rows, int | None]]:
    files = files_of(connection)
    placed = checked(task, connection, placed=True)
    number = files.add(store)
    urls = {files.url(number, part): part for part in parts}
    places = connection.sql(hidden_query(placed, urls)).to_arrow_table()
    hidden: dict[str, Rows] = {
        url: np.sort(np.asarray(rows.values))
        for url, rows in zip(places[0].to_pylist(), places[1], strict=True)
    }
    asked = [url for url, part in urls.items() if part.key in uncounted]
    counts: dict[str, int] = {}
    if asked:
        counts = dict(connection.sql(count_query(placed, asked)).fetchall())
    for url, part in urls.items():
        rows = hidden.get(url, np.zeros(0, np.int64))
        yield part, rows, counts.get(url, 0) if url in asked else None
