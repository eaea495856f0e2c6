"""Sources of the rows of an append: tables, streams, Parquet files."""

# ruff: noqa: TID253 - rows are handled here; no DAG file imports it at parse

from __future__ import annotations

import os
import shlex
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from firnline.cores import Cores, side_by_side
from firnline.errors import PartSchemaError, PartUnreadableError, SchemaConflictError, UsageError
from firnline.meant_url import meant_url
from firnline.parquet.arrow_versions import AS_ANNOTATED
from firnline.parquet.at_once import BYTES, spans
from firnline.parquet.footers import refuse_unsafe_chunks
from firnline.parquet.form import refuse_julian, says_old_calendar
from firnline.parquet.io import UNREADABLE, read_local_footer, unreadable
from firnline.rows.fitting import UnfitError, refuse_deep
from firnline.rows.sizes import decoded_bytes
from firnline.types.arrow import from_arrow
from firnline.types.schema import SchemaUnion, added, as_known
from firnline.types.untyped import typed_schema

Rows: TypeAlias = Any
"""A pyarrow Table, RecordBatch, RecordBatchReader or iterable of record batches, or any object with
``__arrow_c_stream__``, such as a data frame or a DuckDB relation."""

BATCH_ROWS = 65_536
"""Number of rows read from a file at once, or fewer: see ``parquet.at_once``."""
_FILES_BESIDE = 3
"""Files at most that are decoded beside one."""
CAST = "cast the column to the type the table has, or append to another table"
_INSTEAD = {
    dict: "pass a list of dictionaries, one for each row, or `pyarrow.table(...)` of columns",
    list: "pass a list of dictionaries, one for each row",
    "LazyFrame": "pass what its collect() returns",
    "Series": "pass what its to_frame() returns",
}


def tables_of(data: Rows) -> Iterator[pa.Table]:
    """Yield the rows in pieces; first an empty piece if the columns are known beforehand.

    Raises:
        UsageError: ``data`` does not hold rows.
    """
    if isinstance(data, pa.Table):
        yield data
    elif isinstance(data, pa.RecordBatch):
        yield pa.Table.from_batches([data])
    elif isinstance(data, pa.RecordBatchReader):
        yield pa.Table.from_batches([], data.schema)
        for batch in data:
            yield pa.Table.from_batches([batch])
    elif hasattr(data, "__arrow_c_stream__"):
        yield from tables_of(_stream_of(data))
    elif isinstance(data, Iterable) and not isinstance(data, Mapping | str):
        for item in data:
            if not isinstance(item, pa.RecordBatch):
                raise not_rows(item)
            yield pa.Table.from_batches([item])
    else:
        raise not_rows(data)


def _stream_of(data: Rows) -> pa.RecordBatchReader:
    """Return the rows of a frame. Raises PartSchemaError: a column of objects without one type."""
    if type(data).__name__ in _INSTEAD:
        raise not_rows(data)
    _refuse_objects(data)
    try:
        return pa.RecordBatchReader.from_stream(data)
    except (pa.ArrowException, ValueError, TypeError) as error:
        # pandas gives the reason and the column as two arguments.
        plain = isinstance(error, UnicodeEncodeError)
        given = [error] if plain else error.args
        reason = "; ".join(str(each).split("\n", 1)[0] for each in given)
        raise PartSchemaError(
            f"the {type(data).__name__} does not become Arrow: {reason}",
            next_step="give each of its columns values of one type; nothing was appended",
        ) from None


def _refuse_objects(data: Rows) -> None:
    """Raise PartSchemaError for objects of Python that a frame does not turn into values.

    Of those of Polars it hands on where they are in memory; pandas follows a list that holds itself
    until the process ends.
    """
    library = type(data).__module__.partition(".")[0]
    if library == "polars":
        _refuse_addresses(data)
    elif library == "pandas":
        _refuse_deep_columns(data)


def _refuse_addresses(data: Rows) -> None:
    for name, kind in data.schema.items():
        if "Object" in str(kind):
            raise PartSchemaError(
                f"column {name!r} is {kind}: objects of Python, and no values",
                next_step="cast it to a type of values; nothing was appended",
            )


def _refuse_deep_columns(data: Rows) -> None:
    for at, (name, kind) in enumerate(data.dtypes.items()):
        try:
            if str(kind) == "object":
                refuse_deep(data.iloc[:, at], str(name))
        except UnfitError as error:
            raise PartSchemaError(
                f"column {name!r} is {error}", next_step="correct the rows; nothing was appended"
            ) from None


def not_rows(data: object) -> UsageError:
    """Return the error for an object that holds no rows, or none that are here yet."""
    kind = type(data)
    step = _INSTEAD.get(kind) or _INSTEAD.get(kind.__name__)
    if step is None and isinstance(data, Iterator):
        step = "pass list(...) of it, or give its rows one by one to a firnline.Appender"
    return UsageError(
        f"an object of type {kind.__name__} holds no rows that can be appended",
        next_step=step
        or "pass a list of dictionaries, a pyarrow Table, a RecordBatchReader, record "
        "batches, or a frame of Polars or pandas",
    )


def gather(tables: Iterable[pa.Table], chunk_bytes: int) -> Iterator[pa.Table]:
    """Join small tables of one schema and cut large ones, to about ``chunk_bytes`` each.

    Bytes are those of decoded rows: whoever takes the pieces decodes them.
    """
    held: list[pa.Table] = []
    size = 0
    for table in tables:
        for piece in _cut(table, chunk_bytes):
            more = decoded_bytes(piece)
            if held and (size + more > chunk_bytes or held[0].schema != piece.schema):
                yield pa.concat_tables(held)
                held, size = [], 0
            held.append(piece)
            size += more
    if held:
        yield pa.concat_tables(held)


def _cut(table: pa.Table, chunk_bytes: int) -> Iterator[pa.Table]:
    size = decoded_bytes(table)
    if size <= chunk_bytes or table.num_rows < 2:
        yield table
        return
    rows = max(1, table.num_rows * chunk_bytes // size)
    for start in range(0, table.num_rows, rows):
        yield table.slice(start, rows)


@dataclass(frozen=True, slots=True)
class Checked:
    """What the footers of files say together."""

    rows: int = 0
    new: dict[str, Path] = field(default_factory=dict)
    """Columns, and fields of columns, that the table does not have -> the first file with them."""


def require_file(path: Path, shown: str | None = None) -> None:
    """Raise UsageError unless there is a file that this user may read.

    Args:
        path: of this machine.
        shown: the file's name for the error; None: its path.
    """
    name = shown or str(path)
    if path.is_dir():
        raise UsageError(
            f"{name} is a folder and not a file",
            next_step="name the files in it; `firnline import TABLE FOLDER_URL` takes a whole "
            "folder",
        )
    if not path.exists():
        _refuse_url(name)
        raise UsageError(f"there is no file {name}", next_step="correct the name")
    if not path.is_file():
        raise UsageError(
            f"{name} is not a regular file: Parquet is read from its end",
            next_step="write it to a file first, and name that",
        )
    if not os.access(path, os.R_OK):
        raise UsageError(
            f"this user may not read the file {name}", next_step="give it the permission to read"
        )


def _refuse_url(name: str) -> None:
    """Raise UsageError for a URL that was given as the path of a file."""
    url = meant_url(name) or meant_url(name.replace("://", ":/", 1)) or ""
    folder, _, file = url.rpartition("/")
    if ":/" not in name:
        return
    if url.startswith("file://"):
        raise UsageError(
            f"{url} is a URL, and a path is asked for",
            next_step=f"write {url.removeprefix('file://')}",
        )
    if url:
        raise UsageError(
            f"only files of this machine are taken here, and {url} is none",
            next_step=f"`firnline import TABLE {shlex.quote(folder)}` takes those of a bucket; or "
            f"copy {file} here first",
        )


def check_files(paths: Sequence[Path], known: SchemaUnion) -> Checked:
    """Check all footers before anything is written.

    Raises:
        UsageError: no files, one that is not there or may not be read, or one twice.
        PartUnreadableError: a file is truncated, encrypted, or not Parquet.
        PartSchemaError, SchemaConflictError: columns of a file do not fit; names the file.
    """
    if not paths:
        raise UsageError("no files to append", next_step="name at least one Parquet file")
    union = known.copy()
    rows, new = 0, dict[str, Path]()
    for path in paths:
        require_file(path)
    _refuse_twice(paths)
    for path in paths:
        with wrong_usage():
            rows += read_local_footer(path).num_rows
            before = union.columns
            union.add(f"file {path}", _columns_of(path, union), next_step=CAST)
        for name in added(before, union.columns):
            new.setdefault(name, path)
    return Checked(rows, new)


@contextmanager
def wrong_usage() -> Iterator[None]:
    """Let errors about a file be those of a wrong call: nothing was begun."""
    try:
        yield
    except (PartUnreadableError, PartSchemaError, SchemaConflictError) as error:
        error.exit_code = 2
        raise


def _columns_of(path: Path, union: SchemaUnion) -> dict[str, str]:
    """Return the columns of a file, in types of the table that hold them."""
    try:
        # A column or field without a type is left out: it holds only nulls, or nothing else.
        schema = typed_schema(_file_schema(path), union.columns)
        return as_known(from_arrow(schema, union.columns), union.columns)
    except PartSchemaError as error:
        raise PartSchemaError(f"{path}: {error.message}", next_step=error.next_step) from None


def _refuse_twice(paths: Sequence[Path]) -> None:
    """Raise UsageError for a file that is named twice, also through a link."""
    seen: dict[tuple[int, int], Path] = {}
    for path in paths:
        status = path.stat()
        first = seen.setdefault((status.st_dev, status.st_ino), path)
        if first is not path:
            also = "" if str(first) == str(path) else f", as {first} and as {path}"
            raise UsageError(
                f"the file {path} is given twice{also}: its rows would be there twice",
                next_step="name it once",
            )


def _file_schema(path: Path) -> pa.Schema:
    try:
        with _open(path) as file:
            if says_old_calendar(file.metadata):
                refuse_unsafe_chunks(path)
                refuse_julian(file.metadata)
            return file.schema_arrow
    except UNREADABLE as error:
        raise unreadable(str(path), error) from None


def _open(path: Path) -> pq.ParquetFile:
    # Streamed: a row group of any size is read one buffer at a time. Old Spark and Hive write
    # timestamps as INT96, which has no unit; DuckDB reads microseconds.
    return pq.ParquetFile(
        path,
        pre_buffer=False,
        buffer_size=2**20,
        coerce_int96_timestamp_unit="us",
        **AS_ANNOTATED,
    )


def read_files(
    paths: Sequence[Path],
    tell: Callable[[int, int], None] = lambda _files, _rows: None,
    cores: Cores | None = None,
) -> Generator[pa.RecordBatch]:
    """Yield the rows of Parquet files, one file after another, in batches of bounded size.

    Memory: ``at_once.BYTES`` of decoded rows for each of at most four files.

    Args:
        paths: the files.
        tell: called with the numbers of files and rows that were taken, after each batch and file.
        cores: lends idle cores, which decode small files that come next.

    Raises:
        PartUnreadableError: names the file, even if its footer was readable.
    """
    cores = cores or Cores()
    done = taken = 0
    while done < len(paths):
        some = paths[done : done + 1 + min(max(0, int(cores.idle)), _FILES_BESIDE)]
        with ExitStack() as opened:
            for file in _begun(some, cores, opened):
                rows = 0
                for batch in file.batches():
                    rows += batch.num_rows
                    yield batch
                    tell(done, taken + rows)
                if rows != file.rows:
                    raise PartUnreadableError(
                        f"{file.path} states {file.rows} rows and has {rows}",
                        next_step="get the file again and retry, or leave it out",
                    )
                taken, done = taken + rows, done + 1
                tell(done, taken)


def _begun(paths: Sequence[Path], cores: Cores, opened: ExitStack) -> Iterator[_Begun]:
    """Begin files side by side, and yield them, without keeping the rows of those yielded."""
    jobs = [(path, BYTES) for path in paths]
    begun = deque(side_by_side(jobs, _begin, cores, BYTES * len(jobs)))
    for file in begun:
        if file.open is not None:
            opened.enter_context(file.open)
    while begun:
        yield begun.popleft()


@dataclass(frozen=True, slots=True)
class _Begun:
    """A file of which all rows are read, if they fit into memory at once, or that is open."""

    path: Path
    rows: int
    """As its footer states."""
    read: list[pa.RecordBatch] = field(default_factory=list)
    open: pq.ParquetFile | None = None
    spans: list[tuple[list[int], int]] = field(default_factory=list)
    """Row groups of the open file that are read together, and rows at once (``at_once.spans``); of
    no other file, to which the path may lead by then."""

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows. Raises PartUnreadableError."""
        yield from self.read
        if self.open is None:
            return
        with _named(self.path):
            for span in self.spans:
                if _is_whole(self.open, span):
                    yield from _whole(self.open, span)
                else:
                    groups, rows = span
                    yield from self.open.iter_batches(rows, groups)


def _begin(path: Path) -> _Begun:
    """Open a file, and read and close a small one. Raises PartUnreadableError."""
    with _named(path), ExitStack() as stack:
        file = stack.enter_context(_open(path))
        parts, rows = list(spans(path, file.metadata, BATCH_ROWS)), file.metadata.num_rows
        if len(parts) == 1 and _is_whole(file, parts[0]):
            return _Begun(path, rows, _whole(file, parts[0]))
        stack.pop_all()
        return _Begun(path, rows, open=file, spans=parts)


def _is_whole(file: pq.ParquetFile, span: tuple[list[int], int]) -> bool:
    """Return True for row groups that are read at once."""
    groups, most = span
    rows: int = sum(file.metadata.row_group(number).num_rows for number in groups)
    return rows <= most


def _whole(file: pq.ParquetFile, span: tuple[list[int], int]) -> list[pa.RecordBatch]:
    """Return the rows of row groups. Only so does Arrow decode columns side by side."""
    batches: list[pa.RecordBatch] = file.read_row_groups(span[0]).to_batches()
    return batches


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Raise PartUnreadableError, which names the file."""
    try:
        yield
    except UNREADABLE as error:
        raise unreadable(str(path), error) from None
