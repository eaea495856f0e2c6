"""Read staged files by Arrow in place of DuckDB: where it may, and what it must not decode.

Whatever Arrow does not read as the columns of the table is left to DuckDB (``NotHereError``), which
reads it or says which input is damaged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from firnline.parquet.footers import is_safe

_FOOTERS_BYTES = 16 * 2**20
"""Bytes of all footers of a group at most, which are kept until their files are read."""


class NotHereError(Exception):
    """Arrow cannot merge these rows as DuckDB does: the group is left to DuckDB."""


def footers(paths: Iterable[Path]) -> Iterator[tuple[Path, pq.FileMetaData]]:
    """Yield files with their footers, in their order.

    Raises:
        NotHereError: Arrow cannot parse one, or they are too large to be kept.
        PartUnreadableError: a file has none.
    """
    size = 0
    for path in paths:
        if not is_safe(path):
            raise NotHereError
        metadata = pq.read_metadata(path)
        size += metadata.serialized_size
        if size > _FOOTERS_BYTES:
            raise NotHereError
        yield path, metadata


def decoded(column: pa.ChunkedArray, limit: int) -> pa.ChunkedArray | None:
    """Return a column with its values in place of codes; None if they take more bytes."""
    if not pa.types.is_dictionary(column.type):
        return column
    size = 0
    for chunk in column.chunks:
        lengths = pc.binary_length(chunk.dictionary).take(chunk.indices)
        size += pc.sum(lengths).as_py() or 0
    return None if size > limit else column.cast(column.type.value_type)
