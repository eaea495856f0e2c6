"""The digest of the rows of a Parquet file, read by Arrow in bounded memory.

Memory: a buffer of 1 MiB for each column, and batches of about 8 MiB, which are given back at the
end. What DuckDB has written is read by another library than its own.
"""

# ruff: noqa: TID253 - rows are handled here; no DAG file imports it at parse

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterator
from contextlib import closing
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from firnline.cores import Cores, side_by_side
from firnline.parquet.io import UNREADABLE, chunks_of, is_coded, rows_at_once, unreadable
from firnline.types.digests import Digest, total
from firnline.types.rowhash import BATCH_ROWS, RowDigest, can_digest
from firnline.types.sql import fold_name

_FORM: dict[str, Any] = {
    "pre_buffer": False,
    "buffer_size": 2**20,
    "coerce_int96_timestamp_unit": "us",
}
"""A row group of any size is read one buffer at a time; old timestamps are in microseconds, as
DuckDB reads them."""
_READING_BYTES = 16 * 2**20
"""Bytes of a batch, with what is computed of it."""
_Reading = tuple[list[int], list[str]]
"""Row groups that follow each other, and the texts that are read as codes in all of them."""


def never_asked() -> None:
    """Do nothing; for readers that nobody stops."""


def digest_file(
    path: Path | str,
    only: Collection[str] | None = None,
    *,
    stop_if_asked: Callable[[], None] = never_asked,
    seen: Callable[[pa.RecordBatch], None] | None = None,
    cores: Cores | None = None,
    memory: int = 0,
) -> tuple[Digest, int] | None:
    """Return the digest of all rows of a file, and their number.

    Args:
        path: a local file.
        only: columns that count, by ``fold_name``; None: all.
        stop_if_asked: called before each batch; raises if the reading has to end.
        seen: called with each batch, which may have texts as dictionaries; in several threads.
        cores: lends idle cores, which read row groups side by side; None: one thread.
        memory: bytes that these may take together.

    Returns None if a column has a type without a digest.

    Raises PartUnreadableError: the file is not Parquet, or damaged.
    """
    try:
        with pq.ParquetFile(path, **_FORM) as file:
            schema, metadata, readings = file.schema_arrow, file.metadata, list(_readings(file))
        names = [name for name in schema.names if only is None or fold_name(name) in only]
        if not all(can_digest(schema.field(name).type) for name in names):
            return None

        def read(reading: _Reading) -> RowDigest:
            digest = RowDigest()
            with closing(_batches(path, metadata, reading, names)) as batches:
                for batch in batches:
                    stop_if_asked()
                    if seen is not None:
                        seen(batch)
                    digest.add(batch)
            return digest

        idle = Cores() if cores is None else cores
        if idle.idle >= 1:
            readings = [([group], texts) for groups, texts in readings for group in groups]
        each = reading_bytes(metadata.num_columns)
        found = side_by_side([(reading, each) for reading in readings], read, idle, memory)
    except UNREADABLE as error:
        raise unreadable(str(path), error) from error
    finally:
        # Arrow's allocator keeps several times what it needed, and DuckDB's memory comes on top.
        pa.default_memory_pool().release_unused()
    # Of a file without columns there are no batches.
    rows = sum(digest.rows for digest in found) if names else metadata.num_rows
    return total(digest.digest for digest in found), rows


def reading_bytes(columns: int) -> int:
    """Return the memory that ``digest_file`` takes on one core for a file of so many columns."""
    return columns * int(_FORM["buffer_size"]) + _READING_BYTES


def _batches(
    path: Path | str, metadata: pq.FileMetaData, reading: _Reading, names: list[str]
) -> Generator[pa.RecordBatch]:
    groups, texts = reading
    form = {**_FORM, "metadata": metadata, "read_dictionary": texts}
    with pq.ParquetFile(path, **form) as file:
        # A name in ``columns`` may be the beginning of others.
        columns = None if len(names) == len(file.schema_arrow) else names
        rows = rows_at_once(metadata, groups, BATCH_ROWS)
        for batch in file.iter_batches(rows, groups, columns, use_threads=False):
            yield batch if columns is None else batch.select(names)


def _readings(file: pq.ParquetFile) -> Iterator[_Reading]:
    """Yield all row groups, with the texts to read as codes of their dictionaries.

    Decoded, a few long values in many rows would be many times what pages and batches hold.
    """
    # Nested texts are decoded: Arrow reads no codes of theirs across row groups.
    schema = map(file.schema.column, range(len(file.schema)))
    texts = {c.path for c in schema if c.path == c.name and c.physical_type == "BYTE_ARRAY"}

    def coded(number: int) -> list[str]:
        chunks = chunks_of(file.metadata, [number])
        return [c.path_in_schema for c in chunks if c.path_in_schema in texts and is_coded(c)]

    for names, groups in groupby(range(file.metadata.num_row_groups), coded):
        yield list(groups), names
