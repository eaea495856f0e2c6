"""How many rows of a file are decoded at once, so that they fit into memory whatever they hold.

What a footer says of a row group is the size of its pages. A dictionary has a value once that any
number of rows repeat, so of such columns the longest value counts for each row.
"""

# ruff: noqa: TID253 - rows are handled here; no DAG file imports it at parse

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from firnline.parquet.footers import refuse_unsafe_chunks
from firnline.parquet.io import VALUE_BYTES
from firnline.types.arrow import is_list

BYTES = 32 * 2**20
"""Bytes of decoded rows at once, about."""
_AT_ONCE = 16 * 2**20
"""Bytes of the pages of columns whose dictionaries are read at once, at most."""


def spans(
    path: Path, metadata: pq.FileMetaData, most: int, limit: int = BYTES
) -> Iterator[tuple[list[int], int]]:
    """Yield row groups that are read together, and how many rows of them at once.

    Where a row group could be larger, if its rows repeated what its pages hold, its columns are
    looked at (the child process for footers does so first) and the dictionaries are read.

    Args:
        path: of the file.
        metadata: its footer.
        most: rows at once, in any case.
        limit: bytes that they may take, about. A single row may take more.

    Raises PartUnreadableError: the footer is damaged.
    """
    leaves = [metadata.schema.column(index) for index in range(metadata.num_columns)]
    widths = [_width(leaf) for leaf in leaves]
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    worst = [g.num_rows * max(g.total_byte_size, sum(widths)) for g in groups]
    lists = any(leaf.max_repetition_level for leaf in leaves)
    if not lists and all(size <= limit for size in worst):
        yield from _joined([(size, most) for size in worst], most, limit)
        return
    refuse_unsafe_chunks(path)
    with closing(_Dictionaries(path, metadata)) as dictionaries:
        sizes = [_size(g, n, widths, dictionaries, limit) for n, g in enumerate(groups)]
    rows = [limit * g.num_rows // max(1, s) for g, s in zip(groups, sizes, strict=True)]
    yield from _joined(list(zip(sizes, rows, strict=True)), most, limit)


def _joined(
    groups: list[tuple[int, int]], most: int, limit: int
) -> Iterator[tuple[list[int], int]]:
    """Join row groups that are small together; of larger ones the second number says the rows."""
    small: list[int] = []
    held = 0
    for number, (size, rows) in enumerate(groups):
        if held + size > limit and small:
            yield small, most
            small, held = [], 0
        if size > limit:
            yield [number], max(1, min(most, rows))
        else:
            small, held = [*small, number], held + size
    if small:
        yield small, most


def _size(
    group: pq.RowGroupMetaData,
    number: int,
    widths: list[int],
    dictionaries: _Dictionaries,
    limit: int,
) -> int:
    """Return the bytes that a row group may take in memory."""
    worst = sum(_decoded(chunk, width) for chunk, width in _chunks(group, widths))
    if worst <= limit:
        return worst
    longest = dictionaries.longest(number, [chunk for chunk, _ in _chunks(group, widths)])
    return sum(
        _decoded(chunk, width, longest.get(chunk.path_in_schema))
        for chunk, width in _chunks(group, widths)
    )


def _chunks(
    group: pq.RowGroupMetaData, widths: list[int]
) -> Iterator[tuple[pq.ColumnChunkMetaData, int]]:
    return ((group.column(index), width) for index, width in enumerate(widths))


def _width(column: pq.ColumnSchema) -> int:
    """Return the bytes of a value of fixed length."""
    fixed = column.physical_type == "FIXED_LEN_BYTE_ARRAY"
    return max(VALUE_BYTES, column.length) if fixed else VALUE_BYTES


def _decoded(chunk: pq.ColumnChunkMetaData, width: int, longest: int | None = None) -> int:
    """Return the bytes that a column may take in memory.

    ``longest``: value of its dictionary; None: it may be all that the pages hold.
    """
    pages = int(chunk.total_uncompressed_size)
    if _repeats(chunk):
        width = max(width, pages if longest is None else longest)
    return max(pages, int(chunk.num_values) * width)


def _repeats(chunk: pq.ColumnChunkMetaData) -> bool:
    return bool(chunk.has_dictionary_page and chunk.physical_type == "BYTE_ARRAY")


class _Dictionaries:
    """The dictionaries of a file; it is opened when the first one is asked for."""

    def __init__(self, path: Path, metadata: pq.FileMetaData) -> None:
        self._path, self._metadata = path, metadata
        self._file: pq.ParquetFile | None = None

    def longest(self, group: int, chunks: Sequence[pq.ColumnChunkMetaData]) -> dict[str, int]:
        """Return the bytes of the longest value of columns; without those of which it is not known.

        Args:
            group: number of the row group.
            chunks: its columns.
        """
        found: dict[str, int] = {}
        for names in self._together([chunk for chunk in chunks if _repeats(chunk)]):
            first = next(self._opened().iter_batches(1, [group], names, use_threads=False), None)
            # A name may be the beginning of others.
            columns = {} if first is None else dict(zip(first.schema.names, first, strict=True))
            for name in names:
                given = columns.values() if len(names) == 1 else [columns[name]]
                # Of a list that is empty in the first row nothing is decoded.
                held = [values for column in given for values in _values(column) if len(values)]
                lengths = [pc.max(pc.binary_length(values)).as_py() or 0 for values in held]
                found.update({name: max(lengths)} if lengths else {})
        return found

    def _together(self, chunks: Sequence[pq.ColumnChunkMetaData]) -> Iterator[list[str]]:
        """Yield names of columns that are read at once: a call for each of many takes long.

        A field of a nested column is read by itself: its values come in an array of all of it.
        """
        schema = self._metadata.schema
        leaves = [schema.column(index) for index in range(self._metadata.num_columns)]
        count = Counter(leaf.path for leaf in leaves)  # `"s.x"`, and x of a struct s
        flat = {leaf.path for leaf in leaves if leaf.path == leaf.name and count[leaf.path] == 1}
        some: list[str] = []
        held = 0
        for chunk in chunks:
            name, size = chunk.path_in_schema, int(chunk.total_uncompressed_size)
            if name not in flat:
                yield [name]
                continue
            if some and held + size > _AT_ONCE:
                yield some
                some, held = [], 0
            some.append(name)
            held += size
        if some:
            yield some

    def _opened(self) -> pq.ParquetFile:
        if self._file is None:
            schema = self._metadata.schema
            leaves = [schema.column(index) for index in range(self._metadata.num_columns)]
            self._file = pq.ParquetFile(
                self._path,
                metadata=self._metadata,
                read_dictionary=[c.path for c in leaves if c.physical_type == "BYTE_ARRAY"],
                pre_buffer=False,
                buffer_size=2**20,
            )
        return self._file

    def close(self) -> None:
        """Close the file, if it was opened."""
        if self._file is not None:
            self._file.close()


def _values(array: pa.Array) -> Iterator[pa.Array]:
    """Yield the values of the dictionaries in an array."""
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        yield from _values(array.storage)
    elif pa.types.is_dictionary(kind):
        yield array.dictionary
    elif pa.types.is_map(kind):
        yield from (*_values(array.keys), *_values(array.items))
    elif pa.types.is_struct(kind):
        for index in range(kind.num_fields):
            yield from _values(array.field(index))
    elif is_list(kind):
        yield from _values(array.values)
