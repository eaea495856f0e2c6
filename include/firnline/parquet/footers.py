"""Read the footers of many Parquet objects by ranged GETs, concurrently.

Arrow does not check footers completely: some damage makes it abort the process that parses them.
So untrusted footers are parsed in a child process. One child process serves all threads of this
process, and is restarted after an abort.
"""

from __future__ import annotations

import atexit
import os
import signal
import subprocess
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING

import msgspec

from firnline.child_process import child_environment, own_python
from firnline.errors import (
    FirnlineError,
    ObjectNotFoundError,
    PartSchemaError,
    PartUnreadableError,
)
from firnline.parquet.part import PartMetadata, read_pairs
from firnline.store.base import Store
from firnline.store.transfer import each
from firnline.types.order import Order, SortKey
from firnline.types.values import Bounds, Stats

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

_END = 8
"""Bytes after a footer: its length and the magic."""
_ENCRYPTION = 8
"""Field of Parquet's FileMetaData: the algorithm, of a file with encrypted columns."""
LENGTH_BYTES = 4
"""Length prefix of every message, a big-endian number of bytes."""


class FooterTask(msgspec.Struct, frozen=True):
    """An object whose footer is to be read."""

    key: str
    bytes: int


class FooterWanted(msgspec.Struct, frozen=True, kw_only=True):
    """The data to extract from every footer; sent to Spark tasks as JSON."""

    columns: dict[str, str] = {}
    """Types that the table has already; see ``types.arrow.from_arrow``."""
    stats: tuple[str, ...] = ()
    """Columns whose bounds are to be extracted."""
    groups_by: tuple[str, ...] = ()
    """Columns whose bounds are to be extracted for each row group; empty: no row groups."""
    row_groups: bool = False
    """Extract the sizes of the row groups."""
    chunks: bool = False
    """Look at each column of each row group, for somebody who will do so in another process."""
    form: bool = False
    """Look for columns that are written in another form than those of parts, in each row group."""
    anew: bool = False
    """The rows are to be written anew: leave out what has no type, and refuse days that only Spark
    reads as they were meant."""


class RowGroupFacts(msgspec.Struct, frozen=True, array_like=True):
    """One row group of a footer."""

    rows: int
    bytes: int
    """Bytes of its pages in the object."""
    bounds: tuple[Bounds | None, ...]
    """Of each column of ``FooterWanted.groups_by``, as in statistics of parts; None: any value."""


class FooterFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The data of one footer, or the reason why it cannot be read."""

    key: str
    bytes: int
    rows: int = 0
    columns: dict[str, str] = {}
    """Column -> SQL type."""
    stats: Stats = {}
    bounds: tuple[RowGroupFacts, ...] = ()
    """With ``groups_by``."""
    part: PartMetadata | None = None
    """Metadata of firnline in it."""
    sorted_by: Order = ()
    """Sort order of all rows, nulls last; empty: none, or another writer's file."""
    row_groups: tuple[tuple[int, int], ...] = ()
    """Rows and uncompressed bytes of each row group, if asked for."""
    odd: dict[str, str] = {}
    """With ``form``: columns in another form than that of parts -> what differs."""
    error: str | None = None
    """Reason why it cannot be read, or cannot be a part."""
    next_step: str = ""
    gone: bool = False
    """True if there is no object."""

    @property
    def inputs(self) -> list[str]:
        """Keys of the parts that it was made from, by its metadata.

        They lay in its folder; a name that begins with ``/`` is a path under ``_data/`` instead.
        """
        if self.part is None:
            return []
        own = self.part.partition
        folder = self.key.rpartition("/")[0]
        root = folder.removesuffix(f"/{own}") if own else folder
        names = self.part.replaces
        return [f"{root}{n}" if n.startswith("/") else f"{folder}/{n}" for n in names]


def read_facts(store: Store, task: FooterTask, wanted: FooterWanted) -> FooterFacts:
    """Read one footer. Requests: one ranged GET, two for a very wide table.

    It is parsed in a child process, which a damaged footer may abort.

    Never raises for a defect of the object; raises StoreError when the store fails.
    """
    from firnline.parquet.io import read_tail

    try:
        tail = read_tail(store, task.key, task.bytes)
    except ObjectNotFoundError as error:
        return failed(task, error, gone=True)
    except FirnlineError as error:
        if error.retryable or error.exit_code != 1:
            raise
        return failed(task, error)
    return parse_elsewhere(task, wanted, tail)


def parse_here(task: FooterTask, wanted: FooterWanted, tail: bytes) -> FooterFacts:
    """Parse the footer in the end of an object in this process, which a damaged one may abort.

    Never raises for a defect of the footer.
    """
    from firnline.parquet.io import UNREADABLE, parse_footer, unreadable

    try:
        footer = parse_footer(task.key, tail)
        try:
            return facts_of(task, footer, wanted)
        except UNREADABLE as error:
            raise unreadable(task.key, error) from None
    except FirnlineError as error:
        return failed(task, error)


def facts_of(task: FooterTask, footer: pq.FileMetaData, wanted: FooterWanted) -> FooterFacts:
    """Convert a footer to plain data.

    Raises:
        PartUnreadableError: the firnline metadata cannot be parsed.
        PartSchemaError: a part of a table cannot have these columns.
    """
    from firnline.parquet.form import refuse_julian
    from firnline.parquet.stats import from_footer
    from firnline.types.arrow import from_arrow
    from firnline.types.untyped import typed_schema

    if wanted.chunks:
        for group in map(footer.row_group, range(footer.num_row_groups)):
            _page_bytes(group)
    if wanted.anew:
        refuse_julian(footer)
    part = read_pairs(task.key, footer.metadata)
    schema = arrow_schema(footer)
    # What has no type waits for it when rows are written anew, which such a column asks for.
    typed = typed_schema(schema, wanted.columns) if wanted.form or wanted.anew else schema
    columns = from_arrow(typed, wanted.columns)
    groups = map(footer.row_group, range(footer.num_row_groups))
    sizes = ((group.num_rows, group.total_byte_size) for group in groups)
    return FooterFacts(
        key=task.key,
        bytes=task.bytes,
        rows=footer.num_rows,
        columns=columns,
        stats=from_footer(footer, wanted.stats),
        bounds=_bounds_of_groups(footer, wanted.groups_by),
        part=part,
        sorted_by=() if part is None else _sorted_by(footer),
        row_groups=tuple(sizes) if wanted.row_groups else (),
        odd=_odd(footer, schema) if wanted.form else {},
    )


def _odd(footer: pq.FileMetaData, schema: pa.Schema) -> dict[str, str]:
    """Return columns in another form than that of parts.

    Raises PartSchemaError for a VARIANT, and for days that only Spark reads as they were meant.
    """
    from firnline.parquet.form import odd_columns, refuse_julian, variant_columns
    from firnline.types.arrow import from_arrow, is_untyped

    variants = variant_columns(footer, schema)
    if variants:
        raise PartSchemaError(
            f"column {variants[0]!r} is a VARIANT, which no part can hold",
            next_step="write the file anew with the column cast to a text or a STRUCT, or leave "
            "the file out",
        )
    refuse_julian(footer)
    untyped = [field.name for field in schema if is_untyped(field.type)]
    # A name stands for its place, also of columns that have no type.
    types = dict.fromkeys(untyped, "BOOLEAN")
    odd = odd_columns(footer, from_arrow(schema, types))
    return {**odd, **dict.fromkeys(untyped, "without a type, since it holds nothing")}


def order_of_part(name: str, footer: pq.FileMetaData) -> Order:
    """Return the order of all rows of a file; none if no part of ours states one.

    Args:
        name: of the file, for the error.
        footer: its footer.

    Raises PartUnreadableError: its firnline metadata cannot be parsed.
    """
    return () if read_pairs(name, footer.metadata) is None else _sorted_by(footer)


def _sorted_by(footer: pq.FileMetaData) -> Order:
    """Return the order of all rows of a part of ours; none if it states none.

    Parquet states it for each row group, of the rows in that one, and firnline means all rows of
    the file. What others state counts for nothing: engines would believe it of a mirror.
    """
    groups = map(footer.row_group, range(footer.num_row_groups))
    stated = {group.sorting_columns for group in groups}
    if len(stated) != 1:
        return ()
    keys = stated.pop()
    if not all(0 <= key.column_index < footer.num_columns for key in keys):
        return ()
    leaves = [footer.schema.column(key.column_index) for key in keys]
    # Of a nested column a leaf is not what rows are sorted by.
    if any(key.nulls_first for key in keys) or any(leaf.path != leaf.name for leaf in leaves):
        return ()
    pairs = zip(leaves, keys, strict=True)
    return tuple(SortKey(leaf.name, key.descending) for leaf, key in pairs)


def _bounds_of_groups(
    footer: pq.FileMetaData, columns: tuple[str, ...]
) -> tuple[RowGroupFacts, ...]:
    from firnline.parquet.stats import of_row_groups

    if not columns:
        return ()
    bounds = of_row_groups(footer, columns)
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    return tuple(
        RowGroupFacts(group.num_rows, _page_bytes(group), each)
        for group, each in zip(groups, bounds, strict=True)
    )


def _page_bytes(group: pq.RowGroupMetaData) -> int:
    return sum(group.column(n).total_compressed_size for n in range(group.num_columns))


def arrow_schema(footer: pq.FileMetaData) -> pa.Schema:
    """Return the columns of a footer as somebody has them who reads the file with Arrow.

    INT96 times (old Spark, Hive) are in microseconds, as for DuckDB.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    from firnline.parquet.arrow_versions import AS_ANNOTATED

    # ``to_arrow_schema`` of the footer knows neither UUID nor JSON, and not what Arrow has written.
    nothing = pa.BufferReader(b"")
    file = pq.ParquetFile(
        nothing, metadata=footer, coerce_int96_timestamp_unit="us", **AS_ANNOTATED
    )
    return file.schema_arrow


def many_facts(
    store: Store, tasks: Iterable[FooterTask], wanted: FooterWanted
) -> Iterator[FooterFacts]:
    """Read many footers concurrently, in the order of the tasks; see ``read_facts``."""
    by_key: Mapping[str, FooterTask] = {task.key: task for task in tasks}
    yield from each(list(by_key), lambda key: read_facts(store, by_key[key], wanted))


def failed(task: FooterTask, error: FirnlineError, *, gone: bool = False) -> FooterFacts:
    """Return the result for a footer that cannot be read."""
    return FooterFacts(
        key=task.key, bytes=task.bytes, error=error.message, next_step=error.next_step, gone=gone
    )


# Created before there are threads: threads that use a type for the first time concurrently crash
# the process (msgspec inspects its fields without a lock).
_ANSWER = msgspec.json.Decoder(FooterFacts).decode


class SafetyRequest(msgspec.Struct, frozen=True, tag=True):
    """Asks the child process if footers can be parsed, as MessagePack; it answers true or false."""

    tails: tuple[bytes, ...]
    """Ends of files, with their footers."""


class FooterRequest(msgspec.Struct, frozen=True, tag=True):
    """A request to the child process, as MessagePack; the answer is a FooterFacts as JSON."""

    task: FooterTask
    wanted: FooterWanted
    tail: bytes
    """End of the object, with the footer."""


def parse_elsewhere(task: FooterTask, wanted: FooterWanted, tail: bytes) -> FooterFacts:
    """Parse a footer in the child process; one that aborts it is reported as damaged."""
    answer = _asked(FooterRequest(task, wanted, tail))
    if isinstance(answer, FooterFacts):
        return answer
    return failed(task, _damaged(task.key, answer, tail))


def ended_over(task: FooterTask, tail: bytes) -> str | None:
    """Return how the child process ended over a footer; None if this process would not end.

    Where parsing fails without that, it fails here too, with an exception.
    """
    answer = _asked(FooterRequest(task, FooterWanted(), tail))
    return answer if isinstance(answer, str) else None


def refuse_unsafe_chunks(path: Path) -> None:
    """Raise PartUnreadableError for a local file whose columns would end a process that asks.

    The child process asks first. What does not read for other reasons passes.
    """
    from firnline.parquet.io import read_local_tail

    task = FooterTask(str(path), path.stat().st_size)
    tail = read_local_tail(path)
    answer = _asked(FooterRequest(task, FooterWanted(chunks=True), tail))
    if isinstance(answer, str):
        raise _damaged(task.key, answer, tail)


def _damaged(key: str, ended: str, tail: bytes) -> PartUnreadableError:
    """Return the error for a footer over which the child process ended.

    Arrow aborts it, too, over encrypted columns behind a footer that is not encrypted.
    """
    if _has_encrypted_columns(tail):
        return PartUnreadableError(
            f"{key} has encrypted columns",
            next_step="write it without encryption and try again, or leave it out",
        )
    return PartUnreadableError(
        f"{key} has a damaged footer: the process that parsed it ended with {ended}",
        next_step="get the file again and try again, or leave it out",
    )


def _has_encrypted_columns(tail: bytes) -> bool:
    from firnline.parquet.thrift import ThriftError, decode

    length = int.from_bytes(tail[-_END:-4], "little")
    try:
        return decode(tail[-_END - length : -_END]).get(_ENCRYPTION) is not None
    except ThriftError:
        return False


def _asked(request: FooterRequest) -> FooterFacts | str:
    """Return the answer of the child process, or what it ended with."""
    answer, code = _PROCESS.ask(msgspec.msgpack.encode(request))
    if answer is not None:
        return _ANSWER(answer)
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


def is_safe(path: Path) -> bool:
    """Return True if a local file's footer can be parsed; done by the child process.

    Raises PartUnreadableError: it has no footer.
    """
    from firnline.parquet.io import read_local_tail

    task = FooterTask(path.name, path.stat().st_size)
    return parse_elsewhere(task, FooterWanted(), read_local_tail(path)).error is None


def are_safe(tails: Sequence[bytes]) -> bool:
    """Return True if the footers in the ends of files can all be parsed; done by the child process.

    One message for all of them.
    """
    answer, _ = _PROCESS.ask(msgspec.msgpack.encode(SafetyRequest(tuple(tails))))
    return answer == b"true"


def begin() -> None:
    """Start the child process, if there is none: it is ready once it is asked.

    Where none starts, whoever asks is told.
    """
    with suppress(OSError):
        _PROCESS.begin()


def are_safe_here(request: SafetyRequest) -> bool:
    """Parse footers in this process, which a damaged one may abort."""
    from firnline.parquet.io import UNREADABLE, parse_footer

    try:
        for tail in request.tails:
            arrow_schema(parse_footer("a file", tail))
    except (FirnlineError, *UNREADABLE):
        return False
    return True


class _Process:
    """The child process, started lazily, and restarted after an abort."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: subprocess.Popen[bytes] | None = None
        self._owner = 0

    def begin(self) -> None:
        """Start it without waiting for it."""
        with self._lock:
            self._start()

    def ask(self, message: bytes) -> tuple[bytes | None, int]:
        """Return the answer, or None and the return code of a process that the message aborted.

        It is asked twice: somebody else may have ended the first process.
        """
        with self._lock:
            answer, code = self._ask(message)
            return (answer, code) if answer is not None else self._ask(message)

    def _ask(self, message: bytes) -> tuple[bytes | None, int]:
        running = self._start()
        assert running.stdin is not None
        assert running.stdout is not None
        try:
            send(running.stdin, message)
            answer = receive(running.stdout)
        except BrokenPipeError:
            answer = None
        if answer is not None:
            return answer, 0
        self._running = None
        with suppress(BrokenPipeError):  # what it did not take
            running.stdin.close()
        running.stdout.close()
        return None, running.wait()

    def close(self) -> None:
        """Kill the process; it has no state to lose."""
        with self._lock:
            if self._running is not None and self._owner == os.getpid():
                self._running.kill()
                self._running.communicate()
            self._running = None

    def _start(self) -> subprocess.Popen[bytes]:
        # After a fork the parent still uses its process.
        if self._running is None or self._owner != os.getpid():
            command = own_python("firnline.parquet.footer_worker")
            self._running = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=child_environment(),
            )
            self._owner = os.getpid()
        return self._running


_PROCESS = _Process()
atexit.register(_PROCESS.close)


def send(pipe: IO[bytes], message: bytes) -> None:
    """Write a message."""
    pipe.write(len(message).to_bytes(LENGTH_BYTES, "big") + message)
    pipe.flush()


def receive(pipe: IO[bytes]) -> bytes | None:
    """Read a message; None when the other side has ended."""
    length = pipe.read(LENGTH_BYTES)
    if len(length) < LENGTH_BYTES:
        return None
    message = pipe.read(size := int.from_bytes(length, "big"))
    return message if len(message) == size else None
