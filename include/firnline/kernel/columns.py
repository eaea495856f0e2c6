"""Merge a group column by column, on every idle core (RFC 25).

What is sorted is the places of the rows, by DuckDB and its order; each column is then read from all
files, put into that order and encoded by itself, so that a wide table needs memory for a few
columns instead of for all rows, and columns are done side by side. Their pages are joined as bytes.
The file is one that DuckDB could have written (``kernel.arrow_writer``).

Memory: eight bytes a row for the order (twice while it is made), 16 for the proof of rows whose
markers state no digest, and the columns under way, twice: together at most half of
``kernel_memory``, on however many cores. DuckDB makes the order before that, or meanwhile where it
takes at most a quarter of ``kernel_memory`` (``_is_light``). Scratch holds the columns besides the
output. Whatever does not fit, or Arrow cannot do, is left to DuckDB, errors of damaged inputs
included: it says which one.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from firnline.cores import Aside, Cores, side_by_side
from firnline.errors import PartUnreadableError
from firnline.kernel.arrow_reader import NotHereError, decoded, footers
from firnline.kernel.arrow_writer import (
    check_texts,
    columns_with_nan,
    is_written_by_arrow,
    open_writer,
)
from firnline.kernel.duckdb import Try, tries
from firnline.kernel.inputs import Inputs
from firnline.kernel.proof import Reading
from firnline.kernel.task import KernelTask
from firnline.kernel.visibility import PLACE_COLUMNS
from firnline.parquet.encodings import DICTIONARY_SHARE
from firnline.parquet.io import UNREADABLE, chunks_of, is_coded, leaves_of
from firnline.parquet.join import Footer, join_columns, read_footer
from firnline.parquet.write import runs_of
from firnline.types.arrow import to_arrow
from firnline.types.sql import fold_name

WIDE = 16
"""Columns from which a group that is sorted goes column by column on one core too."""
_MEMORY_SHARE = 1 / 2
"""Fraction of ``kernel_memory`` for the order and the columns; DuckDB keeps some of its own."""
_ORDER_BYTES = 16
_SORT_BYTES, _SORT_COPIES, _SORT_SHARE = 40, 4, 1 / 4
"""Memory of DuckDB for the order: bytes a row, copies of the columns that it is by, and the
fraction of ``kernel_memory`` below which columns are read meanwhile."""
_LEAST_ROWS = 1_024
"""Mean rows of a file from which its columns are read one by one: each has a price."""
_BATCH_ROWS = 8_192
_WIDE, _NUMBER = 16, 8
"""Bytes of a decimal in memory, and of any other value at most, without the bytes of a text."""
_MOST_BYTES = 2**31 - 1
"""Bytes of an array of texts at most."""
_FEW_VALUES = 4_096
"""Values of a dictionary that is written as it is; a larger one would be in every row group."""
_LEAST_GROUP = 2_048


@dataclass(frozen=True, slots=True)
class Columns:
    """One group whose rows stay as they are, or go.

    Args:
        task: the group.
        inputs: its inputs, checked.
        count: rows that stay.
        path: the new file.
        metadata: key-value pairs of its footer.
        like: returns the footer of a file that DuckDB has written for this task.
        cores: lends idle cores.
        stop_if_asked: raises if the task was told to stop.
        reading: takes all that is read, for the proof.
    """

    task: KernelTask
    inputs: Inputs
    count: int
    path: Path
    metadata: dict[str, str]
    like: Callable[[], Footer]
    cores: Cores
    stop_if_asked: Callable[[], None]
    reading: Reading | None

    def merge(self, order: Callable[[], pa.Array] | None) -> bool:
        """Write the file; return False, and leave none, if DuckDB has to.

        Args:
            order: returns for each row of the output its number among those of all files, one file
                after the other; None: all rows stay, and stay where they are.
        """
        made: list[_Piece] = []
        try:
            plan = _plan(self.task, self.inputs, self.path.parent)
            made += plan.pieces
            written = self._write(plan, order)
            columns = [written[piece].footer for piece in plan.pieces]
            with_nan = set[str]().union(*(each.with_nan for each in written.values()))
            return join_columns(columns, self.path, self.metadata, self.like(), with_nan)
        except (NotHereError, PartUnreadableError, *UNREADABLE):
            self.path.unlink(missing_ok=True)
            return False
        finally:
            for piece in made:
                piece.path.unlink(missing_ok=True)
            pa.default_memory_pool().release_unused()

    def _write(self, plan: _Plan, order: Callable[[], pa.Array] | None) -> dict[_Piece, _Written]:
        """Write the columns to files."""
        budget = int(self.task.memory * _MEMORY_SHARE) - plan.rows * _ORDER_BYTES
        budget -= 0 if self.reading is None else self.reading.bytes
        if max(piece.bytes for piece in plan.pieces) > budget:
            raise NotHereError
        # The largest first: small ones fill the memory and the time that is left.
        jobs = sorted(((each, each.bytes) for each in plan.pieces), key=lambda job: -job[1])
        light = _is_light(self.task, plan, self.count)
        with Aside(
            lambda: None if order is None else _within(order(), plan.rows),
            self.cores if light else Cores(),
        ) as places:
            if not light:
                places.result()  # there is no memory for it and for columns that are read meanwhile
            writing = _Writing(self.task, plan, places.result, self.stop_if_asked, self.reading)
            written = side_by_side(jobs, writing.write, self.cores, budget)
        return dict(zip((piece for piece, _ in jobs), written, strict=True))


def may_go_by_columns(task: KernelTask, inputs: Inputs, cores: Cores) -> bool:
    """Return True if all rows have the table's columns, as they are, and it is not slower.

    On one core DuckDB sorts a table of few columns in the same time, and Arrow moves rows that stay
    in their order in less.
    """
    if cores.idle < 1 and not (task.sort_by and len(task.columns) >= WIDE):
        return False
    if not task.leaves_out or not inputs.staged:
        return False
    names = {fold_name(name) for name, _ in task.columns}
    if inputs.rows < _LEAST_ROWS * len(inputs.rows_of) or names.intersection(PLACE_COLUMNS):
        return False
    return is_written_by_arrow(task, nested=True) and inputs.are_whole(len(task.columns))


# --- plan -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _File:
    """A file, and what its footer says."""

    path: Path
    metadata: pq.FileMetaData
    coded: frozenset[str]
    """Texts that are read as the codes of their dictionaries."""
    uncertain: frozenset[str]
    """Columns whose size is not known before they are read: pages may be short, and texts long."""
    bytes: dict[str, int]
    """Bytes of each column in memory; at most, unless it is uncertain."""


@dataclass(frozen=True, slots=True)
class _Plan:
    """The files of a group, and the pieces and row groups that are made of them."""

    files: tuple[_File, ...]
    types: dict[str, pa.DataType]
    """Of the columns."""
    pieces: tuple[_Piece, ...]
    rows: int
    group_rows: int
    """Rows of a row group of the output."""
    how: Try


@dataclass(frozen=True, slots=True)
class _Piece:
    """Columns that are written to one file."""

    path: Path
    columns: tuple[str, ...]
    bytes: int
    """Memory for them: as they were read, and in their order."""


@dataclass(frozen=True, slots=True)
class _Written:
    """The file of a piece."""

    footer: Footer
    with_nan: frozenset[str]
    """Columns that hold a NaN."""


def _plan(task: KernelTask, inputs: Inputs, folder: Path) -> _Plan:
    """Return how the files are read and written.

    Raises NotHereError: Arrow cannot read them, or sees other numbers of rows.
    """
    table = to_arrow(dict(task.columns))
    types = dict(zip(table.names, table.types, strict=True))
    files = tuple(_file(path, metadata, types) for path, metadata in footers(inputs.rows_of))
    if any(each.metadata.num_rows != inputs.rows_of[each.path] for each in files):
        raise NotHereError
    how = tries(task.memory, task.threads)[0]
    sizes = {name: sum(each.bytes[name] for each in files) for name in table.names}
    by_bytes = how.row_group_bytes * inputs.rows // max(sum(sizes.values()), 1)
    group_rows = min(task.row_group_rows, max(_LEAST_GROUP, by_bytes))
    pieces = tuple(_pieces(task, sizes, folder))
    return _Plan(files, types, pieces, inputs.rows, group_rows, how)


def _file(path: Path, metadata: pq.FileMetaData, types: Mapping[str, pa.DataType]) -> _File:
    schema = metadata.schema.to_arrow_schema()
    found = {field.name: _without_form(field.type) for field in schema}
    if found != types:
        raise NotHereError
    texts = {name for name, kind in found.items() if _is_text(kind)}
    plain, uncertain = set[str](), {f.name for f in schema if pa.types.is_nested(f.type)}
    sizes = dict.fromkeys(types, 0)
    tops = _tops(schema)
    for number, chunk in enumerate(chunks_of(metadata, range(metadata.num_row_groups))):
        top = tops[number % len(tops)]
        sizes[top] += _size(chunk)
        if top in texts and not is_coded(chunk):
            plain.add(top)
            if chunk.has_dictionary_page:
                uncertain.add(top)
    return _File(path, metadata, frozenset(texts - plain), frozenset(uncertain), sizes)


def _without_form(kind: pa.DataType) -> pa.DataType:
    """Return the type of the values, however they are kept in memory (``_as``)."""
    if pa.types.is_dictionary(kind):
        return kind.value_type
    return {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}.get(kind, kind)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind))


def _tops(schema: pa.Schema) -> list[str]:
    """Return for each column of Parquet the column of the table that it is of."""
    return [field.name for field in schema for _ in range(leaves_of(field.type))]


def _size(chunk: pq.ColumnChunkMetaData) -> int:
    logical = chunk.statistics.logical_type.type if chunk.statistics is not None else "NONE"
    each = _NUMBER if logical not in ("DECIMAL", "NONE") else _WIDE
    text = chunk.total_uncompressed_size if chunk.physical_type == "BYTE_ARRAY" else 0
    return int(chunk.num_values) * each + int(text)


def _pieces(task: KernelTask, sizes: Mapping[str, int], folder: Path) -> Iterator[_Piece]:
    """Yield the columns in their order, some at once."""
    for number, some in enumerate(runs_of([name for name, _ in task.columns])):
        needed = 2 * sum(sizes[name] for name in some)
        yield _Piece(folder / f"columns{number}.parquet", some, needed)


def _within(order: pa.Array, rows: int) -> pa.Array:
    """Return the places of rows, all of which there are: they are looked at once, not by column.

    Raises NotHereError: they are not.
    """
    ends = pc.min_max(order).as_py()
    if len(order) and (order.null_count or ends["min"] < 0 or ends["max"] >= rows):
        raise NotHereError
    return order


def _is_light(task: KernelTask, plan: _Plan, count: int) -> bool:
    """Return True if DuckDB needs little memory for the order: no row goes, and no text sorts."""
    sorts = {fold_name(key.column) for key in task.sort_by}
    kinds = [kind for name, kind in plan.types.items() if fold_name(name) in sorts]
    all_stay = task.keeps_rows and count == plan.rows
    if not all_stay or any(not pa.types.is_primitive(kind) for kind in kinds):
        return False
    row = _SORT_BYTES + _SORT_COPIES * sum(kind.bit_width for kind in kinds) / 8
    return bool(plan.rows * row <= task.memory * _SORT_SHARE)


# --- one piece ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Writing:
    """Writes pieces, in several threads."""

    task: KernelTask
    plan: _Plan
    order: Callable[[], pa.Array | None]
    """Returns the places of the rows, which may still be made."""
    stop_if_asked: Callable[[], None]
    reading: Reading | None

    def write(self, piece: _Piece) -> _Written:
        """Write the columns of a piece to its file."""
        rows, size = self._in_order(self._read(piece)), self.plan.group_rows
        check_texts(rows)
        first = self._group(rows, 0)
        with open_writer(piece.path, first, self.task, self.plan.how) as writer:
            for start in range(0, rows.num_rows, size):
                self.stop_if_asked()
                writer.write_table(self._group(rows, start) if start else first, size)
        return _Written(read_footer(piece.path), frozenset(columns_with_nan(rows)))

    def _read(self, piece: _Piece) -> dict[str, pa.ChunkedArray]:
        """Return the columns of a piece, those of all files below each other."""
        chunks: dict[str, list[pa.Array]] = {name: [] for name in piece.columns}
        left = piece.bytes
        for file in self.plan.files:
            self.stop_if_asked()
            place = 0
            for batch in _batches(file, list(piece.columns)):
                values = [self._held(name, batch.column(name)) for name in piece.columns]
                for held, each in zip(chunks.values(), values, strict=True):
                    held.append(each)
                    left -= each.nbytes
                place += batch.num_rows
                if left < 0 or place > file.metadata.num_rows:
                    raise NotHereError
                if self.reading is not None:
                    names = list(piece.columns)
                    self.reading.add(
                        file.path, place - batch.num_rows, pa.record_batch(values, names)
                    )
        columns = {name: _together(held) for name, held in chunks.items()}
        if any(len(column) != self.plan.rows for column in columns.values()):
            raise NotHereError
        return columns

    def _held(self, name: str, values: pa.Array) -> pa.Array:
        """Return values of a column in the form in which they are held."""
        return _without_useless_codes(_as(self.plan.types[name], values))

    def _in_order(self, read: dict[str, pa.ChunkedArray]) -> pa.Table:
        """Return the columns in the order of the output; nothing is left of what was read."""
        columns: dict[str, pa.ChunkedArray] = {}
        order = self.order()
        for name in list(read):
            column = read.pop(name)
            if column.nbytes > _MOST_BYTES:
                raise NotHereError
            if order is not None:
                whole = pa.chunked_array([column.combine_chunks()])
                column = pc.take(whole, order, boundscheck=False)  # ``_within``
            columns[name] = column
        return pa.table(columns)

    def _group(self, rows: pa.Table, start: int) -> pa.Table:
        """Return a row group, with values in place of codes unless it may have all of them.

        Arrow writes a dictionary as it is, and decodes what gets none: here the size is known.
        """
        group = rows.slice(start, self.plan.group_rows)
        most = min(_FEW_VALUES, min(self.plan.group_rows, rows.num_rows) // DICTIONARY_SHARE)
        for place, (name, column) in enumerate(zip(group.column_names, group.columns, strict=True)):
            if not pa.types.is_dictionary(column.type) or len(column.chunk(0).dictionary) <= most:
                continue
            plain = decoded(column, self.plan.how.row_group_bytes)
            if plain is None:
                raise NotHereError
            group = group.set_column(place, name, plain)
        return group


def _batches(file: _File, names: list[str]) -> Iterator[pa.RecordBatch]:
    """Yield some columns of a file: at once, unless short pages may hold long texts."""
    size = _BATCH_ROWS if file.uncertain.intersection(names) else file.metadata.num_rows
    coded = sorted(file.coded.intersection(names))
    with pq.ParquetFile(
        file.path, metadata=file.metadata, read_dictionary=coded, pre_buffer=False
    ) as opened:
        for batch in opened.iter_batches(max(size, 1), columns=names, use_threads=False):
            yield batch.select(names)  # a name may be the beginning of others


def _as(kind: pa.DataType, values: pa.Array) -> pa.Array:
    """Return values in a column's type, or as codes of it.

    Arrow's own schema in a file may name another type than its Parquet columns do: large texts
    (Polars), categories (pandas).

    Raises:
        NotHereError, ArrowInvalid: they are not of it.
    """
    if values.type == kind or values.type == pa.dictionary(pa.int32(), kind):
        return values
    if pa.types.is_dictionary(values.type):
        raise NotHereError
    return values.cast(kind)


def _without_useless_codes(values: pa.Array) -> pa.Array:
    """Return values in place of codes that take as much as they do."""
    if not pa.types.is_dictionary(values.type) or len(values.dictionary) <= _FEW_VALUES:
        return values
    plain = decoded(pa.chunked_array([values]), 2 * values.nbytes)
    return values if plain is None else plain.chunk(0)


def _together(chunks: list[pa.Array]) -> pa.ChunkedArray:
    """Return the values of all chunks, as codes of one dictionary if any of them are codes."""
    if any(pa.types.is_dictionary(chunk.type) for chunk in chunks):
        # It is the array itself where that is coded.
        chunks = [chunk.dictionary_encode() for chunk in chunks]
    return pa.chunked_array(chunks).unify_dictionaries()


def places_in_order(rows: pa.Table, inputs: Inputs) -> pa.Array:
    """Return the numbers of rows among those of all files, one file after the other.

    Args:
        rows: (number of the file, number of the row in it), in the order of the output.
        inputs: the files.
    """
    begins, begin = {}, 0
    for path, count in inputs.rows_of.items():
        begins[int(path.stem)] = begin
        begin += count
    first = _integers(begins.get(number, 0) for number in range(max(begins) + 1))
    numbers, places = (rows.column(n).combine_chunks() for n in range(2))
    return pc.add(first.take(numbers), places)


def _integers(numbers: Iterable[int]) -> pa.Array:
    """Return numbers as an array: ``pyarrow.array`` imports pandas where there is one (0.2 s)."""
    held = array("q", numbers)
    return pa.Array.from_buffers(pa.int64(), len(held), [None, pa.py_buffer(held)])
