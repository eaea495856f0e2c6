"""Run a read in DuckDB: as a relation, as Arrow batches, into a file, as text."""

from __future__ import annotations

import atexit
import re
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

import duckdb
import msgspec
import pyarrow as pa

from firnline.errors import FirnlineError, KernelError, UsageError
from firnline.kernel.duckdb import CLOSED, quote_text
from firnline.kernel.faults import first_line, scratch_full
from firnline.kernel.inputs import may_be_of_a_file, sql_type
from firnline.kernel.visibility import NEEDS_PLACES, PLACE_COLUMNS
from firnline.parquet.footers import FooterTask, FooterWanted, read_facts
from firnline.read.files import PartFiles, is_gone, not_readable
from firnline.read.sql import read_query
from firnline.read.task import ReadPart, ReadTask
from firnline.store.base import Store
from firnline.types.json_values import JsonForm
from firnline.types.sql import fold_name, quote_name
from firnline.watching import repeated

Connection = duckdb.DuckDBPyConnection
Relation = duckdb.DuckDBPyRelation
_LOOK_SECONDS = 0.5
BATCH_ROWS = 65_536
"""Maximum rows of an Arrow batch."""
_MISSING = re.compile(r"No such file or directory|No files found that match the pattern")
_FORMATS = {".parquet": "FORMAT parquet, COMPRESSION zstd", ".csv": "FORMAT csv, HEADER"}
_files: WeakKeyDictionary[Connection, PartFiles] = WeakKeyDictionary()
unfinished: WeakSet[Generator[pa.RecordBatch]] = WeakSet()
"""Streams that may hold a connection."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Resource limits of a read."""

    memory: int
    """Bytes of DuckDB's buffers; sorts and the choice of one row per key spill beyond them."""
    threads: int
    spill: Path
    """Folder for spilled data; created on demand, and removed with the connection."""


def relation(task: ReadTask, store: Store, connection: Connection | None = None) -> Relation:
    """Return the rows as a relation of a connection; it is lazy.

    Without a connection the relation gets its own, with times in UTC.

    Raises:
        UsageError: with a primary key, the table has columns whose names DuckDB reserves.
        PartSchemaError: the schema names a type that DuckDB does not know.
    """
    if connection is None:
        connection = duckdb.connect()
        connection.execute("SET TimeZone = 'UTC'")
    return _rows(task, store, connection, filtered=True)


def _rows(
    task: ReadTask, store: Store, connection: Connection, *, filtered: bool = False
) -> Relation:
    """Return the rows as a relation; ``filtered`` as for ``read_query``. Raises as ``relation``."""
    return connection.sql(rows_query(task, store, connection, filtered=filtered))


def rows_query(
    task: ReadTask, store: Store, connection: Connection, *, filtered: bool = False
) -> str:
    """Return the SELECT of the rows for this connection; arguments and errors as ``_rows``."""
    files = _files.get(connection)
    if files is None:
        # The failure of a query on a caller's connection is not observed here.
        files = _register(connection, PartFiles(keep_failure=False))
    checked_task = checked(task, connection)
    number = files.add(store)

    def url(part: ReadPart) -> str:
        # With a primary key the name of a part also says which of two rows was inserted last.
        by_path = None if checked_task.primary_key else files.path(store, part)
        return by_path or files.url(number, part)

    return read_query(checked_task, url, files.partition_of, filtered=filtered)


def files_of(connection: Connection) -> PartFiles:
    """Return the file system of a connection of ``open_connection``."""
    return _files[connection]


def open_connection(limits: Limits) -> Connection:
    """Open a separate in-memory database, within limits."""
    connection = duckdb.connect(
        config={
            "threads": limits.threads,
            "memory_limit": f"{limits.memory}B",
            "temp_directory": str(limits.spill),
            **CLOSED,
        }
    )
    connection.execute("SET TimeZone = 'UTC'")
    # The order of a table's parts has no meaning, and keeping it costs memory.
    connection.execute("SET preserve_insertion_order = false")
    _register(connection, PartFiles(keep_failure=True))
    return connection


def _register(connection: Connection, files: PartFiles) -> PartFiles:
    _files[connection] = files
    connection.register_filesystem(files)
    return files


def stream(task: ReadTask, store: Store, limits: Limits) -> pa.RecordBatchReader:
    """Return the rows as Arrow batches, read on demand.

    Raises, also while it is read:
        PartGoneError, PartUnreadableError, PartSchemaError, StoreError, ScratchFullError,
        KernelError.
    """
    connection = open_connection(limits)
    try:
        with faults(connection, limits, (task, store)):
            source = _rows(task, store, connection).to_arrow_reader(BATCH_ROWS)
    except BaseException:
        connection.close()
        raise

    def batches() -> Generator[pa.RecordBatch]:
        try:
            while True:
                with faults(connection, limits, (task, store)):
                    try:
                        batch = source.read_next_batch()
                    except StopIteration:
                        return
                yield batch
        finally:
            connection.close()

    rows = batches()
    unfinished.add(rows)
    return pa.RecordBatchReader.from_batches(source.schema, rows)


@atexit.register
def close_unfinished() -> None:
    """Close the reads that are still open when the process ends.

    Once Python's shutdown has begun, Arrow no longer releases the iterator of a reader, and its
    connection would never be closed: DuckDB would then report errors on standard error.
    """
    for rows in list(unfinished):
        with suppress(ValueError):  # another thread is reading from it
            rows.close()


def count(task: ReadTask, store: Store, limits: Limits) -> int:
    """Return the number of the rows; only the columns that decide it are read.

    Errors as ``stream``.
    """
    connection = open_connection(limits)
    try:
        with faults(connection, limits, (task, store)):
            return int(_rows(task, store, connection).count("*").fetchall()[0][0])
    finally:
        connection.close()


def texts(
    task: ReadTask, store: Store, limits: Limits, limit: int | None
) -> Iterator[tuple[str | None, ...]]:
    """Yield every row with its values as text by DuckDB, None for null; errors as ``stream``."""
    yield from _cast(task, store, limits, limit, ["VARCHAR" for _ in task.columns])


def json_rows(
    task: ReadTask, store: Store, limits: Limits, limit: int | None
) -> Iterator[list[object]]:
    """Yield every row with its values as JSON has them (``json_values``); errors as ``stream``."""
    forms = [JsonForm.of(kind) for _, kind in task.columns]
    for row in _cast(task, store, limits, limit, [str(form.kind) for form in forms]):
        yield [form.value(value) for form, value in zip(forms, row, strict=True)]


def _cast(
    task: ReadTask, store: Store, limits: Limits, limit: int | None, kinds: Sequence[str]
) -> Iterator[tuple[Any, ...]]:
    """Yield every row with its values in other types, as Python has them."""
    connection = open_connection(limits)
    names = (quote_name(name) for name, _ in task.columns)
    shown = ", ".join(f"CAST({name} AS {kind})" for name, kind in zip(names, kinds, strict=True))
    try:
        with faults(connection, limits, (task, store)):
            rows = _limited(_rows(task, store, connection), limit).sql_query()
            cursor = connection.execute(f"SELECT {shown} FROM ({rows})")  # noqa: S608 -- our own
            while batch := cursor.fetchmany(1_000):
                yield from batch
    finally:
        connection.close()


def write_file(
    task: ReadTask,
    store: Store,
    limits: Limits,
    path: Path,
    limit: int | None,
    on_progress: Callable[[float], None] | None = None,
) -> int:
    """Write the rows into a new ``.parquet`` or ``.csv`` file; return their number.

    Args:
        task: the read.
        store: the table's.
        limits: of the read.
        path: of the file.
        limit: maximum number of rows; None: all.
        on_progress: takes the share that is done, about twice a second, from another thread, and
            1 at the end.

    Raises:
        UsageError: the file name has another extension.
        others: as ``stream``; the file may then exist in part.
    """
    options = _FORMATS.get(path.suffix.lower())
    if options is None:
        raise UsageError(
            f"{path.name} is not a name of a Parquet or CSV file",
            next_step="choose a name that ends in .parquet or .csv",
        )
    connection = open_connection(limits)
    try:
        with faults(connection, limits, (task, store)):
            rows = _limited(_rows(task, store, connection), limit)
            copy = f"COPY ({rows.sql_query()}) TO {quote_text(str(path))} ({options})"
            with _watched(connection, on_progress):
                return int(connection.execute(copy).fetchall()[0][0])
    finally:
        connection.close()


@contextmanager
def _watched(connection: Connection, on_progress: Callable[[float], None] | None) -> Iterator[None]:
    """Tell the share of the connection's query that is done, while it runs in this context."""
    if on_progress is None:
        yield
        return
    connection.execute("SET enable_progress_bar = true; SET enable_progress_bar_print = false")

    def look() -> None:
        percent = connection.query_progress()
        if percent >= 0:  # else DuckDB does not know yet
            on_progress(min(percent, 100) / 100)

    with repeated(look, _LOOK_SECONDS, "firnline-read-progress"):
        yield
    on_progress(1.0)


def _limited(rows: Relation, limit: int | None) -> Relation:
    return rows if limit is None else rows.limit(limit)


@contextmanager
def faults(
    connection: Connection, limits: Limits, reading: tuple[ReadTask, Store] | None = None
) -> Iterator[None]:
    """Translate errors of DuckDB and Arrow into firnline's.

    Args:
        connection: the one that is used.
        limits: of the read.
        reading: what is read, and where: where DuckDB does not say which part it cannot read, each
            is read by itself. None: the error names none then.
    """
    try:
        yield
    except FirnlineError:
        raise
    except (duckdb.Error, pa.ArrowException, OSError) as error:
        files = _files.get(connection)
        failure = None if files is None else files.take_failure()
        if failure is not None:
            raise failure from None
        raise _translated(error, files, limits, reading) from error


def _translated(
    error: Exception,
    files: PartFiles | None,
    limits: Limits,
    reading: tuple[ReadTask, Store] | None,
) -> FirnlineError:
    full = scratch_full(limits.spill, error)
    if full is not None:
        return full
    named = None if files is None else files.named_in(str(error))
    if named is not None:
        name, key = named
        if _MISSING.search(str(error)):
            return is_gone(key)
        why = first_line(error).replace(name, key)
        return not_readable(key, why, _odd(key, reading))
    if isinstance(error, duckdb.OutOfMemoryException):
        return KernelError(
            f"the read does not fit into its memory ({first_line(error)})",
            next_step="increase it, or read fewer columns or partitions at once",
        )
    # What DuckDB raises while a batch is fetched Arrow passes on as an error of its own.
    of_a_file = may_be_of_a_file(error) or not isinstance(error, duckdb.Error)
    alone = _culprit(*reading, limits) if reading and of_a_file else None
    return alone or KernelError(
        f"the read failed: {type(error).__name__}: {first_line(error)}",
        next_step="see with `firnline verify --deep --rows` whether the parts can be read; if "
        "they can, run again with --debug and report what it prints",
    )


def _culprit(task: ReadTask, store: Store, limits: Limits) -> FirnlineError | None:
    """Read each part by itself; return the error of the first that cannot be read, if any."""
    for part in task.parts:
        alone = msgspec.structs.replace(task, parts=(part,))
        connection = open_connection(limits)
        try:
            for _ in _rows(alone, store, connection).to_arrow_reader(BATCH_ROWS):
                pass
        except (duckdb.Error, pa.ArrowException, OSError) as error:
            failure = files_of(connection).take_failure() or scratch_full(limits.spill, error)
            odd = {} if failure else _odd(part.key, (alone, store))
            return failure or not_readable(part.key, first_line(error), odd)
        finally:
            connection.close()
    return None


def _odd(key: str, reading: tuple[ReadTask, Store] | None) -> Mapping[str, str]:
    """Return the columns of a part in another form than that of parts; costs a request."""
    if reading is None:
        return {}
    task, store = reading
    sizes = [part.bytes for part in task.parts if part.key == key]
    if not sizes:
        return {}
    facts = read_facts(store, FooterTask(key, sizes[0]), FooterWanted(form=True))
    return {} if facts.part is not None else facts.odd


def checked(task: ReadTask, connection: Connection, *, placed: bool = False) -> ReadTask:
    """Return the task with types as DuckDB spells them: log files may contain any text as a type.

    Args:
        task: the read.
        connection: its connection.
        placed: the query needs the places of the rows, as one with a primary key does.

    Raises as ``relation``.
    """
    spelled: dict[str, str] = {}  # DuckDB is asked once for each type, not for each column
    for name, kind in task.needed:
        if kind not in spelled:
            spelled[kind] = sql_type(connection, name, kind)
    kinds = {name: spelled[kind] for name, kind in task.needed}
    taken = {fold_name(name) for name in kinds}
    if (placed or task.primary_key) and taken.intersection(PLACE_COLUMNS):
        raise UsageError(
            f"the table has {NEEDS_PLACES}",
            next_step="merge the table or rename the column"
            if placed
            else "rename the column, or read with dedup=False",
        )
    return msgspec.structs.replace(
        task,
        needed=tuple(kinds.items()),
        columns=task.columns
        if task.cast
        else tuple((name, kinds[name]) for name, _ in task.columns),
    )
