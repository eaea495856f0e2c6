"""The first rows of a read, and the number of all, with no more parts than these need."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pyarrow as pa

from firnline.errors import UsageError
from firnline.read import duckdb
from firnline.read.batches import stream
from firnline.read.duckdb import Limits
from firnline.read.plan import piece_of, units
from firnline.read.task import ReadPart, ReadTask
from firnline.store.base import Store


def head(task: ReadTask, store: Store, limits: Limits, rows: int) -> pa.Table:
    """Return up to ``rows`` rows; fewer only if there are no more.

    Requests: of the parts that surely hold so many rows, else of 1, 2, 4, … at a time.

    Raises:
        UsageError: ``rows`` is below 0.
        others: as ``batches.stream``.
    """
    if rows < 0:
        raise UsageError(f"the number of rows is {rows}", next_step="give 0 or more")
    batches: list[pa.RecordBatch] = []
    schema, left = None, rows
    for piece in _pieces(task, rows) if rows else ():
        reader = stream(piece, store, limits)
        schema = schema or reader.schema
        for batch in reader:
            batches.append(_first(batch, left))
            left -= len(batches[-1])
            if not left:
                return pa.Table.from_batches(batches, schema)
    if schema is None:
        schema = stream(msgspec.structs.replace(task, parts=()), store, limits).schema
    return pa.Table.from_batches(batches, schema)


def count(task: ReadTask, store: Store, limits: Limits) -> int:
    """Return the number of rows.

    Requests: none for the parts of which the log tells it. Errors as ``duckdb.stream``.
    """
    told = [_told(task, part) for part in task.parts]
    left = tuple(part for part, rows in zip(task.parts, told, strict=True) if rows < 0)
    certain = sum(rows for rows in told if rows > 0)
    return certain + (duckdb.count(piece_of(task, left), store, limits) if left else 0)


def _told(task: ReadTask, part: ReadPart) -> int:
    """Return how many rows of a part are visible and wanted by the log alone; -1: it is unknown."""
    if task.where is not None or task.primary_key or part.hidden >= 0:
        return -1
    return part.rows


def _pieces(task: ReadTask, rows: int) -> Iterator[ReadTask]:
    """Yield the read in pieces, until one surely brings the number of rows to ``rows``.

    Parts of which the rows are known come first. Of the others each piece has twice as many as the
    one before, so that rare rows are looked for in many parts at a time.
    """
    first = sorted(task.parts, key=lambda part: _told(task, part) < 0)
    held: list[ReadPart] = []
    known, unknown, most = 0, 0, 1
    for unit in units(msgspec.structs.replace(task, parts=tuple(first))):
        held += unit
        told = [_told(task, part) for part in unit]
        known += sum(max(0, one) for one in told)
        unknown += any(one < 0 for one in told)
        if known >= rows or unknown == most:
            yield piece_of(task, held)
            held, unknown, most = [], 0, 2 * most
    if held:
        yield piece_of(task, held)


def _first(batch: pa.RecordBatch, rows: int) -> pa.RecordBatch:
    """Return the first rows of a batch; a copy where it has more, which would all be kept."""
    return batch if len(batch) <= rows else batch.take(pa.array(range(rows), pa.int64()))
