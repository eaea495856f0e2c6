"""Transfer bytes: a stream into a local file, and many objects concurrently in bounded memory."""

from __future__ import annotations

import errno
import shutil
from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Generic, TypeVar

from firnline.clock import Clock
from firnline.errors import ScratchFullError, StoreError

if TYPE_CHECKING:
    from obstore import BytesStream

T = TypeVar("T")

CHUNK = 2**20
"""Bytes read before each write to the local file.

A stream holds up to three such chunks, and the C library keeps the memory that threads have freed:
with 8 MiB, eight concurrent fetches left the process 140 to 190 MiB larger, with 1 MiB 16 to 29.
"""
CONCURRENCY = 32
"""Concurrent requests. Threads, not a private event loop: measured with objects of 1 KB on 2 cores,
threads read 1.2 (S3) to 2 times (local files) as many a second, and they also work inside a thread
that runs an event loop."""
AT_ONCE_IN_FOLDER = 8
"""The same in a local folder, which answers before a thread has started: measured with 30 files of
1 KB, 32 threads take 1.6 times the CPU time of 8 and twice the time, with 2,000 files the same."""
BEFORE_THREADS_MS = 3
"""Time for which files of a local folder are read one after the other, milliseconds: about what
eight threads take to start. By then 30 log files are read, or the folder is that of a slow disk or
a network, for which threads are worth it."""
LOOK_AHEAD = 2 * CONCURRENCY
"""Objects that are prefetched at most."""
BYTES_AHEAD = 128 * 2**20
"""Bytes of objects that are prefetched at most, or one object; bounds the memory. 32 requests for
4 MiB each at a time: larger ones fill a network with fewer."""
FIRST_AHEAD = 8
"""Objects of unknown size that are fetched before the first of them says how large they may be."""


@dataclass(slots=True)
class Held(Generic[T]):
    """The bytes of objects that are fetched, or wait to be taken: BYTES_AHEAD at most.

    One object is always admitted, however large. Where sizes are not known beforehand each counts
    as much as the largest so far, and until the first one is there FIRST_AHEAD are fetched.

    Args:
        sizes: bytes by key, as far as they are known.
        weigh: returns the bytes of a result.
    """

    sizes: Mapping[str, int]
    weigh: Callable[[T], int]
    _bytes: int = 0
    """Of those whose sizes are known."""
    _unknown: int = 0
    """Number of the others."""
    _largest: int | None = None
    """Bytes of the largest of the others so far."""

    def admits(self, key: str) -> bool:
        """Return True if the object may be fetched beside those that are held."""
        if not (self._bytes or self._unknown):
            return True
        size = self.sizes.get(key)
        unknown = self._unknown + (size is None)
        if self._largest is None and unknown > FIRST_AHEAD:
            return False
        return self._bytes + (size or 0) + unknown * (self._largest or 0) <= BYTES_AHEAD

    def add(self, key: str) -> None:
        """Hold an object, which is fetched from now on."""
        size = self.sizes.get(key)
        self._bytes += size or 0
        self._unknown += size is None

    def remove(self, key: str, result: T) -> None:
        """Let go of an object, which its consumer takes."""
        size = self.sizes.get(key)
        self._bytes -= size or 0
        if size is None:
            self._unknown -= 1
            self._largest = max(self._largest or 0, self.weigh(result))


def each(
    keys: Sequence[str],
    one: Callable[[str], T],
    at_once: int = CONCURRENCY,
    held: Held[T] | None = None,
) -> Generator[T]:
    """Call ``one`` for every key, ``at_once`` at a time; yields the results in their order.

    Nothing is fetched before the first result is taken, and no more than LOOK_AHEAD objects are
    prefetched. The first error ends it.

    Args:
        keys: of the objects.
        one: fetches an object, or does something else with its key.
        at_once: calls at a time.
        held: bounds the bytes of results that are objects; None: they are small.
    """
    if len(keys) <= 1:
        yield from map(one, keys)
        return
    todo, following = iter(keys), list[str]()
    pool = ThreadPoolExecutor(min(at_once, len(keys)), thread_name_prefix="firnline-store")
    ahead: deque[tuple[str, Future[T]]] = deque()

    def fetch_ahead() -> None:
        while len(ahead) < LOOK_AHEAD:
            following.extend(() if following else islice(todo, 1))
            if not following or (held is not None and not held.admits(following[0])):
                return
            key = following.pop()
            if held is not None:
                held.add(key)
            ahead.append((key, pool.submit(one, key)))

    try:
        fetch_ahead()
        while ahead:
            key, future = ahead.popleft()
            result = future.result()
            del future  # else it would hold the result while its consumer has long let go of it
            if held is not None:
                held.remove(key, result)
            fetch_ahead()
            yield result
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def each_in_folder(
    keys: Sequence[str], one: Callable[[str], T], clock: Clock, held: Held[T] | None = None
) -> Generator[T]:
    """As ``each``, for files: those that are quickly read are read without threads."""
    spent = 0
    for number, key in enumerate(keys):
        if spent >= BEFORE_THREADS_MS:
            yield from each(keys[number:], one, AT_ONCE_IN_FOLDER, held)
            return
        began = clock.elapsed_ms()
        result = one(key)
        spent += clock.elapsed_ms() - began
        yield result


def to_file(chunks: BytesStream | Iterable[bytes], path: Path) -> int:
    """Write a stream into a new local file; returns its size in bytes.

    Raises:
        ScratchFullError: no space left; the file is incomplete.
        StoreError: the file cannot be written for another reason.
    """
    with _writing(path, lambda: path.open("wb")) as file:
        return into(chunks, file)


def copy_file(source: BinaryIO, path: Path) -> int:
    """Copy an open file into a new one, in a fifth of the CPU time of ``to_file``; errors as there.

    Returns its size in bytes.
    """
    with _writing(path, lambda: path.open("wb")) as file:
        _writing(path, lambda: shutil.copyfileobj(source, file, CHUNK))
        return file.tell()


def into(chunks: BytesStream | Iterable[bytes], file: BinaryIO) -> int:
    """Write a stream to the position of an open local file; errors as of ``to_file``."""
    path, size = Path(file.name), 0
    for chunk in chunks:
        size += _writing(path, partial(file.write, chunk))
    return size


def _writing(path: Path, step: Callable[[], T]) -> T:
    """Run a step on the local file, and translate its errors: they are not the store's."""
    try:
        return step()
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            raise ScratchFullError(
                f"no space is left on the disk of {path.parent}",
                next_step="free some, or choose another scratch folder",
            ) from None
        raise StoreError(
            f"{path} cannot be written: {error.strerror}",
            next_step="check the scratch folder and its permissions",
        ) from None
