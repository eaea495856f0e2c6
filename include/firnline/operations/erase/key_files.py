"""Read the keys of an erase from a user's file, in bounded memory.

A file is looked at before it is decoded: a Parquet file states its rows and the size of its columns
in the footer. What does not state it, or states it wrongly, is decoded in pieces, and each piece is
measured while repeated values are still stored once.
"""

# ruff: noqa: TID253 - rows are handled here; no DAG file imports it at parse

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from firnline.errors import ObjectNotFoundError, PartUnreadableError, UsageError
from firnline.operations.erase.keys import (
    MAX_KEY_BYTES,
    MAX_KEYS,
    KeySet,
    key_set,
    too_large,
    too_many,
)
from firnline.parquet.footers import refuse_unsafe_chunks
from firnline.parquet.io import read_local_footer
from firnline.paths import Root, refuse_user
from firnline.rows.sizes import decoded_bytes
from firnline.rows.source import BATCH_ROWS, require_file
from firnline.table import Table
from firnline.types.sql import fold_name

_ENDINGS = (".parquet", ".csv")
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
        UsageError: as ``key_set``; or the file is not there, does not read, has not the columns, or
            holds more than an erase takes.
    """
    if not file.lower().endswith(_ENDINGS):
        raise UsageError(
            f"{file} is neither .parquet nor .csv", next_step="write the keys as one of them"
        )
    with tempfile.TemporaryDirectory(prefix="firnline-keys-") as folder:
        path = _local(table, file, Path(folder))
        require_file(path, file)
        batches = _parquet if path.suffix.lower() == ".parquet" else _csv
        return key_set(columns, _rows(batches(path, file, columns), file), schema, file)


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
        if pa.types.is_nested(schema.field(name).type):
            raise UsageError(
                f"column {name!r} of {shown} is {schema.field(name).type}, and a key has one value "
                "per column",
                next_step="write it as a column of single values",
            )
    return names


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
        of_keys = [_column_of(shown, names, column) for column in columns]
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
        why = "no line, or one with another number of columns, or no UTF-8"
        raise _unreadable(shown, why if line else str(error).split("\n", 1)[0]) from error


def _unreadable(shown: str, reason: str) -> UsageError:
    return UsageError(
        f"{shown} does not read: {reason.rstrip('.')}", next_step="write the keys as Parquet or CSV"
    )


def _column_of(shown: str, names: Sequence[str], column: str) -> str:
    same = [name for name in names if fold_name(name) == fold_name(column)]
    if len(same) != 1:
        raise UsageError(
            f"{shown} has {len(same) or 'no'} column {column!r}, but {', '.join(names[:10])}",
            next_step="name the file's columns as the table's, each once",
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
