"""Read the keys of an erase from a user's file, in bounded memory.

A file is looked at before it is decoded: a Parquet file states its rows and the size of its columns
in the footer. What does not state it, or states it wrongly, is decoded in pieces, and each piece is
measured while repeated values are still stored once.
"""

# ruff: noqa: TID253 - rows are handled here; no DAG file imports it at parse

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain
from pathlib import Path
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from firnline.errors import ObjectNotFoundError, PartUnreadableError, UsageError
from firnline.kernel.staging import own_folder
from firnline.operations.asked import AskedKeys, file_digest
from firnline.operations.erase.csv_lines import wrong_line
from firnline.operations.erase.keys import (
    MAX_KEY_BYTES,
    MAX_KEYS,
    KeySet,
    NoKeyError,
    key_set,
    too_large,
    too_many,
)
from firnline.operations.erase.spaces import without_spaces
from firnline.parquet.footers import refuse_unsafe_chunks
from firnline.parquet.io import read_local_footer
from firnline.paths import Root, refuse_user
from firnline.rows.sizes import decoded_bytes
from firnline.rows.source import BATCH_ROWS, require_file
from firnline.store.client import open_store
from firnline.table import Table
from firnline.types.sql import fold_name

_PIECE = 2**20
"""Bytes of a file that are read at a time for its digest."""
_ENDINGS = (".parquet", ".csv")
_SEPARATORS = {b";": "semicolons", b"\t": "tabs", b"|": "bars"}
"""Between columns, as other programs write what they call CSV."""
_HEAD_BYTES = 64 * 2**10
_PIECE_BYTES = 16 * 2**20
"""Most bytes of decoded values that become Python values at once."""


def read_keys(table: Table, columns: Sequence[str], schema: Mapping[str, str], file: str) -> KeySet:
    """Read keys from a Parquet or CSV file (with a head line); its other columns are ignored.

    Args:
        table: its store is where a URL is read from, with one GET.
        columns: key columns; the file has them by these names.
        schema: the table's.
        file: a local path, ``file://``, or a URL in the bucket of the table.

    Raises:
        UsageError: as ``key_set`` and ``without_spaces``; or the file is not there, does not read,
            has not the columns, or holds more than an erase takes.
    """
    refuse_other_endings(file)
    with own_folder() as folder:
        path = _local(table, file, folder)
        require_file(path, file)
        batches = batches_of(path, file, columns)
        checked = batches if is_parquet(path) else without_spaces(batches, file, columns)
        return key_set(columns, _rows(checked, file), schema, file)


def refuse_other_endings(file: str) -> None:
    """Raise UsageError for a file that its name calls neither Parquet nor CSV."""
    if not file.lower().endswith(_ENDINGS):
        raise UsageError(
            f"{file} is neither .parquet nor .csv", next_step="write the keys as one of them"
        )


def read_asked(
    table: Table, columns: Sequence[str], schema: Mapping[str, str], asked: Sequence[AskedKeys]
) -> KeySet:
    """Read the keys of requests of erasure, all together. Requests: 1 GET for each.

    A row without a value in one of the columns is none of a person in this table: it is left out,
    and never stands for rows that have no value there either.

    Args:
        table: its credentials read the folder of requests.
        columns: that identify a person in this table.
        schema: the table's.
        asked: the requests.

    Raises:
        UsageError: as ``read_keys``; NoKeyError if no row is left.
    """
    with own_folder() as folder:
        files = [(_fetched(table, each, folder), f"request {each.id}") for each in asked]
        where = files[0][1] if len(files) == 1 else f"{len(files)} requests together"
        return _partial_keys(columns, schema, files, where)


def check_asked(path: Path, columns: Sequence[str], schema: Mapping[str, str]) -> None:
    """Check a local file of keys as ``read_asked`` will, before a request takes it.

    A file without a key for this table is none that it would refuse. Raises UsageError, whose text
    holds no key.
    """
    with suppress(NoKeyError):
        _partial_keys(columns, schema, [(path, str(path))], str(path))


def digest_of_file(table: Table, file: str, secret: str) -> str:
    """Return the digest of a file as a request states it. Requests: 1 GET for a URL.

    Raises UsageError: it is not there.
    """
    with own_folder() as folder:
        path = _local(table, file, folder)
        require_file(path, file)
        with path.open("rb") as opened:
            return file_digest(secret, iter(partial(opened.read, _PIECE), b""))


def read_request(
    table: Table, columns: Sequence[str], schema: Mapping[str, str], file: str
) -> KeySet:
    """Read the file of one request as ``read_asked`` does. Requests: 1 GET for a URL.

    Raises UsageError: as ``read_asked``.
    """
    with own_folder() as folder:
        return _partial_keys(columns, schema, [(_local(table, file, folder), file)], file)


def _partial_keys(
    columns: Sequence[str],
    schema: Mapping[str, str],
    files: Sequence[tuple[Path, str]],
    where: str,
) -> KeySet:
    rows = chain.from_iterable(
        _rows(batches_of(path, shown, columns), shown) for path, shown in files
    )
    return key_set(columns, rows, schema, where, partial=True)


def _fetched(table: Table, asked: AskedKeys, folder: Path) -> Path:
    url, _, name = asked.url.rpartition("/")
    root = Root.parse(url, source=True)
    path = folder / name
    try:
        store = open_store(url, table.access, clock=table.clock)
        store.get_file(f"{root.prefix}/{name}", path)
        table.store.counters.add(store.counters.as_dict())
    except ObjectNotFoundError as error:
        raise UsageError(
            f"the keys of request {asked.id} are not in {url}: it is closed, or was never written",
            next_step="`firnline erasure show` says which; withdraw it and ask again",
        ) from error
    return path


def batches_of(path: Path, shown: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield the columns of a local file of keys, CSV or Parquet. Raises UsageError."""
    return (_parquet if is_parquet(path) else _csv)(path, shown, columns)


def single_columns(path: Path, shown: str) -> list[str]:
    """Return the columns of a local file of keys that have single values. Raises UsageError."""
    try:
        if not is_parquet(path):
            with pacsv.open_csv(path) as head:
                names: list[str] = head.schema.names
            return names
        read_local_footer(path)
        schema = pq.read_schema(path)
    except (pa.ArrowException, OSError, UnicodeDecodeError, PartUnreadableError):
        why = None if is_parquet(path) else wrong_line(path)
        damaged = f"it is no {path.suffix.lower().lstrip('.')} file, or damaged"
        raise (other_separator(path, shown) or _unreadable(shown, why or damaged)) from None
    return [field.name for field in schema if not pa.types.is_nested(field.type)]


def refuse_nested(path: Path, shown: str, columns: Collection[str]) -> None:
    """Raise UsageError if a column of a local file that reads has no single values.

    Args:
        path: of the file.
        shown: its name, for the error.
        columns: those that keys are taken from; others may be as they are.
    """
    if not is_parquet(path):
        return
    wanted = {fold_name(name) for name in columns}
    for field in pq.read_schema(path):
        if fold_name(field.name) in wanted:
            _refuse_nested(shown, field)


def other_separator(path: Path, shown: str) -> UsageError | None:
    """Return the error for a CSV file whose head line has other signs in place of commas."""
    if is_parquet(path):
        return None
    with path.open("rb") as file:
        head = file.readline(_HEAD_BYTES)
    found = [name for sign, name in _SEPARATORS.items() if sign in head]
    if b"," in head or not found:
        return None
    return UsageError(
        f"{shown} has {found[0]} between its columns, and a CSV file of keys has commas",
        next_step="write it with commas, or as Parquet",
    )


def is_parquet(path: Path) -> bool:
    """Return True for a file of keys that is Parquet, False for CSV."""
    return path.suffix.lower() == ".parquet"


def _local(table: Table, file: str, folder: Path) -> Path:
    refuse_user(file)
    root, parts = Root.parse(table.settings.root), urlsplit(file)
    if parts.scheme in {"", "file"}:
        return Path(parts.path if parts.scheme else file)
    if (parts.scheme, parts.netloc) != (root.scheme, root.bucket):
        raise UsageError(
            f"{file} is not in {root.scheme}://{root.bucket}, where the table is",
            next_step="copy it there, or to this machine",
        )
    path = folder / f"keys{Path(file).suffix}"
    try:
        table.store.get_file(parts.path.lstrip("/"), path)
    except ObjectNotFoundError as error:
        raise UsageError(f"{file} is not there", next_step="correct the name") from error
    return path


def _parquet(path: Path, shown: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield the columns of the keys, texts as they are encoded: repeated ones are there once."""
    try:
        footer = read_local_footer(path)
        refuse_unsafe_chunks(path)
    except PartUnreadableError as error:
        raise UsageError(
            error.message.replace(str(path), shown), next_step="write the keys as Parquet or CSV"
        ) from None
    if footer.num_rows > MAX_KEYS:
        raise too_many(shown)
    try:
        names = _flat_columns(shown, pq.read_schema(path), columns)
        if _stated_bytes(footer, names) > MAX_KEY_BYTES:
            raise too_large(shown)
        with pq.ParquetFile(path, pre_buffer=False, read_dictionary=names) as opened:
            for batch in opened.iter_batches(BATCH_ROWS, columns=names):
                yield batch.select(names)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise _unreadable(shown, str(error).split("\n", 1)[0]) from error


def _flat_columns(shown: str, schema: pa.Schema, columns: Sequence[str]) -> list[str]:
    names = [_column_of(shown, schema.names, column) for column in columns]
    for name in names:
        _refuse_nested(shown, schema.field(name))
    return names


def _refuse_nested(shown: str, field: pa.Field) -> None:
    if pa.types.is_nested(field.type):
        raise UsageError(
            f"column {field.name!r} of {shown} is {field.type}, and a key has one value per column",
            next_step="write it as a column of single values",
        )


def _stated_bytes(footer: pq.FileMetaData, columns: Sequence[str]) -> int:
    return sum(
        chunk.total_uncompressed_size
        for group in map(footer.row_group, range(footer.num_row_groups))
        for chunk in map(group.column, range(footer.num_columns))
        if f"{chunk.path_in_schema}.".startswith(tuple(f"{name}." for name in columns))
    )


def _csv(path: Path, shown: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    try:
        with pacsv.open_csv(path) as head:
            names: list[str] = head.schema.names
        try:
            of_keys = [_column_of(shown, names, column) for column in columns]
        except UsageError as error:
            raise (other_separator(path, shown) or error) from None
        # As texts: 007 of a column of texts must not become 7.
        options = pacsv.ConvertOptions(
            column_types=dict.fromkeys(of_keys, pa.string()),
            include_columns=of_keys,
            strings_can_be_null=True,
            null_values=[""],
        )
        with pacsv.open_csv(path, convert_options=options) as opened:
            yield from opened
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        # Arrow's text about a line of CSV repeats the line, and keys are personal data.
        line = isinstance(error, pa.ArrowInvalid | UnicodeDecodeError)
        other = other_separator(path, shown) if line else None
        why = (
            (wrong_line(path) or "it has no line of keys") if line else str(error).split("\n", 1)[0]
        )
        raise other or _unreadable(shown, why) from error


def _unreadable(shown: str, reason: str) -> UsageError:
    return UsageError(
        f"{shown} does not read: {reason.rstrip('.')}", next_step="write the keys as Parquet or CSV"
    )


def _column_of(shown: str, names: Sequence[str], column: str) -> str:
    same = [name for name in names if fold_name(name) == fold_name(column)]
    if len(same) != 1:
        # Not the names: those of a file without a head line are its first key.
        raise UsageError(
            f"{shown} has {len(same) or 'no'} column {column!r} among its {len(names)}",
            next_step="begin it with a line of names, those of the table's columns, each once",
        )
    return same[0]


def _rows(batches: Iterator[pa.RecordBatch], shown: str) -> Iterator[tuple[object, ...]]:
    """Yield the rows as Python values; no more of them at once than fit into a piece."""
    seen = 0
    for batch in batches:
        seen += batch.num_rows
        if seen > MAX_KEYS:
            raise too_many(shown)
        for piece in _pieces(batch):
            yield from zip(*(column.to_pylist() for column in piece.columns), strict=True)


def _pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Cut a batch into pieces that are small enough when decoded, or into single rows."""
    if batch.num_rows <= 1 or decoded_bytes(pa.table(batch)) <= _PIECE_BYTES:
        yield batch
        return
    half = batch.num_rows // 2
    yield from _pieces(batch.slice(0, half))
    yield from _pieces(batch.slice(half))
