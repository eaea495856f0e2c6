"""Write Parquet parts, sorted and with statistics; read footers with at most two requests."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from firnline.errors import (
    LARGER_SCRATCH,
    PartSchemaError,
    PartUnreadableError,
    ScratchFullError,
    UsageError,
)
from firnline.parquet.arrow_versions import refuse_changed
from firnline.store.base import Store
from firnline.types.order import Order, SortColumn, order_of

TAIL_BYTES = 64 * 1024
"""Bytes fetched first from the end of a part: enough for the footer unless a table is very wide."""
_PAGE_INDEX_ROWS = 100_000
"""Rows from which a page index is written; smaller parts are read whole anyway."""
_DISK_FULL = {errno.ENOSPC, errno.EDQUOT}
_MAGIC = b"PAR1"
_MAGIC_ENCRYPTED = b"PARE"
UNREADABLE = (pa.ArrowException, OSError, UnicodeDecodeError)
"""Exceptions of pyarrow for a damaged file; the last one is for column names."""
_BATCH_BYTES = 8 * 2**20
_LEAST_ROWS = 64
_VALUE_BYTES = 8
"""Bytes of a value in memory at least, however few it takes in pages."""
_FOOTER_END = 8
"""Bytes after the footer: its length and the magic."""
_ROWS = "append its rows: firnline.append(TABLE, [json.loads(line) for line in file])"
_OTHERS = {
    ".csv": ("CSV", "append what pyarrow.csv.read_csv or polars.read_csv returns for it"),
    ".tsv": ("CSV", "append what pyarrow.csv.read_csv or polars.read_csv returns for it"),
    ".json": ("JSON", _ROWS),
    ".jsonl": ("JSON", _ROWS),
    ".ndjson": ("JSON", _ROWS),
    ".orc": ("ORC", "append what pyarrow.orc.read_table returns for it"),
    ".avro": ("Avro", "write it as Parquet with an engine that reads Avro"),
    ".xlsx": ("Excel", "append what polars.read_excel returns for it"),
}
"""Ending -> what such a file is, and what to do with it."""


class PartFile(NamedTuple):
    """A part on local disk."""

    bytes: int
    sorted_by: Order
    """The order that its footer states."""


def _sorting(rows: pa.Table, order: Order) -> list[pq.SortingColumn] | None:
    counts = map(_leaves, rows.schema.types)
    places = dict(zip(rows.column_names, accumulate(counts, initial=0), strict=False))
    return [pq.SortingColumn(places[key.column], key.descending) for key in order] or None


def _leaves(kind: pa.DataType) -> int:
    """Return how many columns of Parquet a type has."""
    if isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    return sum(_leaves(kind.field(n).type) for n in range(kind.num_fields)) or 1


def sort_rows(table: pa.Table, sort_by: Sequence[SortColumn]) -> pa.Table:
    """Sort rows in the table's order, nulls last; missing columns are ignored.

    Raises:
        UsageError: the type of a column has no order.
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
) -> PartFile:
    """Write rows as one Parquet file: sorted, compressed with zstd, with statistics.

    Args:
        table: rows in the types of ``types.arrow.to_arrow``; at least one.
        path: new local file.
        sort_by: order of the rows.
        metadata: key-value pairs of the footer; those of the Arrow table are dropped.
        compression_level: of zstd.
        row_group_rows: rows per row group.

    Returns:
        Its size, and the order that its footer states.

    Raises:
        ScratchFullError: the disk is full.
        PartSchemaError: values are longer than Parquet can hold; names the column.
        UsageError: see ``sort_rows``.
        EnvironmentFaultError: this pyarrow writes another type than that of a column.
    """
    refuse_changed(table.schema)
    rows = sort_rows(table.replace_schema_metadata(None), sort_by)
    names = rows.column_names
    # Nothing is stated of rows that lack a column of their order.
    order = order_of(sort_by) if all(key.column in names for key in sort_by) else ()
    try:
        with pq.ParquetWriter(
            path,
            rows.schema,
            compression="zstd",
            compression_level=compression_level,
            write_page_index=rows.num_rows >= _PAGE_INDEX_ROWS,
            write_statistics=_with_bounds(rows),
            sorting_columns=_sorting(rows, order),
            # Arrow's own copy of the schema would be most of a small part.
            store_schema=False,
        ) as writer:
            writer.add_key_value_metadata(dict(metadata))
            writer.write_table(rows, row_group_size=row_group_rows)
        return PartFile(path.stat().st_size, order)
    except OSError as error:
        if error.errno is None:  # not of the disk: a page of Parquet has 2 GiB at most
            name = max(rows.column_names, key=lambda each: rows.column(each).nbytes)
            raise PartSchemaError(
                f"column {name!r} has {rows.column(name).nbytes:,} bytes in {rows.num_rows:,} "
                f"rows, which no part holds: {error}",
                next_step="leave out the longest values, or split them over several rows",
            ) from None
        full = error.errno in _DISK_FULL
        raise ScratchFullError(
            f"a part with {rows.num_rows} rows cannot be written to {path.parent}: "
            f"{'the disk is full' if full else error.strerror}",
            next_step=LARGER_SCRATCH,
        ) from None


def _with_bounds(rows: pa.Table) -> list[str]:
    """Return the columns with bounds in the footer: none with NaN, and no nested ones.

    Arrow leaves NaN out of its bounds, and readers for which it is the greatest number (DuckDB,
    Spark) would skip row groups with NaN.
    """
    return [
        field.name
        for field, column in zip(rows.schema, rows.columns, strict=True)
        if not pa.types.is_nested(field.type)
        and not (pa.types.is_floating(field.type) and pc.any(pc.is_nan(column)).as_py())
    ]


def rows_at_once(metadata: pq.FileMetaData, groups: Sequence[int], most: int) -> int:
    """Return how many rows of these row groups are a batch of about 8 MiB, at most ``most``."""
    size = sum(
        max(chunk.total_uncompressed_size, chunk.num_values * _VALUE_BYTES)
        for chunk in chunks_of(metadata, groups)
    )
    count = sum(metadata.row_group(number).num_rows for number in groups)
    mean = max(1, int(size) // max(1, int(count)))
    return max(_LEAST_ROWS, min(most, _BATCH_BYTES // mean))


def chunks_of(metadata: pq.FileMetaData, groups: Iterable[int]) -> Iterator[pq.ColumnChunkMetaData]:
    """Yield the column chunks of row groups."""
    for group in map(metadata.row_group, groups):
        yield from map(group.column, range(group.num_columns))


def read_local_footer(path: Path) -> pq.FileMetaData:
    """Read the footer of a local file.

    Raises:
        PartUnreadableError: the file is missing, not Parquet, truncated, or encrypted.
    """
    return parse_footer(str(path), read_local_tail(path))


def read_local_tail(path: Path) -> bytes:
    """Read the end of a local file with its footer; errors as of ``read_local_footer``."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:

            def read(start: int, length: int) -> bytes:
                file.seek(start)
                return file.read(length)

            return tail_of(str(path), size, read, file.read(len(_MAGIC)))
    except OSError as error:
        raise PartUnreadableError(
            f"{path} cannot be read: {error.strerror}", next_step="check the path and permissions"
        ) from None


def read_footer(store: Store, key: str, size: int) -> pq.FileMetaData:
    """Read the footer of a part. Requests: one ranged GET, two for a very wide table.

    Args:
        store: the store of the part.
        key: of the part.
        size: bytes of the object, from its marker or a listing.

    Raises:
        ObjectNotFoundError: the object is gone.
        PartUnreadableError: it is not Parquet, truncated, or encrypted.
    """
    return parse_footer(key, read_tail(store, key, size))


def read_tail(store: Store, key: str, size: int) -> bytes:
    """Read the end of a part with its footer; requests and errors as of ``read_footer``."""
    return tail_of(key, size, lambda start, length: store.get_range(key, start, length))


def tail_of(
    name: str, size: int, read: Callable[[int, int], bytes], head: bytes | None = None
) -> bytes:
    """Return the end of a file with its footer, in one or two reads.

    Args:
        name: for errors.
        size: bytes of the file.
        read: returns the bytes from a place on, as many as asked for.
        head: its first bytes, if they are known: errors say more with them.

    Raises:
        PartUnreadableError: it has no footer.
    """
    tail = read(max(0, size - TAIL_BYTES), min(size, TAIL_BYTES))
    needed = _footer_bytes(name, tail, size, head)
    if needed > len(tail):
        tail = read(size - needed, needed)
    return tail


def unreadable(name: str, error: Exception) -> PartUnreadableError:
    """Return the PartUnreadableError for an exception of pyarrow."""
    text = str(error).split("\n", 1)[0]
    if "crypt" in text.lower():
        return _bad(name, "is encrypted")
    return _bad(name, f"cannot be read: {text}")


def _not_parquet(name: str) -> PartUnreadableError:
    ending = name[name.rfind(".") :].lower()
    kind, step = _OTHERS.get(ending, ("", ""))
    if not kind:
        return _bad(name, "is not a Parquet file")
    return PartUnreadableError(f"{name} is {kind} and not Parquet", next_step=step)


def _bad(name: str, why: str) -> PartUnreadableError:
    step = "write it without encryption" if "encrypted" in why else "get the file again"
    return PartUnreadableError(f"{name} {why}", next_step=f"{step} and try again, or leave it out")


def _footer_bytes(name: str, tail: bytes, size: int, start: bytes | None) -> int:
    """Return the bytes from the beginning of the footer to the end of the file."""
    magic = tail[-len(_MAGIC) :]
    if magic == _MAGIC_ENCRYPTED:
        raise _bad(name, "is encrypted")
    if magic != _MAGIC or size < len(_MAGIC) + _FOOTER_END:
        # Only its beginning distinguishes a truncated Parquet file from another file.
        head = tail[: len(_MAGIC)] if start is None and len(tail) == size else start
        if head == _MAGIC:
            raise _bad(name, f"is truncated: it ends after {size} bytes without a Parquet footer")
        if head is None:
            raise _bad(name, "is truncated or not a Parquet file")
        raise _not_parquet(name)
    needed = int.from_bytes(tail[-_FOOTER_END:-4], "little") + _FOOTER_END
    if needed + len(_MAGIC) > size:
        raise _bad(name, f"is truncated: its footer states {needed} bytes and the file has {size}")
    return needed


def parse_footer(name: str, tail: bytes) -> pq.FileMetaData:
    """Parse the footer in the end of a file.

    Some damage makes Arrow abort the process: untrusted footers are parsed in a child process
    (``parquet.footers``).

    Raises:
        PartUnreadableError: the footer cannot be read; names ``name``.
    """
    try:
        # The reader expects the magic at the beginning, and ignores the offsets of the data.
        return pq.read_metadata(pa.BufferReader(_MAGIC + tail))
    except UNREADABLE as error:
        raise unreadable(name, error) from None
