"""Give a read as Arrow batches: parts that hold the rows as they are by Arrow, others by DuckDB.

Arrow decodes a part in about four fifths of the CPU time in which DuckDB decodes and converts
it. DuckDB reads what has a condition (it also skips by Bloom filters) or one row per key, and parts
in which rows are hidden, or in which a column has another name or type.
"""

from __future__ import annotations

import re
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from firnline.errors import FirnlineError
from firnline.parquet.io import UNREADABLE
from firnline.read import duckdb
from firnline.read.arrow import misfit
from firnline.read.duckdb import BATCH_ROWS, Limits
from firnline.read.files import WHOLE, PartFile, PartFiles, is_gone, not_readable
from firnline.read.task import ReadPart, ReadTask
from firnline.store.base import Store
from firnline.types.arrow import to_arrow
from firnline.types.schema import normalise
from firnline.types.sql import fold_name

GAP = 2**14
"""Maximum bytes between two columns that are fetched with one request; as in DuckDB."""
_SMALL_GROUP = 16 * 2**20
"""Maximum bytes, not compressed, of a row group that is decoded at once."""
SAME = re.compile(
    r"U?(TINYINT|SMALLINT|INTEGER|BIGINT)|FLOAT|DOUBLE|BOOLEAN|VARCHAR|BLOB|DATE|DECIMAL\(.*\)"
    r"|TIMESTAMP( WITH TIME ZONE)?"
)
"""Types for which Arrow's reader and DuckDB give the same Arrow type, with the same values."""
_Batches = Iterator[pa.RecordBatch]
_Opened = tuple[ReadPart, _Batches]
"""A part and its batches that are left."""


class _Ended(NamedTuple):
    """The end of a thread's work."""

    error: BaseException | None


class _UnlikeError(Exception):
    """A part has a column under another name or type than the table."""


def stream(task: ReadTask, store: Store, limits: Limits) -> pa.RecordBatchReader:
    """Return the rows as Arrow batches in no order, read on demand.

    Memory: ``limits.memory`` for DuckDB's buffers, or for batches that are decoded ahead; a batch,
    and per thread its first batch and the columns of one row group.

    Raises, also while it is read: as ``duckdb.stream``.
    """
    plain = [part for part in task.parts if part.as_stored]
    if not plain or not _is_plain(task):
        return duckdb.stream(task, store, limits)
    schema = to_arrow(dict(task.columns))
    rows = _rows(task, plain, _Decoder(store, schema), limits)
    duckdb.unfinished.add(rows)
    return pa.RecordBatchReader.from_batches(schema, rows)


def _is_plain(task: ReadTask) -> bool:
    """Return True if every row of a part is wanted, with the values that the table has."""
    if task.primary_key or task.where is not None or not task.columns:
        return False
    table = {(name, normalise(kind)) for name, kind in task.needed}
    asked = [(name, normalise(kind)) for name, kind in task.columns]
    return all(column in table and SAME.fullmatch(column[1]) for column in asked)


def _rows(
    task: ReadTask, plain: Sequence[ReadPart], decoder: _Decoder, limits: Limits
) -> Generator[pa.RecordBatch]:
    """Yield the rows of the plain parts, and then those of all others."""
    ahead = Ahead(decoder.batches, limits, deque(plain))
    with closing(ahead.batches()) as batches:
        for batch in batches:
            for start in range(0, len(batch), BATCH_ROWS):
                yield batch.slice(start, BATCH_ROWS)
    left = [*(part for part in task.parts if not part.as_stored), *ahead.unlike]
    if left:
        others = msgspec.structs.replace(task, parts=tuple(left))
        yield from duckdb.stream(others, decoder.store, limits)


@dataclass
class Ahead:
    """Decodes several parts at a time, as many as threads and memory allow."""

    decode: Callable[[ReadPart], _Batches]
    limits: Limits
    todo: deque[ReadPart]
    unlike: list[ReadPart] = field(default_factory=list)
    """Parts that were not decoded."""
    _open: list[_Opened] = field(default_factory=list)
    """Parts that have been begun, and that no thread decodes now."""
    _done: SimpleQueue[pa.RecordBatch | _Ended] = field(default_factory=SimpleQueue)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _working: int = 0
    """Threads that go on, or are about to begin."""
    _wanted: int = 0
    """Batches that are being decoded, or are and were not taken."""
    _largest: int = 1
    """Bytes of the largest batch until now."""
    _closed: bool = False

    def batches(self) -> Generator[pa.RecordBatch]:
        """Yield all batches. No thread waits for the reader: Python joins them when it ends."""
        pool = ThreadPoolExecutor(self.limits.threads, "firnline-decode")
        try:
            left = self._start(pool)  # threads of which the end was not taken
            while left:
                batch = self._take()
                # Before the reader works on it, and also for threads that have just ended.
                left += self._start(pool)
                if batch is None:
                    left -= 1
                else:
                    yield batch
        finally:
            self._closed = True
            pool.shutdown(wait=True, cancel_futures=True)

    def _take(self) -> pa.RecordBatch | None:
        """Wait for a batch; None: a thread has ended. Raises what made it end."""
        taken = self._done.get()
        if not isinstance(taken, _Ended):
            with self._lock:
                self._wanted -= 1
            return taken
        try:
            if taken.error is not None:
                raise taken.error
        finally:
            del taken  # else the error, by its frames, would keep itself and all that they hold
        return None

    def _most(self) -> int:
        """Return the maximum of ``_wanted``: with two for a thread none waits for the next one."""
        return max(1, min(2 * self.limits.threads, self.limits.memory // self._largest))

    def _start(self, pool: ThreadPoolExecutor) -> int:
        """Let threads work; return how many began."""
        begun = 0
        with self._lock:
            while self._working < self.limits.threads and self._wanted < self._most():
                opened = self._open.pop() if self._open else self._next()
                if opened is None:
                    break
                self._wanted += 1
                self._working += 1
                begun += 1
                pool.submit(self._work, opened)
        return begun

    def _next(self) -> _Opened | None:
        """Begin a part. The caller holds the lock."""
        if not self.todo:
            return None
        part = self.todo.popleft()
        return part, self.decode(part)

    def _work(self, opened: _Opened | None) -> None:
        """Decode until there is no more part, or as many batches as may be wait to be taken.

        A thread that had to be given every batch would wait for the reader before each.
        """
        try:
            while opened is not None:
                opened = self._after(opened, self._decoded(*opened))
        except BaseException as error:  # noqa: BLE001 -- the reader raises it
            self._done.put(_Ended(error))
        else:
            self._done.put(_Ended(None))

    def _decoded(self, part: ReadPart, rows: _Batches) -> pa.RecordBatch | None:
        """Return the next batch; None: the part has no more."""
        try:
            return next(rows, None)
        except _UnlikeError:
            with self._lock:
                # Parts of a table look alike: the others are not opened to find out.
                self.unlike += [part, *self.todo]
                self.todo.clear()
            return None

    def _after(self, opened: _Opened, batch: pa.RecordBatch | None) -> _Opened | None:
        """Give a batch to the reader; return what to decode next, None for nothing."""
        with self._lock:
            if batch is None:
                following = None if self._closed else self._next()
                self._wanted -= following is None
                self._working -= following is None
                return following
            self._largest = max(self._largest, batch.nbytes)
            self._done.put(batch)
            if self._wanted < self._most() and not self._closed:
                self._wanted += 1
                return opened
            self._open.append(opened)
            self._working -= 1
            return None


class _Decoder:
    """Decodes parts of one table."""

    def __init__(self, store: Store, schema: pa.Schema) -> None:
        self.store = store
        self._schema = schema
        self._files = PartFiles(keep_failure=False)

    def batches(self, part: ReadPart) -> Generator[pa.RecordBatch]:
        """Yield the rows of a part. Raises _UnlikeError before the first one."""
        with opened(part, self.store, self._files) as stored:
            yield from map(self._whole, stored.batches(self._held(stored.schema)))

    def _held(self, stored: pa.Schema) -> list[str]:
        """Return the columns that a part has. Raises _UnlikeError."""
        twice = len({fold_name(name) for name in stored.names}) < len(stored.names)
        if twice or misfit(stored, self._schema) is not None:
            raise _UnlikeError
        names = [name for name in self._schema.names if name in stored.names]
        if any(stored.field(name).type != self._schema.field(name).type for name in names):
            raise _UnlikeError
        return names

    def _whole(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return a batch of the table's columns, checked as DuckDB does: texts are UTF-8."""
        columns = []
        for kind in self._schema:
            if kind.name not in rows.schema.names:
                columns.append(pa.nulls(rows.num_rows, kind.type))
                continue
            columns.append(rows.column(kind.name))
            if pa.types.is_string(kind.type):
                _check_text(columns[-1])
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)


@dataclass(frozen=True, slots=True)
class Stored:
    """An open part: its columns as they are stored."""

    file: pq.ParquetFile
    source: str | PartFile

    @property
    def schema(self) -> pa.Schema:
        """The columns, with the types that Arrow reads."""
        return self.file.schema_arrow

    @property
    def rows(self) -> int:
        """Number of rows."""
        return int(self.file.metadata.num_rows)

    def batches(self, names: list[str]) -> _Batches:
        """Yield columns of all rows; without any, batches of as many rows.

        Requests: one per row group, more for columns that lie apart; none if the part is small.
        """
        for number in range(self.file.num_row_groups):
            group = self.file.metadata.row_group(number)
            if not group.num_rows:
                continue  # other writers make row groups without rows, too
            if isinstance(self.source, PartFile) and self.source.size > WHOLE:
                self.source.hold(_spans(group, names))
            if names:
                rows = _rows_at_once(group)
                yield from self.file.iter_batches(rows, [number], names, use_threads=False)
            else:
                yield from _nothing(group.num_rows)


@contextmanager
def opened(part: ReadPart, store: Store, files: PartFiles) -> Iterator[Stored]:
    """Open a part, with one request for its footer; what fails in the block names the part.

    Raises:
        PartGoneError, PartUnreadableError, StoreError.
    """
    try:
        path = files.path(store, part)
        source = path or PartFile(files, files.url(files.add(store), part))
        with pq.ParquetFile(source, pre_buffer=path is not None) as file:
            yield Stored(file, source)
    except FirnlineError:
        raise
    except FileNotFoundError:
        raise is_gone(part.key) from None
    except UNREADABLE as error:
        raise not_readable(part.key, str(error).split("\n", 1)[0]) from None


def _check_text(column: pa.StringArray) -> None:
    """Raise pa.ArrowInvalid for text that is not UTF-8; one pass over all bytes tells ASCII."""
    data = column.buffers()[2]
    if data is not None and np.frombuffer(data, np.int8).min(initial=0) < 0:
        column.validate(full=True)


def _rows_at_once(group: pq.RowGroupMetaData) -> int:
    """Return the rows of a batch: a small row group is decoded whole, its rest would cost more."""
    if group.num_rows <= 2 * BATCH_ROWS and group.total_byte_size <= _SMALL_GROUP:
        return int(group.num_rows)
    return BATCH_ROWS


def _nothing(rows: int) -> _Batches:
    for start in range(0, rows, BATCH_ROWS):
        nothing = pa.nulls(min(BATCH_ROWS, rows - start))
        yield pa.RecordBatch.from_arrays([nothing], names=[""])


def _spans(group: pq.RowGroupMetaData, names: list[str]) -> list[tuple[int, int]]:
    """Return (start, end) of the bytes of columns; those that lie close together are one."""
    asked, spans = set(names), list[tuple[int, int]]()
    for number in range(group.num_columns):
        column = group.column(number)
        if column.path_in_schema in asked:
            start = column.data_page_offset
            if column.has_dictionary_page:
                start = min(start, column.dictionary_page_offset)
            spans.append((start, start + column.total_compressed_size))
    joined: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if joined and start - joined[-1][1] <= GAP:
            joined[-1] = joined[-1][0], max(end, joined[-1][1])
        else:
            joined.append((start, end))
    return joined
