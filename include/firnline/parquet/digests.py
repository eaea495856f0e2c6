"""The digest of the rows of a Parquet file, read by Arrow in bounded memory.

Memory: a buffer of 1 MiB for each column, and batches of about 8 MiB, which are given back at the
end. What DuckDB has written is read by another library than its own.
"""

# ruff: noqa: TID253 - rows are handled here; no DAG file imports it at parse

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from contextlib import closing
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from firnline.parquet.io import UNREADABLE, chunks_of, rows_at_once, unreadable
from firnline.types.digests import Digest
from firnline.types.rowhash import BATCH_ROWS, RowDigest, can_digest
from firnline.types.sql import fold_name

_FORM: dict[str, Any] = {
    "pre_buffer": False,
    "buffer_size": 2**20,
    "coerce_int96_timestamp_unit": "us",
}
"""A row group of any size is read one buffer at a time; old timestamps are in microseconds, as
DuckDB reads them."""
_CODE_BYTES = 4
"""Bytes of a code of a dictionary at most, in pages."""
_DICTIONARY_BYTES = 2**20
"""Bytes of a dictionary at most: writers do without one that would be larger."""
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
) -> tuple[Digest, int] | None:
    """Return the digest of all rows of a file, and their number.

    Args:
        path: a local file.
        only: columns that count, by ``fold_name``; None: all.
        stop_if_asked: called before each batch; raises if the reading has to end.
        seen: called with each batch, which may have texts as dictionaries.

    Returns None if a column has a type without a digest.

    Raises PartUnreadableError: the file is not Parquet, or damaged.
    """
    try:
        with pq.ParquetFile(path, **_FORM) as file:
            schema, metadata, readings = file.schema_arrow, file.metadata, list(_readings(file))
        names = [name for name in schema.names if only is None or fold_name(name) in only]
        if not all(can_digest(schema.field(name).type) for name in names):
            return None
        digest = RowDigest()
        with closing(_batches(path, metadata, readings, names)) as batches:
            for batch in batches:
                stop_if_asked()
                if seen is not None:
                    seen(batch)
                digest.add(batch)
    except UNREADABLE as error:
        raise unreadable(str(path), error) from error
    finally:
        # Arrow's allocator keeps several times what it needed, and DuckDB's memory comes on top.
        pa.default_memory_pool().release_unused()
    # Of a file without columns there are no batches.
    return digest.digest, digest.rows if names else metadata.num_rows


def _batches(
    path: Path | str,
    metadata: pq.FileMetaData,
    readings: Sequence[_Reading],
    names: list[str],
) -> Generator[pa.RecordBatch]:
    # Several readings differ in ``read_dictionary``, which a file is opened with.
    for groups, texts in readings:
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
        return [c.path_in_schema for c in chunks if c.path_in_schema in texts and _is_coded(c)]

    for names, groups in groupby(range(file.metadata.num_row_groups), coded):
        yield list(groups), names


def _is_coded(chunk: pq.ColumnChunkMetaData) -> bool:
    """Return True if a chunk is not larger than a dictionary and a code for each value."""
    most = _DICTIONARY_BYTES + chunk.num_values * _CODE_BYTES
    return bool(chunk.has_dictionary_page and chunk.total_uncompressed_size <= most)
