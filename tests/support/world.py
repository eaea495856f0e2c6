"""A world of one's own for tests: a clock that is set, ids that are counted, a store in memory."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO
from zlib import crc32

from firnline.errors import (
    ObjectExistsError,
    ObjectNotFoundError,
    OutcomeUnknownError,
    StoreUnavailableError,
)
from firnline.ids import format_uuid7
from firnline.paths import Root, TablePaths
from firnline.settings.load import TableSettings
from firnline.store.base import Counters, Deleted, ObjectMeta
from firnline.store.listing import passed_over, without_markers
from firnline.table import Table

START_MS = 1_700_000_000_000


@dataclass
class SetClock:
    """Stands still unless told to move; sleeping moves it."""

    now: int = START_MS
    elapsed: int = 1_000

    def now_ms(self) -> int:
        return self.now

    def elapsed_ms(self) -> int:
        return self.elapsed

    def sleep(self, seconds: float) -> None:
        self.advance(int(seconds * 1000))

    def advance(self, ms: int) -> None:
        """Both clocks go on."""
        self.now += ms
        self.elapsed += ms


@dataclass
class CountedIds:
    """UUIDv7 whose random part is a counter."""

    count: int = 0

    def uuid7(self, now_ms: int) -> str:
        self.count += 1
        return format_uuid7(now_ms, self.count)

    def secret(self) -> str:
        return f"{self.count:064x}"


class MemoryStore:
    """An object store with create-only puts in a dictionary; ``objects`` is open to tests."""

    def __init__(self, clock: SetClock) -> None:
        self.clock = clock
        self.objects: dict[str, tuple[bytes, int]] = {}
        self._counters = Counters()
        self.folder_markers: set[str] = set()

    @property
    def counters(self) -> Counters:
        return self._counters

    def put_new(self, key: str, data: bytes) -> None:
        self._counters.put += 1
        if key in self.objects:
            raise ObjectExistsError(f"{key} exists", next_step="read it back")
        self._write(key, data)

    def put_file(self, key: str, file: Path | bytes) -> None:
        self._counters.put += 1
        self._write(key, file if isinstance(file, bytes) else file.read_bytes())

    def copy(self, source: str, key: str) -> None:
        self._counters.put += 1
        if source not in self.objects:
            raise ObjectNotFoundError(f"{source} is not there", next_step="look for it")
        self.objects[key] = (self.objects[source][0], self.clock.now)

    def _write(self, key: str, data: bytes) -> None:
        self.objects[key] = (data, self.clock.now)
        self._counters.bytes_out += len(data)

    def get(self, key: str) -> bytes:
        self._counters.get += 1
        if key not in self.objects:
            raise ObjectNotFoundError(f"{key} is not there", next_step="look for it")
        data = self.objects[key][0]
        self._counters.bytes_in += len(data)
        return data

    def get_range(self, key: str, start: int, length: int) -> bytes:
        return self.get(key)[start : start + length]

    def get_file(self, key: str, path: Path) -> int:
        return path.write_bytes(self.get(key))

    def get_range_into(self, key: str, start: int, length: int, file: BinaryIO) -> None:
        file.write(self.get_range(key, start, length))

    def get_many(self, keys: Collection[str]) -> Iterator[tuple[str, bytes | None]]:
        for key in keys:
            try:
                yield key, self.get(key)
            except ObjectNotFoundError:
                yield key, None

    def get_heads(self, keys: Sequence[str], length: int) -> Iterator[tuple[str, bytes | None]]:
        for key, data in self.get_many(keys):
            yield key, None if data is None else data[:length]

    def list(self, prefix: str, start_after: str | None = None) -> Iterator[ObjectMeta]:
        self._counters.list += 1
        return without_markers(self._listed(prefix, start_after), prefix, self.folder_markers.add)

    def _listed(self, prefix: str, start_after: str | None) -> Iterator[ObjectMeta]:
        for key in sorted(self.objects):
            if key.startswith(prefix) and (start_after is None or key > start_after):
                data, modified = self.objects[key]
                yield ObjectMeta(key, len(data), modified, f"{crc32(data):x}")

    def list_folders(self, prefix: str) -> Iterator[str]:
        self._counters.list += 1
        below = (key.removeprefix(prefix) for key in self.objects if key.startswith(prefix))
        names = {key.partition("/")[0] for key in below if "/" in key}
        return iter(sorted(f"{prefix}{name}/" for name in names if name))

    def head(self, key: str) -> ObjectMeta:
        self._counters.head += 1
        if key not in self.objects:
            raise ObjectNotFoundError(f"{key} is not there", next_step="look for it")
        data, modified = self.objects[key]
        return ObjectMeta(key, len(data), modified, f"{crc32(data):x}")

    def delete_many(self, keys: Iterable[str]) -> Iterator[Deleted]:
        keys = list(keys)
        self._counters.delete += (len(keys) + 999) // 1000
        for key in keys:
            self.objects.pop(key, None)
            yield Deleted(key)


class Crashed(BaseException):
    """What a crash feels like to the code it hits: from then on no request has an effect."""


def _sigterm() -> SystemExit:
    """As a handler of SIGTERM raises it (Airflow's, or ``sys.exit(128 + SIGTERM)``)."""
    return SystemExit(143)


INTERRUPTS: Mapping[str, Callable[[], BaseException]] = {
    "Ctrl-C": KeyboardInterrupt,
    "SIGTERM": _sigterm,
    "out of memory": MemoryError,
    "cancelled thread": concurrent.futures.CancelledError,
    "cancelled task": asyncio.CancelledError,
}
"""What ends a run from outside while its process lives on, and its ``except`` clauses run."""
INTERRUPTED = (KeyboardInterrupt, SystemExit, MemoryError, concurrent.futures.CancelledError,
               asyncio.CancelledError)  # fmt: skip


@dataclass(frozen=True)
class Fault:
    """At which store call something happens, and what."""

    at: int
    kind: str
    """before: dies before the call has an effect; after: dies after; lost: the call has its
    effect and its answer is lost, after every retry of the client."""
    interrupt: str = ""
    """Of INTERRUPTS: instead of dying the process is interrupted there and can go on asking."""


@dataclass
class FaultyStore:
    """Any store, with one fault at one call. Streams are one call each, as seen by the caller."""

    inner: Any
    fault: Fault | None = None
    calls: list[str] = field(default_factory=list)
    dead: bool = False
    """The process has died: what runs while it unwinds reaches the store no more."""
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @property
    def counters(self) -> Counters:
        counters: Counters = self.inner.counters
        return counters

    @property
    def folder_markers(self) -> Collection[str]:
        return passed_over(self.inner)

    def _call(self, name: str, act: Callable[[], Any], *, put: bool = False) -> Any:
        if self.dead:
            raise Crashed(name)
        kind = self._next(name)
        if kind == "before":
            self._end(name)
        try:
            answer = act()
        finally:  # also where the answer is an error
            if kind == "after":
                self._end(name)
        if kind == "lost" and put:
            raise OutcomeUnknownError(f"no answer to {name}", next_step="read it back")
        if kind == "lost":
            raise StoreUnavailableError(f"no answer to {name}", next_step="try again")
        return answer

    def _end(self, name: str) -> None:
        if self.fault is not None and self.fault.interrupt:
            error = INTERRUPTS[self.fault.interrupt]()
            raise error
        self.dead = True
        raise Crashed(name)

    def _next(self, name: str) -> str:
        """Count a call; what is to happen to it, or nothing."""
        with self._lock:  # copies are made by several threads
            index = len(self.calls)
            self.calls.append(name)
        hit = self.fault is not None and self.fault.at == index
        return self.fault.kind if self.fault is not None and hit else ""

    def put_new(self, key: str, data: bytes) -> None:
        self._call(f"put {key}", lambda: self.inner.put_new(key, data), put=True)

    def put_file(self, key: str, file: Path | bytes) -> None:
        self._call(f"put {key}", lambda: self.inner.put_file(key, file), put=True)

    def copy(self, source: str, key: str) -> None:
        self._call(f"put {key}", lambda: self.inner.copy(source, key), put=True)

    def get(self, key: str) -> bytes:
        data: bytes = self._call(f"get {key}", lambda: self.inner.get(key))
        return data

    def get_range(self, key: str, start: int, length: int) -> bytes:
        data: bytes = self._call(f"get {key}", lambda: self.inner.get_range(key, start, length))
        return data

    def get_file(self, key: str, path: Path) -> int:
        size: int = self._call(f"get {key}", lambda: self.inner.get_file(key, path))
        return size

    def get_range_into(self, key: str, start: int, length: int, file: BinaryIO) -> None:
        self._call(f"get {key}", lambda: self.inner.get_range_into(key, start, length, file))

    def get_many(self, keys: Collection[str]) -> Iterator[tuple[str, bytes | None]]:
        yield from self._call("get many", lambda: list(self.inner.get_many(keys)))

    def get_heads(self, keys: Sequence[str], length: int) -> Iterator[tuple[str, bytes | None]]:
        yield from self._call("get heads", lambda: list(self.inner.get_heads(keys, length)))

    def list(self, prefix: str, start_after: str | None = None) -> Iterator[ObjectMeta]:
        yield from self._call("list " + prefix, lambda: list(self.inner.list(prefix, start_after)))

    def list_folders(self, prefix: str) -> Iterator[str]:
        yield from self._call(f"folders {prefix}", lambda: list(self.inner.list_folders(prefix)))

    def head(self, key: str) -> ObjectMeta:
        meta: ObjectMeta = self._call(f"head {key}", lambda: self.inner.head(key))
        return meta

    def delete_many(self, keys: Iterable[str]) -> Iterator[Deleted]:
        wanted = list(keys)
        try:
            yield from self._call("delete", lambda: list(self.inner.delete_many(wanted)))
        except StoreUnavailableError as error:
            # As the real client says it: an answer for every key.
            yield from [Deleted(key, error) for key in wanted]


@dataclass
class Sleeping(FaultyStore):
    """Once, a put with ``what`` in its key never arrives, and the machine sleeps ``ms`` over it."""

    clock: SetClock = field(default_factory=SetClock)
    what: str = ""
    ms: int = 0
    lost: list[str] = field(default_factory=list)

    def put_new(self, key: str, data: bytes) -> None:
        if self.lost or self.what not in key:
            super().put_new(key, data)
            return
        self.lost.append(key)
        self.clock.advance(self.ms)
        raise OutcomeUnknownError(f"no answer to put {key}", next_step="read it back")


@dataclass
class Asleep(FaultyStore):
    """The process stops right before, or after, a call that begins with ``at``.

    As SIGSTOP and a suspended machine do it: the request is sent, or the answer seen, on waking.
    """

    at: str = ""
    """As ``put t/_log/``, or ``delete``."""
    meanwhile: Callable[[], None] = lambda: None
    """What others do while it sleeps; moves the clock."""
    times: int = 1
    skip: int = 0
    """Such calls before it that are made at once."""
    after: bool = False
    slept: int = 0

    def _call(self, name: str, act: Callable[[], Any], *, put: bool = False) -> Any:
        if name.startswith(self.at) and self.skip:
            self.skip -= 1
        elif name.startswith(self.at) and self.slept < self.times:
            self.slept += 1
            if self.after:
                answer = super()._call(name, act, put=put)
                self.meanwhile()
                return answer
            self.meanwhile()
        return super()._call(name, act, put=put)


@dataclass
class World:
    """One table and everything it lives on."""

    settings: TableSettings
    clock: SetClock
    ids: CountedIds
    store: MemoryStore
    table: Table


def make_world(root: str = "memory://bucket/t", **settings: Any) -> World:
    """An empty table in memory."""
    clock, ids = SetClock(), CountedIds()
    store = MemoryStore(clock)
    declared = TableSettings.model_validate({"name": "t", "root": root, **settings})
    paths = TablePaths(Root.parse(root).prefix)
    return World(declared, clock, ids, store, Table(declared, store, paths, clock, ids))
