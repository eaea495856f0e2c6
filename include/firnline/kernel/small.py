"""Merge groups of some thousand rows by Arrow, in memory: no staged file, no database (RFC 23).

What a group costs apart from its rows decides over a table of many small files. The output is one
that DuckDB could have written (``kernel.arrow_writer``), sorted in its order. Whatever is not plain
about a group, or fails, is left to DuckDB, errors of damaged inputs included: it says which one.

Memory: the bytes of the inputs, at most ``_BYTES``, and three times their rows, at most a row group
in memory each (``Try.row_group_bytes``): a quarter of ``kernel_memory``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from firnline.errors import PartUnreadableError
from firnline.kernel.arrow_reader import NotHereError, decoded
from firnline.kernel.arrow_writer import (
    check_texts,
    columns_with_nan,
    is_written_by_arrow,
    open_writer,
)
from firnline.kernel.duckdb import Try, tries
from firnline.kernel.outputs import Produced, Written, hashes_of
from firnline.kernel.task import KernelInput, KernelTask
from firnline.parquet.footers import are_safe
from firnline.parquet.io import UNREADABLE, VALUE_BYTES, chunks_of, tail_in
from firnline.parquet.join import Footer, end_of, note, split_file, take_schema
from firnline.parquet.part import DIGEST_KEY
from firnline.parquet.stats import from_footer, from_table
from firnline.types.arrow import to_arrow
from firnline.types.digests import Digest, parse_digest, total
from firnline.types.order import SortKey
from firnline.types.sql import fold_name, parse_sql_type
from firnline.types.values import Stats

PER_KERNEL = 4
"""Small groups that share the memory of one kernel: most of their time they wait for the store."""
_BYTES = 4 * 2**20
"""Bytes of all inputs at most."""
_ROWS = 65_536
"""Rows of all inputs at most: above, DuckDB is as quick."""
_CODED_BYTES = 2**16
"""Bytes of a column of texts from which it is decoded only once its size in memory is known."""
_NAME = Path("output0.parquet")
"""Of what is no file, for errors."""
_INEXACT = frozenset({"DOUBLE", "FLOAT"})
"""Types with NaN, which Arrow sorts behind all numbers in either direction."""


def is_small(task: KernelTask) -> bool:
    """Return True if Arrow may merge a group in memory, by what the task says of it."""
    if not task.keeps_rows or task.slice is not None or task.conversions:
        return False
    if not all(map(_is_plain, task.inputs)):
        return False
    return _fits(task) and _is_sortable(task.columns, task.sort_by) and is_written_by_arrow(task)


def _is_plain(source: KernelInput) -> bool:
    """Return True if all rows of an input stay, under the names and types that they have."""
    changed = source.where_hidden is not None or source.sources or source.fitting.casts
    return not changed and source.row_groups is None and source.rows is not None


def _fits(task: KernelTask) -> bool:
    rows = sum(source.rows or 0 for source in task.inputs)
    return 0 < rows <= _ROWS and sum(source.bytes for source in task.inputs) <= _BYTES


@lru_cache(maxsize=16)
def _is_sortable(columns: tuple[tuple[str, str], ...], sort_by: tuple[SortKey, ...]) -> bool:
    """Return True if Arrow sorts as DuckDB does: NaN is the greatest number, nulls come last."""
    kinds = {fold_name(name): parse_sql_type(kind) for name, kind in columns}
    for key in sort_by:
        kind = kinds.get(fold_name(key.column))
        if kind is None or (key.descending and kind.name in _INEXACT):
            return False
    return True


@dataclass(frozen=True, slots=True)
class SmallGroup:
    """One group in memory.

    Args:
        task: the group; ``is_small``.
        inputs: the bytes of its inputs, in their order.
        metadata: key-value pairs of its footer.
        like: returns the footer of a file that DuckDB has written for this task.
        stop_if_asked: raises if the task was told to stop.
    """

    task: KernelTask
    inputs: Sequence[bytes]
    metadata: Mapping[str, str]
    like: Callable[[], Footer]
    stop_if_asked: Callable[[], None]

    def merge(self) -> Produced | None:
        """Return the output, in memory; None if DuckDB has to merge the group.

        The rows are proven as in ``kernel.proof``: the digest of those that were read, or that the
        markers state, has to be that of the output, read back.
        """
        try:
            rows = self._read()
            self.stop_if_asked()
            output = self._made(self._sorted(rows))
        except (NotHereError, PartUnreadableError, *UNREADABLE):
            return None
        self.stop_if_asked()
        return Produced(rows.num_rows, 0, 0, 0, (output,), {})

    def _read(self) -> pa.Table:
        """Return all rows, in the order of the inputs and with the columns of the table."""
        if not are_safe([tail_in(data) for data in self.inputs]):
            raise NotHereError
        schema, limit = _schema(self.task.columns), self._how.row_group_bytes
        tables: list[pa.Table] = []
        for data in self.inputs:
            tables.append(_rows_of(data, schema, limit))
            limit -= tables[-1].nbytes
            if limit < 0:
                raise NotHereError
        rows = pa.concat_tables(tables)
        if not rows.num_rows:
            raise NotHereError
        check_texts(rows)
        return rows

    def _sorted(self, rows: pa.Table) -> pa.Table:
        if not self.task.sort_by:
            return rows
        names = {fold_name(name): name for name in rows.column_names}
        keys = [
            (names[fold_name(key.column)], "descending" if key.descending else "ascending")
            for key in self.task.sort_by
        ]
        return rows.take(pc.sort_indices(rows, sort_keys=keys))  # nulls at the end

    def _made(self, rows: pa.Table) -> Written:
        """Return the output, proven."""
        pages, footer = split_file(_NAME, self._encoded(rows))
        if not take_schema(footer, self.like(), columns_with_nan(rows)):
            raise NotHereError
        digest = self._digest(rows)
        pairs = {} if digest is None else {DIGEST_KEY: str(digest)}
        order = note(footer, self.task.sort_by, pairs)
        data = pages + end_of(footer)
        back = pq.ParquetFile(pa.BufferReader(data), pre_buffer=False)
        written = back.read(use_threads=False)
        self._prove(rows, digest, written)
        return Written(
            data,
            len(data),
            back.metadata.num_rows,
            self._stats(back.metadata, written),
            hashes_of(self.task, data),
            digest=digest,
            sorted_by=order,
        )

    def _encoded(self, rows: pa.Table) -> bytes:
        size = self.task.row_group_rows
        sink = pa.BufferOutputStream()
        with open_writer(sink, rows.slice(0, size), self.task, self._how) as writer:
            writer.add_key_value_metadata({**self.metadata, "firnline.rows": str(rows.num_rows)})
            writer.write_table(rows, row_group_size=size)
        data: bytes = sink.getvalue().to_pybytes()
        return data

    def _digest(self, rows: pa.Table) -> Digest | None:
        """Return the digest of the inputs, which the output has to have; None if nobody knows it.

        Of inputs that all state theirs the rows are not hashed: a part with other rows than its
        marker states fails the proof.
        """
        stated = [parse_digest(source.digest) for source in self.task.inputs]
        known = [each for each in stated if each is not None]
        if len(known) == len(stated):
            return total(known)
        if self.task.proof == "counts":
            return None
        # It needs numpy, which executors have only where rows are proven, split or hashed.
        from firnline.types.rowhash import digest_of

        return digest_of(rows)

    def _prove(self, rows: pa.Table, digest: Digest | None, written: pa.Table) -> None:
        """Compare the output, read back, with the rows that were read.

        Raises NotHereError: it has another digest than the inputs, or another number of rows.
        """
        if written.num_rows != rows.num_rows:
            raise NotHereError
        if self.task.proof == "counts":
            return
        from firnline.types.rowhash import digest_of

        if digest_of(written) != digest:
            raise NotHereError

    def _stats(self, footer: pq.FileMetaData, rows: pa.Table) -> Stats:
        names = set(rows.column_names)
        wanted = [name for name in self.task.stats_columns if name in names]
        stats = from_footer(footer, wanted)
        return stats | from_table(rows, [name for name in wanted if name not in stats])

    @property
    def _how(self) -> Try:
        return tries(self.task.memory, self.task.threads)[0]


@lru_cache(maxsize=16)
def _schema(columns: tuple[tuple[str, str], ...]) -> pa.Schema:
    """Return the schema of a table, which many groups have."""
    return to_arrow(dict(columns))


def _rows_of(data: bytes, schema: pa.Schema, limit: int) -> pa.Table:
    """Return the rows of a file.

    Raises:
        NotHereError: its columns are not exactly those of the schema, or its rows take more than
            so many bytes.
    """
    file = pq.ParquetFile(pa.BufferReader(data), pre_buffer=False)
    metadata = file.metadata
    found = metadata.schema.to_arrow_schema()
    if len(found) != len(schema) or {f.name: f.type for f in found} != {
        f.name: f.type for f in schema
    }:
        raise NotHereError
    if metadata.num_rows * len(schema) * VALUE_BYTES > limit:
        raise NotHereError
    if coded := _coded(metadata, schema):
        source = pa.BufferReader(data)
        file = pq.ParquetFile(source, metadata=metadata, pre_buffer=False, read_dictionary=coded)
    rows = file.read(use_threads=False)
    columns = [decoded(rows.column(name), limit) for name in schema.names]
    if [None if column is None else column.type for column in columns] != schema.types:
        raise NotHereError
    return pa.Table.from_arrays(columns, schema=schema)


def _coded(metadata: pq.FileMetaData, schema: pa.Schema) -> list[str]:
    """Return the texts whose dictionary may hold long values that many rows share."""
    texts = {field.name for field in schema if pa.types.is_string(field.type)}
    texts |= {field.name for field in schema if pa.types.is_binary(field.type)}
    return sorted(
        {
            chunk.path_in_schema
            for chunk in chunks_of(metadata, range(metadata.num_row_groups))
            if chunk.path_in_schema in texts
            and chunk.has_dictionary_page
            and chunk.num_values * chunk.total_uncompressed_size > _CODED_BYTES
        }
    )
