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
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from firnline.errors import PartUnreadableError
from firnline.kernel.duckdb import Try, tries
from firnline.kernel.inputs import Inputs
from firnline.kernel.sql import DICTIONARY_SHARE
from firnline.kernel.task import KernelTask
from firnline.parquet.arrow_versions import writes_bloom_filters
from firnline.parquet.footers import is_safe
from firnline.parquet.io import UNREADABLE, chunks_of, rows_at_once
from firnline.parquet.join import Footer, adopt
from firnline.types.arrow import to_arrow
from firnline.types.sql import parse_sql_type

_TYPES = frozenset({
    "BIGINT", "BLOB", "BOOLEAN", "DATE", "DECIMAL", "DOUBLE", "FLOAT", "INTEGER", "SMALLINT",
    "TIMESTAMP", "TIMESTAMP WITH TIME ZONE", "TINYINT", "UBIGINT", "UINTEGER", "USMALLINT",
    "UTINYINT", "VARCHAR",
})  # fmt: skip
"""Types that Arrow and DuckDB write as the same values; ``adopt`` compares the columns."""
_MOST_BUFFER, _LEAST_BUFFER = 2**20, 2**16
"""Bytes of the buffer through which a column of a file is read, whatever size its row groups have;
all buffers together take as much as a row group in memory."""
_BATCH_ROWS = 65_536
_LEAST_ROWS = 8_192
"""Mean rows of a file from which Arrow is quicker: opening one takes it longer than DuckDB."""
_FOOTERS_BYTES = 16 * 2**20
"""Bytes of all footers at most, which are kept until their files are read."""
_SAMPLE_ROWS = 16_384
_ALL_DIFFER = 0.96
"""Fraction of different values in the sample from which a row group has more than a dictionary
holds: 200,000 values in any order show 0.96 of 16,384."""


class _NotHereError(Exception):
    """Arrow cannot write these rows as DuckDB does."""


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
    except (_NotHereError, PartUnreadableError, *UNREADABLE):
        pass  # DuckDB reads what Arrow does not, or says which input is damaged
    finally:
        pa.default_memory_pool().release_unused()
    path.unlink(missing_ok=True)
    return False


def _is_simple(task: KernelTask, inputs: Inputs, how: Try) -> bool:
    """Return True if all rows have the table's columns, of plain types, and all of them stay."""
    filters = task.bloom_filters
    written = filters is None or (filters.max_distinct is None and writes_bloom_filters())
    as_usual = task.threads == 1 and written
    if not as_usual or not task.is_plain or not inputs.staged:
        return False
    if _buffer(task, how) < _LEAST_BUFFER or inputs.rows < _LEAST_ROWS * len(inputs.rows_of):
        return False
    kinds = [parse_sql_type(kind) for _, kind in task.columns]
    if not all(kind is not None and kind.name in _TYPES for kind in kinds):
        return False
    return all(
        group.is_whole
        and group.where_hidden is None
        and not group.converted
        and len(group.columns) == len(task.columns)
        for group in inputs.staged
    )


@dataclass(frozen=True, slots=True)
class _File:
    path: Path
    metadata: pq.FileMetaData
    coded: tuple[str, ...]
    """Texts that are read as the codes of their dictionaries, the same in all files."""


def _files(task: KernelTask, inputs: Inputs) -> list[_File]:
    """Return the files whose columns Arrow reads as the table's.

    Raises _NotHereError: it does not.
    """
    table = to_arrow(dict(task.columns))
    coded = {item.name for item in table if pa.types.is_string(item.type)}
    readable: list[tuple[Path, pq.FileMetaData]] = []
    size = 0
    for path in inputs.rows_of:
        if not is_safe(path):
            raise _NotHereError
        metadata = pq.read_metadata(path)
        schema = metadata.schema.to_arrow_schema()
        size += metadata.serialized_size
        if size > _FOOTERS_BYTES or {f.name: f.type for f in schema} != dict(
            zip(table.names, table.types, strict=True)
        ):
            raise _NotHereError
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
            raise _NotHereError  # no rows: not worth a second way
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
        _check_texts(group)
        self.with_nan |= {
            name
            for name in group.column_names
            if pa.types.is_floating(group[name].type) and pc.any(pc.is_nan(group[name])).as_py()
        }
        if self.writer is None:
            self.writer = self._open(group)
        self.writer.write_table(group, row_group_size=count)

    def _open(self, first: pa.Table) -> pq.ParquetWriter:
        """Open the file; its first row group says which columns get dictionaries and filters."""
        distinct = dict(_distinct(first, first.num_rows // DICTIONARY_SHARE))
        filters = self.task.bloom_filters
        filtered: dict[str, Any] = {}
        if filters is not None:
            fpp = filters.false_positives
            options = {name: {"ndv": max(n, 1), "fpp": fpp} for name, n in distinct.items()}
            filtered = {"bloom_filter_options": options}
        return pq.ParquetWriter(
            self.path,
            first.schema,
            compression="zstd",
            compression_level=self.task.compression_level,
            use_dictionary=list(distinct),
            dictionary_pagesize_limit=max(self.how.row_group_bytes // 2, 2**20),
            store_decimal_as_integer=True,
            store_schema=False,
            **filtered,
        )


def _check_texts(rows: pa.Table) -> None:
    """Raise ArrowInvalid for texts that are not UTF-8, which DuckDB refuses to read."""
    for column in rows.columns:
        for chunk in column.chunks:
            values = chunk.dictionary if pa.types.is_dictionary(chunk.type) else chunk
            if pa.types.is_string(values.type):
                values.validate(full=True)


def _distinct(rows: pa.Table, most: int) -> Iterator[tuple[str, int]]:
    """Yield the columns with at most so many values, and how many they have."""
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        if pa.types.is_boolean(column.type):
            continue  # two values need no dictionary
        if pa.types.is_dictionary(column.type):
            count = max(len(chunk.dictionary) for chunk in column.chunks)
        else:
            sample = column.slice(0, _SAMPLE_ROWS)
            if pc.count_distinct(sample).as_py() > _ALL_DIFFER * len(sample):
                continue
            count = pc.count_distinct(column).as_py()
        if count <= most:
            yield name, count
