"""Read footers of Parquet parts with at most two requests, and say what their chunks hold."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from firnline.errors import PartUnreadableError
from firnline.store.base import Store

TAIL_BYTES = 64 * 1024
"""Bytes fetched first from the end of a part: enough for the footer unless a table is very wide."""
_MAGIC = b"PAR1"
_MAGIC_ENCRYPTED = b"PARE"
UNREADABLE = (pa.ArrowException, OSError, UnicodeDecodeError)
"""Exceptions of pyarrow for a damaged file; the last one is for column names."""
_BATCH_BYTES = 8 * 2**20
_LEAST_ROWS = 64
VALUE_BYTES = 8
"""Bytes of a value in memory at least, however few it takes in pages."""
_CODE_BYTES = 4
"""Bytes of a code of a dictionary at most, in pages."""
_DICTIONARY_BYTES = 2**20
"""Bytes of a dictionary at most: writers do without one that would be larger."""
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


def leaves_of(kind: pa.DataType) -> int:
    """Return how many columns of Parquet a type has."""
    if isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    return sum(leaves_of(kind.field(n).type) for n in range(kind.num_fields)) or 1


def rows_at_once(metadata: pq.FileMetaData, groups: Sequence[int], most: int) -> int:
    """Return how many rows of these row groups are a batch of about 8 MiB, at most ``most``."""
    size = sum(
        max(chunk.total_uncompressed_size, chunk.num_values * VALUE_BYTES)
        for chunk in chunks_of(metadata, groups)
    )
    count = sum(metadata.row_group(number).num_rows for number in groups)
    mean = max(1, int(size) // max(1, int(count)))
    return max(_LEAST_ROWS, min(most, _BATCH_BYTES // mean))


def chunks_of(metadata: pq.FileMetaData, groups: Iterable[int]) -> Iterator[pq.ColumnChunkMetaData]:
    """Yield the column chunks of row groups."""
    for group in map(metadata.row_group, groups):
        yield from map(group.column, range(group.num_columns))


def is_coded(chunk: pq.ColumnChunkMetaData) -> bool:
    """Return True if a chunk is not larger than a dictionary and a code for each value."""
    most = _DICTIONARY_BYTES + chunk.num_values * _CODE_BYTES
    return bool(chunk.has_dictionary_page and chunk.total_uncompressed_size <= most)


def read_local_footer(path: Path) -> pq.FileMetaData:
    """Read the footer of a local file.

    Raises:
        PartUnreadableError: the file is missing, not Parquet, truncated, or encrypted.
    """
    return parse_footer(str(path), read_local_tail(path))


def read_local_tail(path: Path) -> bytes:
    """Read the footer of a local file, and its end; errors as of ``read_local_footer``."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:

            def read(start: int, length: int) -> bytes:
                file.seek(start)
                return file.read(length)

            tail = tail_of(str(path), size, read, file.read(len(_MAGIC)))
            return tail[-_footer_bytes(str(path), tail, size, None) :]
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


def tail_in(data: bytes, name: str = "a file") -> bytes:
    """Return the end of a file in memory with its footer; errors as of ``tail_of``."""
    return tail_of(name, len(data), lambda start, length: data[start : start + length])


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
