"""Parts of a store as files that DuckDB and Arrow read in ranges.

The requests go through the table's own ``Store``: its credentials, retries, counters and errors.
Only what the reader asks for is fetched: of a part its footer (16 KiB at first) and one range per
row group; a part of up to ``WHOLE`` bytes is fetched with one request. DuckDB opens the parts of a
table in a local folder by their paths, which costs half as much.
"""

from __future__ import annotations

import datetime
import itertools
import re
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from functools import cache
from threading import Lock, get_ident
from types import MappingProxyType
from typing import Any, TypeGuard
from urllib.parse import quote, unquote

from fsspec.spec import AbstractFileSystem

from firnline.errors import (
    DAMAGED_PART,
    FirnlineError,
    ObjectNotFoundError,
    PartGoneError,
    PartUnreadableError,
)
from firnline.next_steps import READ_AGAIN
from firnline.parquet.words import WRITTEN_OTHERWISE, odd_in_words
from firnline.read.task import ReadPart
from firnline.store.base import InFolder, Store

WHOLE = 256 * 2**10
"""Maximum bytes of a part that is fetched at once: a second request costs more than they do."""
KEPT = 32 * 2**20
"""Maximum bytes of small parts kept in memory: DuckDB opens a file several times in a query."""
_numbers = itertools.count(1)
_NO_PATTERN = re.compile(r"/[^*?\[\]{}\\\x00-\x1f]*")
"""Paths that DuckDB takes as they are."""
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
"""Modification time of every part: parts never change."""


class PartFiles(AbstractFileSystem):  # type: ignore[misc]  # fsspec has no types
    """A file system of parts; one per connection, closed with it.

    A URL is ``{protocol}://{store}/{partition}/{place}/{bytes}/{key}``: it contains everything, so
    that no state of a query must be kept as long as it may be run.

    Args:
        keep_failure: keep the error of a failed read, for a caller of ``take_failure``.
    """

    cachable = False

    def __init__(self, *, keep_failure: bool) -> None:
        super().__init__()
        self.protocol = f"firnline{next(_numbers)}"
        self._stores: list[Store] = []
        self._small: OrderedDict[str, bytes] = OrderedDict()
        self._held = 0
        self._lock = Lock()
        self._keep_failure = keep_failure
        self._opened: dict[str, str] = {}
        """Key by path of the parts that DuckDB opens itself, where a caller asks for failures."""
        self._failure: FirnlineError | None = None

    def take_failure(self) -> FirnlineError | None:
        """Return the error of the newest failed read, and forget it.

        DuckDB passes on only its text. It must not stay here: an exception references its frames,
        they reference the connection, and that references this object where Python's garbage
        collector does not see it, so that none of them would ever be freed.
        """
        failure, self._failure = self._failure, None
        return failure

    def add(self, store: Store) -> int:
        """Register a store, and return its number in URLs."""
        with self._lock:
            for number, other in enumerate(self._stores):
                if other is store:
                    return number
            self._stores.append(store)
            return len(self._stores) - 1

    def url(self, store: int, part: ReadPart) -> str:
        """Return the URL of a part; URLs of one store sort like the places of their parts."""
        head = f"{self.protocol}://{store:06d}/{part.partition:08d}/{part.place:08d}"
        return f"{head}/{part.bytes}/{quote(part.key)}"

    def path(self, store: Store, part: ReadPart) -> str | None:
        """Return the path of a part in a local folder; None if there is none that DuckDB can open.

        Raises StoreAccessError as ``InFolder.file_of``.
        """
        path = store.file_of(part.key) if _keeps_files(store) else None
        if path is None or not _NO_PATTERN.fullmatch(path):
            return None
        if self._keep_failure:
            self._opened[path] = part.key
        return path

    def named_in(self, text: str) -> tuple[str, str] | None:
        """Return the part that an error of DuckDB names: how it is called there, and its key."""
        start = text.find(f"{self.protocol}://")
        if start >= 0:
            url = re.split("[\"' ]", text[start:], maxsplit=1)[0].rstrip(".:")
            return url, self.locate(url)[1]
        return next(((path, key) for path, key in self._opened.items() if path in text), None)

    @property
    def partition_of(self) -> tuple[int, int]:
        """Position of the partition in a URL: first character, counted from 1, and length."""
        return len(self.protocol) + len("://000000/") + 1, 8

    def locate(self, url: str) -> tuple[Store, str, int]:
        """Return store, key and size in bytes of a URL."""
        store, _, _, size, key = url.partition("://")[2].split("/", 4)
        return self._stores[int(store)], unquote(key), int(size)

    def read(self, url: str, start: int, length: int) -> bytes:
        """Return a range of a part.

        Raises:
            PartGoneError: the object does not exist any more.
            PartUnreadableError: the object is shorter than its marker says.
            StoreError: the store failed.
        """
        store, key, size = self.locate(url)
        length = min(length, size - start)
        if length <= 0:
            return b""
        try:
            if size > WHOLE:
                return _whole(key, store.get_range(key, start, length), length)
            return self._kept(url, store, key, size)[start : start + length]
        except ObjectNotFoundError:
            gone = is_gone(key)
            self._failed(gone)
            raise gone from None
        except FirnlineError as error:
            self._failed(error)
            raise

    def _failed(self, error: FirnlineError) -> None:
        if self._keep_failure:
            self._failure = error

    def _kept(self, url: str, store: Store, key: str, size: int) -> bytes:
        with self._lock:
            small = self._small.get(url)
        if small is not None:
            return small
        data = _whole(key, store.get_range(key, 0, size), size)
        with self._lock:
            if url not in self._small:
                self._small[url] = data
                self._held += len(data)
            while self._held > KEPT:
                self._held -= len(self._small.popitem(last=False)[1])
        return data

    def open(self, path: str, mode: str = "rb", **_: Any) -> PartFile:
        """Open a part for reading."""
        if mode != "rb":
            raise PartUnreadableError(
                f"{path} is opened for {mode!r}", next_step="open it for reading only"
            )
        return PartFile(self, path)

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        """Return size and kind, from the URL: no request."""
        return {"name": path, "size": self.locate(path)[2], "type": "file"}

    def glob(self, path: str, **_: Any) -> list[str]:
        """Return the path itself: every path is complete."""
        return [path]

    def modified(self, path: str) -> datetime.datetime:  # noqa: ARG002 -- fsspec's signature
        """Return the same time for every part."""
        return _EPOCH


class PartFile:
    """One open part; each thread has a place of its own in it.

    DuckDB fetches the row groups of a part in several threads that share one open file, each with
    a ``seek`` and a ``read``, and lets other threads run between the two.
    """

    mode = "rb"

    def __init__(self, files: PartFiles, url: str) -> None:
        self._files = files
        self._url = url
        # By the number of the thread, which threads that Python has not started have, too.
        self._places = {get_ident(): 0}
        self._held: list[tuple[int, bytes]] = []
        self.size = files.locate(url)[2]
        self.closed = False

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def writable(self) -> bool:
        return False

    def seek(self, offset: int, whence: int = 0) -> int:
        """Seek as in any file; the place is that of the calling thread."""
        place = offset + (0, self.tell() if whence == 1 else 0, self.size)[whence]
        self._places[get_ident()] = place
        return place

    def tell(self) -> int:
        """Return the calling thread's place.

        Raises OSError in a thread that has neither opened the file nor sought in it.
        """
        place = self._places.get(get_ident())
        if place is None:
            raise OSError("a thread has to seek before it reads a part that another one has opened")
        return place

    def read(self, length: int = -1) -> bytes:
        """Read as from any file, at ``tell``; raises as that and ``PartFiles.read``."""
        start = self.tell()
        count = self.size - start if length < 0 else length
        data = self._from_held(start, count)
        if data is None:
            data = self._files.read(self._url, start, count)
        self._places[get_ident()] = start + len(data)
        return data

    def hold(self, spans: Sequence[tuple[int, int]]) -> None:
        """Fetch (start, end) with a request each, and keep them for reads until the next call."""
        self._held = []
        self._held = [
            (start, self._files.read(self._url, start, end - start)) for start, end in spans
        ]

    def _from_held(self, place: int, length: int) -> bytes | None:
        for start, data in self._held:
            if start <= place and place + length <= start + len(data):
                return data[place - start : place - start + length]
        return None

    def flush(self) -> None:
        """Do nothing: the file is read-only."""

    def close(self) -> None:
        """Mark the file as closed; no resource is held."""
        self.closed = True


def _keeps_files(store: Store) -> TypeGuard[InFolder]:
    return _is_in_folder(type(store))


@cache
def _is_in_folder(kind: type) -> bool:
    """Return True for classes with the methods of ``InFolder``: Python looks for them slowly."""
    return issubclass(kind, InFolder)


def is_gone(key: str) -> PartGoneError:
    """Return the error for a part of the snapshot without an object."""
    return PartGoneError(
        f"part {key} has no object any more: this snapshot was held for longer than "
        "cleanup.grace, or the object was deleted",
        next_step=READ_AGAIN,
    )


def not_readable(
    key: str, why: str, odd: Mapping[str, str] = MappingProxyType({})
) -> PartUnreadableError:
    """Return the error for a part whose object is no Parquet file, or a damaged one.

    Args:
        key: of the part.
        why: the reader's reason.
        odd: its columns in another form than that of parts, and what differs.
    """
    if odd:
        return PartUnreadableError(
            f"part {key} has {odd_in_words(odd)}, and is not readable: {why}",
            next_step=WRITTEN_OTHERWISE,
        )
    return PartUnreadableError(
        f"part {key} is not readable: {why}",
        next_step=f"see with `firnline verify --deep --rows` which others are not; {DAMAGED_PART}",
    )


def _whole(key: str, data: bytes, expected: int) -> bytes:
    if len(data) < expected:
        raise PartUnreadableError(
            f"part {key} is shorter than its marker says: {len(data)} of {expected} bytes",
            next_step=DAMAGED_PART,
        )
    return data
