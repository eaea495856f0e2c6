"""Parquet parts: written sorted with statistics, and footers read with at most two requests."""

from __future__ import annotations

import errno
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from firnline.errors import PartUnreadableError, ScratchFullError, UsageError
from firnline.store.base import Store

TAIL_BYTES = 64 * 1024
"""Fetched first from the end of a part: holds the footer of all but very wide tables."""
_PAGE_INDEX_ROWS = 100_000
"""Parts with fewer rows are read whole anyway; their footers stay small."""
_DISK_FULL = {errno.ENOSPC, errno.EDQUOT}
_MAGIC = b"PAR1"
_MAGIC_ENCRYPTED = b"PARE"
UNREADABLE = (pa.ArrowException, OSError, UnicodeDecodeError)
"""What pyarrow raises for a file that is damaged; the last for names of columns."""
_FOOTER_END = 8
"""Bytes behind the footer: its length and the magic."""


class SortColumn(Protocol):
    """One column of a sort order, of the settings or of a kernel task."""

    @property
    def column(self) -> str: ...

    @property
    def descending(self) -> bool: ...


def sort_rows(table: pa.Table, sort_by: Sequence[SortColumn]) -> pa.Table:
    """Rows in the table's order, nulls last; columns that are not there are passed over.

    Raises:
        UsageError: a column whose type has no order.
    """
    keys: list[tuple[str, str]] = []
    columns: dict[str, pa.ChunkedArray] = {}
    for field in sort_by:
        if field.column not in table.column_names:
            continue
        column = table.column(field.column)
        if pa.types.is_nested(column.type):
            raise UsageError(
                f"sort_by names column {field.column!r} of type {column.type}, which has no order",
                next_step="take it out of sort_by in the settings",
            )
        if isinstance(column.type, pa.BaseExtensionType):
            storage = [chunk.storage for chunk in column.chunks]
            column = pa.chunked_array(storage, column.type.storage_type)
        columns[field.column] = column
        keys.append((field.column, "descending" if field.descending else "ascending"))
    if not keys or table.num_rows < 2:
        return table
    order = pc.sort_indices(pa.table(columns), sort_keys=keys)  # nulls at the end by default
    return table.take(order)


def write_part(
    table: pa.Table,
    path: Path,
    *,
    sort_by: Sequence[SortColumn] = (),
    metadata: Mapping[str, str],
    compression_level: int,
    row_group_rows: int,
) -> int:
    """Write rows as one Parquet file: sorted, zstd, with statistics.

    Args:
        table: rows in the types of ``arrow_types.to_arrow``; at least one.
        path: new local file.
        sort_by: order of the rows.
        metadata: key-value pairs of the footer; the table's own (pandas' say) are not kept.
        compression_level: of zstd.
        row_group_rows: rows per row group.

    Returns:
        Bytes of the file.

    Raises:
        ScratchFullError: the disk is full.
        UsageError: see ``sort_rows``.
    """
    rows = sort_rows(table.replace_schema_metadata(None), sort_by)
    try:
        with pq.ParquetWriter(
            path,
            rows.schema,
            compression="zstd",
            compression_level=compression_level,
            write_page_index=rows.num_rows >= _PAGE_INDEX_ROWS,
            write_statistics=_with_bounds(rows),
            # Arrow's own copy of the schema would be most of a small part.
            store_schema=False,
        ) as writer:
            writer.add_key_value_metadata(dict(metadata))
            writer.write_table(rows, row_group_size=row_group_rows)
        return path.stat().st_size
    except OSError as error:
        full = error.errno in _DISK_FULL
        raise ScratchFullError(
            f"a part with {rows.num_rows} rows cannot be written to {path.parent}: "
            f"{'the disk is full' if full else error.strerror}",
            next_step="free some space there, or set TMPDIR to a larger disk",
        ) from None


def _with_bounds(rows: pa.Table) -> list[str]:
    """Columns whose bounds the footer states: none that holds NaN, and no nested ones.

    Arrow leaves NaN out of its bounds, and readers who take it for the greatest number (DuckDB,
    Spark) would pass over the row groups it is in.
    """
    return [
        field.name
        for field, column in zip(rows.schema, rows.columns, strict=True)
        if not pa.types.is_nested(field.type)
        and not (pa.types.is_floating(field.type) and pc.any(pc.is_nan(column)).as_py())
    ]


def read_local_footer(path: Path) -> pq.FileMetaData:
    """Footer of a local file.

    Raises:
        PartUnreadableError: not there, no Parquet, cut, or encrypted; says which.
    """
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            start = file.read(len(_MAGIC))
            file.seek(max(0, size - TAIL_BYTES))
            tail = file.read()
            needed = _footer_bytes(str(path), tail, size, start)
            if needed > len(tail):
                file.seek(size - needed)
                tail = file.read()
    except OSError as error:
        raise PartUnreadableError(
            f"{path} cannot be read: {error.strerror}", next_step="check the path and permissions"
        ) from None
    return parse_footer(str(path), tail)


def read_footer(store: Store, key: str, size: int) -> pq.FileMetaData:
    """Footer of a part in the store. Requests: one ranged GET, two for a very wide table.

    Args:
        store: where it is.
        key: of the part.
        size: bytes of the object, from its marker or a listing.

    Raises:
        ObjectNotFoundError: it is gone.
        PartUnreadableError: no Parquet, cut, or encrypted; says which.
    """
    return parse_footer(key, read_tail(store, key, size))


def read_tail(store: Store, key: str, size: int) -> bytes:
    """The end of a part, the footer in it; otherwise as ``read_footer``."""
    tail = store.get_range(key, max(0, size - TAIL_BYTES), min(size, TAIL_BYTES))
    needed = _footer_bytes(key, tail, size, None)
    if needed > len(tail):
        tail = store.get_range(key, size - needed, needed)
    return tail


def unreadable(name: str, error: Exception) -> PartUnreadableError:
    """What pyarrow raised while reading a Parquet file, as an error for people."""
    text = str(error).split("\n", 1)[0]
    if "crypt" in text.lower():
        return _bad(name, "is encrypted")
    return _bad(name, f"does not read: {text}")


def _bad(name: str, why: str) -> PartUnreadableError:
    step = "write it without encryption" if "encrypted" in why else "get the file anew"
    return PartUnreadableError(f"{name} {why}", next_step=f"{step} and try again, or leave it out")


def _footer_bytes(name: str, tail: bytes, size: int, start: bytes | None) -> int:
    """Bytes from the beginning of the footer to the end of the file."""
    magic = tail[-len(_MAGIC) :]
    if magic == _MAGIC_ENCRYPTED:
        raise _bad(name, "is encrypted")
    if magic != _MAGIC or size < len(_MAGIC) + _FOOTER_END:
        # Only its beginning tells a Parquet file that was cut from something else.
        head = tail[: len(_MAGIC)] if start is None and len(tail) == size else start
        if head == _MAGIC:
            raise _bad(name, f"is cut: it ends after {size} bytes without a Parquet footer")
        raise _bad(name, "is cut or no Parquet file" if head is None else "is no Parquet file")
    needed = int.from_bytes(tail[-_FOOTER_END:-4], "little") + _FOOTER_END
    if needed + len(_MAGIC) > size:
        raise _bad(name, f"is cut: its footer states {needed} bytes and the file has {size}")
    return needed


def parse_footer(name: str, tail: bytes) -> pq.FileMetaData:
    """The footer in the end of a file.

    Some damage makes Arrow abort the process: what comes from elsewhere is parsed in a process
    that may die (``footer_process``).

    Raises:
        PartUnreadableError: it does not read; ``name`` says what.
    """
    try:
        # The reader wants the magic in front; offsets of the data are not looked at.
        return pq.read_metadata(pa.BufferReader(_MAGIC + tail))
    except UNREADABLE as error:
        raise unreadable(name, error) from None
