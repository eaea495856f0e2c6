"""Write rows that only move from some files to another one, by Arrow (RFC 14).

Where nothing is sorted and no row goes or changes, a merge decodes and encodes. Arrow does that in
less time than DuckDB where every column is of a plain type: texts stay the codes of their
dictionaries on the way. The file is one that DuckDB could have written: its schema, codec, row
groups, dictionaries and filters, so later merges copy its row groups (``kernel.copies``).

Memory: one row group in memory (``Try.row_group_bytes``), twice while it is put together, its
encoded columns, and a buffer for each column of the file that is read. Whatever Arrow cannot do is
left to DuckDB, errors of damaged inputs included: it says which one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from firnline.errors import PartUnreadableError
from firnline.kernel.arrow_reader import NotHereError, footers
from firnline.kernel.arrow_writer import (
    check_texts,
    columns_with_nan,
    is_written_by_arrow,
    open_writer,
)
from firnline.kernel.duckdb import Try, tries
from firnline.kernel.inputs import Inputs
from firnline.kernel.task import KernelTask
from firnline.parquet.io import UNREADABLE, chunks_of, rows_at_once
from firnline.parquet.join import Footer, adopt
from firnline.types.arrow import to_arrow

_MOST_BUFFER, _LEAST_BUFFER = 2**20, 2**16
"""Bytes of the buffer through which a column of a file is read, whatever size its row groups have;
all buffers together take as much as a row group in memory."""
_BATCH_ROWS = 65_536
_LEAST_ROWS = 8_192
"""Mean rows of a file from which Arrow is quicker: opening one takes it longer than DuckDB."""


def move(
    task: KernelTask,
    inputs: Inputs,
    path: Path,
    metadata: dict[str, str],
    like: Callable[[], Footer],
    stop_if_asked: Callable[[], None],
) -> bool:
    """Write all rows of the inputs to a new file; return False if DuckDB has to, without a file.

    Args:
        task: the group.
        inputs: those of its inputs whose rows the file gets, checked.
        path: the new file.
        metadata: key-value pairs of its footer.
        like: returns the footer of a file that DuckDB has written for this task.
        stop_if_asked: called before each batch; raises if the task was told to stop.
    """
    how = tries(task.memory, task.threads)[0]
    if not _is_simple(task, inputs, how):
        return False
    try:
        files = _files(task, inputs)
        with _Output(task, how, path, metadata) as output:
            for batch in _batches(files, _buffer(task, how)):
                stop_if_asked()
                output.add(batch)
            without_bounds = output.end()
        if adopt(path, like(), without_bounds):
            return True
    except (NotHereError, PartUnreadableError, *UNREADABLE):
        pass  # DuckDB reads what Arrow does not, or says which input is damaged
    finally:
        pa.default_memory_pool().release_unused()
    path.unlink(missing_ok=True)
    return False


def _is_simple(task: KernelTask, inputs: Inputs, how: Try) -> bool:
    """Return True if all rows have the table's columns, of plain types, and all of them stay."""
    if task.threads != 1 or not task.is_plain or not inputs.staged or inputs.hide_rows:
        return False
    if _buffer(task, how) < _LEAST_BUFFER or inputs.rows < _LEAST_ROWS * len(inputs.rows_of):
        return False
    return is_written_by_arrow(task) and inputs.are_whole(len(task.columns))


@dataclass(frozen=True, slots=True)
class _File:
    path: Path
    metadata: pq.FileMetaData
    coded: tuple[str, ...]
    """Texts that are read as the codes of their dictionaries, the same in all files."""


def _files(task: KernelTask, inputs: Inputs) -> list[_File]:
    """Return the files whose columns Arrow reads as the table's.

    Raises NotHereError: it does not.
    """
    table = to_arrow(dict(task.columns))
    coded = {item.name for item in table if pa.types.is_string(item.type)}
    readable: list[tuple[Path, pq.FileMetaData]] = []
    wanted = dict(zip(table.names, table.types, strict=True))
    for path, metadata in footers(inputs.rows_of):
        if {f.name: f.type for f in metadata.schema.to_arrow_schema()} != wanted:
            raise NotHereError
        coded &= _coded(metadata)
        readable.append((path, metadata))
    return [_File(path, metadata, tuple(sorted(coded))) for path, metadata in readable]


def _coded(metadata: pq.FileMetaData) -> set[str]:
    """Return the columns that have codes in all row groups, and few different values."""
    chunks = list(chunks_of(metadata, range(metadata.num_row_groups)))
    plain = {
        chunk.path_in_schema
        for chunk in chunks
        # Less than four bytes a value, the length of a text, is a dictionary and codes.
        if not chunk.has_dictionary_page or chunk.total_uncompressed_size >= 4 * chunk.num_values
    }
    return {c.path_in_schema for c in chunks} - plain


def _buffer(task: KernelTask, how: Try) -> int:
    return min(how.row_group_bytes // max(len(task.columns), 1), _MOST_BUFFER)


def _batches(files: Sequence[_File], buffer: int) -> Iterator[pa.RecordBatch]:
    for each in files:
        with pq.ParquetFile(
            each.path,
            metadata=each.metadata,
            read_dictionary=list(each.coded),
            pre_buffer=False,
            buffer_size=buffer,
        ) as file:
            groups = range(each.metadata.num_row_groups)
            rows = rows_at_once(each.metadata, groups, _BATCH_ROWS)
            yield from file.iter_batches(rows, use_threads=False)


@dataclass(slots=True)
class _Output:
    """Puts row groups together and writes them; a file that is not ended is left as it is."""

    task: KernelTask
    how: Try
    path: Path
    metadata: dict[str, str]
    writer: pq.ParquetWriter | None = None
    waiting: list[pa.Table] = field(default_factory=list)
    rows: int = 0
    bytes: int = 0
    with_nan: set[str] = field(default_factory=set)

    def __enter__(self) -> _Output:
        return self

    def __exit__(self, *_: object) -> None:
        if self.writer is not None:
            self.writer.close()

    def add(self, batch: pa.RecordBatch) -> None:
        """Take rows; write a row group if there are enough of them."""
        names = [name for name, _ in self.task.columns]
        self._wait(pa.Table.from_batches([batch]).select(names))
        while self.rows >= self.task.row_group_rows or self.bytes >= self.how.row_group_bytes:
            self._write(min(self.rows, self.task.row_group_rows))

    def end(self) -> frozenset[str]:
        """Write the rows that are left and end the file; return the columns that have a NaN."""
        if self.rows:
            self._write(self.rows)
        if self.writer is None:
            raise NotHereError  # no rows: not worth a second way
        self.writer.add_key_value_metadata(self.metadata)
        self.writer.close()
        return frozenset(self.with_nan)

    def _wait(self, rows: pa.Table) -> None:
        self.waiting.append(rows)
        self.rows += rows.num_rows
        self.bytes += rows.nbytes

    def _write(self, count: int) -> None:
        whole = pa.concat_tables(self.waiting).unify_dictionaries()
        self.waiting, self.rows, self.bytes = [], 0, 0
        if count < whole.num_rows:
            self._wait(whole.slice(count))
        group = whole.slice(0, count)
        check_texts(group)
        self.with_nan |= columns_with_nan(group)
        if self.writer is None:
            self.writer = open_writer(self.path, group, self.task, self.how)
        self.writer.write_table(group, row_group_size=count)
