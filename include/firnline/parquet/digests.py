"""The digest of the rows of a Parquet file, read by Arrow in bounded memory.

Memory: a buffer of 1 MiB for each column, and batches of about 8 MiB, which are given back at the
end. What DuckDB has written is
read by another library than its own.
"""

# ruff: noqa: TID253 - rows are handled here; no DAG file imports it at parse

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from firnline.parquet.io import UNREADABLE, unreadable
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
_BATCH_BYTES = 8 * 2**20
_LEAST_ROWS = 64
_DICTIONARY_BYTES = 4
"""Bytes of a value, in pages, up to which texts are read as codes of a dictionary: longer ones are
mostly not in one."""


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
            schema, texts = file.schema_arrow, _texts(file)
            rows = _rows_at_once(file.metadata)
        wanted = [name for name in schema.names if only is None or fold_name(name) in only]
        if not all(can_digest(schema.field(name).type) for name in wanted):
            return None
        found = RowDigest()
        with pq.ParquetFile(path, **_FORM, read_dictionary=texts) as file:
            # A name in ``columns`` may be the beginning of others.
            columns = None if len(wanted) == len(schema) else wanted
            for batch in file.iter_batches(rows, columns=columns, use_threads=False):
                stop_if_asked()
                if columns is not None:
                    batch = batch.select(wanted)  # noqa: PLW2901
                if seen is not None:
                    seen(batch)
                found.add(batch)
            count = file.metadata.num_rows
    except UNREADABLE as error:
        raise unreadable(str(path), error) from error
    finally:
        # Arrow's allocator keeps several times what it needed, and DuckDB's memory comes on top.
        pa.default_memory_pool().release_unused()
    # Of a file without columns there are no batches.
    return found.digest, found.rows if wanted else count


def _rows_at_once(metadata: pq.FileMetaData) -> int:
    size = sum(metadata.row_group(n).total_byte_size for n in range(metadata.num_row_groups))
    mean = max(1, int(size // max(1, metadata.num_rows)))
    return max(_LEAST_ROWS, min(BATCH_ROWS, _BATCH_BYTES // mean))


def _texts(file: pq.ParquetFile) -> list[str]:
    """Return texts at the top of the schema of which most row groups hold few different values."""
    schema, metadata = file.schema, file.metadata
    sizes, values = [0] * len(schema), [0] * len(schema)
    plain = [
        column.path == column.name and column.physical_type == "BYTE_ARRAY"
        for column in map(schema.column, range(len(schema)))
    ]
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        for place, is_text in enumerate(plain):
            if is_text:
                chunk = group.column(place)
                whole = chunk.has_dictionary_page
                sizes[place] += chunk.total_uncompressed_size if whole else 2**40
                values[place] += chunk.num_values
    return [
        schema.column(place).path
        for place, is_text in enumerate(plain)
        if is_text and 0 < sizes[place] <= values[place] * _DICTIONARY_BYTES
    ]
