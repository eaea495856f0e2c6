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

from firnline.parquet.footers import are_safe
from firnline.parquet.io import parse_footer, read_local_tail

_FOOTERS_BYTES = 16 * 2**20
"""Bytes of all footers of a group at most, which are kept until their files are read."""


class NotHereError(Exception):
    """Arrow cannot merge these rows as DuckDB does: the group is left to DuckDB."""


def footers(paths: Iterable[Path]) -> Iterator[tuple[Path, pq.FileMetaData]]:
    """Yield files with their footers, in their order; another process parses them first.

    Raises:
        NotHereError: Arrow cannot parse one, or they are too large to be kept.
        PartUnreadableError: a file has none.
    """
    tails: dict[Path, bytes] = {}
    size = 0
    for path in paths:
        tails[path] = read_local_tail(path)
        size += len(tails[path])
        if size > _FOOTERS_BYTES:
            raise NotHereError
    if not are_safe(list(tails.values())):
        raise NotHereError
    for path, tail in tails.items():
        yield path, parse_footer(str(path), tail)


def decoded(column: pa.ChunkedArray, limit: int) -> pa.ChunkedArray | None:
    """Return a column with its values in place of codes; None if they take more bytes."""
    if not pa.types.is_dictionary(column.type):
        return column
    size = 0
    for chunk in column.chunks:
        lengths = pc.binary_length(chunk.dictionary).take(chunk.indices)
        size += pc.sum(lengths).as_py() or 0
    return None if size > limit else column.cast(column.type.value_type)
