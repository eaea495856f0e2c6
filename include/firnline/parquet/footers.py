"""Read the footers of many Parquet objects by ranged GETs, many at a time.

Arrow checks footers, but not against every damage: some make it abort the process that parses them.
So a footer that comes from elsewhere is parsed in a process that may die of it. One such process
serves all threads of this one, and is started again after such an end.
"""

from __future__ import annotations

import atexit
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from typing import IO, TYPE_CHECKING

import msgspec

from firnline.child_process import child_environment
from firnline.errors import FirnlineError, ObjectNotFoundError, PartUnreadableError
from firnline.parquet.part import PartMetadata
from firnline.store.base import Store
from firnline.store.transfer import each
from firnline.types.values import Stats

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

_INT96 = "INT96"


class FooterTask(msgspec.Struct, frozen=True):
    """One object whose footer is wanted."""

    key: str
    bytes: int


class FooterWanted(msgspec.Struct, frozen=True, kw_only=True):
    """What to look for in every footer; travels to Spark tasks as JSON."""

    columns: dict[str, str] = {}
    """Types the table already has; see ``arrow_types.from_arrow``."""
    stats: tuple[str, ...] = ()
    """Columns whose bounds are wanted."""


class FooterFacts(msgspec.Struct, frozen=True, kw_only=True):
    """One footer, or why it does not read."""

    key: str
    bytes: int
    rows: int = 0
    columns: dict[str, str] = {}
    """Column -> SQL type."""
    stats: Stats = {}
    part: PartMetadata | None = None
    """What a writer of ours says in it."""
    error: str | None = None
    """Why it does not read, or cannot be a part."""
    next_step: str = ""
    gone: bool = False
    """There is no object."""


def read_facts(store: Store, task: FooterTask, wanted: FooterWanted) -> FooterFacts:
    """One footer. Requests: one ranged GET, two for a very wide table.

    It is parsed in another process, which a damaged one may end.

    Never raises for a fault of the object; StoreError when the store fails.
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
    """The footer in the end of an object. Never raises for a fault of it, but may abort."""
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
    """A footer as plain data.

    Raises:
        PartUnreadableError: metadata of ours that does not read.
        PartSchemaError: columns that no part of a table can have.
    """
    from firnline.parquet.part import read_pairs
    from firnline.parquet.stats import from_footer
    from firnline.types.arrow import from_arrow

    return FooterFacts(
        key=task.key,
        bytes=task.bytes,
        rows=footer.num_rows,
        columns=from_arrow(arrow_schema(footer), wanted.columns),
        stats=from_footer(footer, wanted.stats),
        part=read_pairs(task.key, footer.metadata),
    )


def arrow_schema(footer: pq.FileMetaData) -> pa.Schema:
    """Columns of a footer. INT96 times (old Spark and Hive) are microseconds, as DuckDB has it."""
    import pyarrow as pa

    schema = footer.schema.to_arrow_schema()
    for index in range(footer.num_columns):
        leaf = footer.schema.column(index)
        if leaf.physical_type == _INT96 and leaf.path == leaf.name:
            place = schema.get_field_index(leaf.name)
            schema = schema.set(place, pa.field(leaf.name, pa.timestamp("us")))
    return schema


def many_facts(
    store: Store, tasks: Iterable[FooterTask], wanted: FooterWanted
) -> Iterator[FooterFacts]:
    """Footers of many objects, concurrently, in the order of the tasks; as ``read_facts``."""
    by_key: Mapping[str, FooterTask] = {task.key: task for task in tasks}
    yield from each(list(by_key), lambda key: read_facts(store, by_key[key], wanted))


def failed(task: FooterTask, error: FirnlineError, *, gone: bool = False) -> FooterFacts:
    """Why a footer cannot be told."""
    return FooterFacts(
        key=task.key, bytes=task.bytes, error=error.message, next_step=error.next_step, gone=gone
    )


LENGTH_BYTES = 4
"""Before every message: how many bytes it has, big-endian."""


# Made before there are threads: several that meet a type for the first time at once end the process
# (msgspec looks at its fields without a lock).
_ANSWER = msgspec.json.Decoder(FooterFacts).decode


class FooterRequest(msgspec.Struct, frozen=True):
    """One message to the process, as MessagePack; the answer is a FooterFacts as JSON."""

    task: FooterTask
    wanted: FooterWanted
    tail: bytes
    """The end of the object, the footer in it."""


def parse_elsewhere(task: FooterTask, wanted: FooterWanted, tail: bytes) -> FooterFacts:
    """As ``parse_here``; a footer that ends the process is told as one that is damaged."""
    message = msgspec.msgpack.encode(FooterRequest(task, wanted, tail))
    answer, code = _PROCESS.ask(message)
    if answer is not None:
        return _ANSWER(answer)
    ended = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
    error = PartUnreadableError(
        f"{task.key} has a damaged footer: the process that parsed it ended with {ended}",
        next_step="get the file anew and try again, or leave it out",
    )
    return failed(task, error)


class _Process:
    """The process, started when first asked, and again after a footer has ended it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: subprocess.Popen[bytes] | None = None
        self._owner = 0

    def ask(self, message: bytes) -> tuple[bytes | None, int]:
        """The answer, or None and the return code of the process that died of the message."""
        with self._lock:
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
            running.stdin.close()
            running.stdout.close()
            return None, running.wait()

    def close(self) -> None:
        """End it; nothing is lost."""
        with self._lock:
            if self._running is not None and self._owner == os.getpid():
                self._running.kill()
                self._running.communicate()
            self._running = None

    def _start(self) -> subprocess.Popen[bytes]:
        # After a fork the other one still talks to it.
        if self._running is None or self._owner != os.getpid():
            command = [sys.executable, "-m", "firnline.parquet.footer_worker"]
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
    """Write one message."""
    pipe.write(len(message).to_bytes(LENGTH_BYTES, "big") + message)
    pipe.flush()


def receive(pipe: IO[bytes]) -> bytes | None:
    """Read one message; None when the other side has ended."""
    length = pipe.read(LENGTH_BYTES)
    if len(length) < LENGTH_BYTES:
        return None
    message = pipe.read(size := int.from_bytes(length, "big"))
    return message if len(message) == size else None
