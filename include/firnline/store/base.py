"""The object store interface of firnline.

Keys are full keys in the bucket (for ``file://`` tables: relative to the table's parent folder).
Every method is synchronous: a simulation switches actors at each call. Implementations count their
requests in ``counters`` and raise only ``StoreError`` and its subclasses.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, ClassVar, Protocol, runtime_checkable

from firnline.errors import StoreError


@dataclass(frozen=True, slots=True)
class ObjectMeta:
    """One row of a listing."""

    key: str
    size: int
    """Bytes."""
    modified_ms: int
    """Last modified by the store's clock, unix milliseconds."""
    tag: str = ""
    """The store's own mark of this content (ETag); empty where it states none."""


@dataclass(frozen=True, slots=True)
class Deleted:
    """The result for one key of a batch delete."""

    key: str
    error: StoreError | None = None
    """None when the object is confirmed deleted (not found counts as deleted)."""
    slow: bool = False
    """The store asked to send less: the key may be sent again, later."""


class Changes:
    """What this process may have changed in any store: whoever opened it need not tell."""

    sent: ClassVar[int] = 0
    """PUT and DELETE requests; of interest is whether there were more."""

    @classmethod
    @contextmanager
    def none(cls) -> Iterator[None]:
        """Count no request of this context: it deletes again what it has put."""
        before = cls.sent
        try:
            yield
        finally:
            cls.sent = before


@dataclass(slots=True)
class Counters:
    """Requests and bytes of one Store object, as the store would bill them."""

    get: int = 0
    put: int = 0
    list: int = 0
    delete: int = 0
    head: int = 0
    retries: int = 0
    bytes_in: int = 0
    """Bytes read from the store."""
    bytes_out: int = 0
    """Bytes written to the store."""

    def as_dict(self) -> dict[str, int]:
        return {name: getattr(self, name) for name in self.__slots__}

    def add(self, other: dict[str, int]) -> None:
        """Add the counts of another Store object, such as that of a Spark task."""
        for name, count in other.items():
            setattr(self, name, getattr(self, name) + count)
        Changes.sent += other.get("put", 0) + other.get("delete", 0)


class Store(Protocol):
    """An object store with create-only puts."""

    @property
    def counters(self) -> Counters: ...

    def put_new(self, key: str, data: bytes) -> None:
        """Put an object create-only, with one request, never multipart.

        Raises:
            ObjectExistsError: an object exists; possibly that of an earlier attempt of this call.
            OutcomeUnknownError: no answer after every retry.
        """
        ...

    def put_file(self, key: str, file: Path | bytes) -> None:
        """Upload a local file, or one in memory, under a fresh name; atomic.

        A large one on disk goes in several requests.
        """
        ...

    def copy(self, source: str, key: str) -> None:
        """Copy an object to a fresh name within the store; no byte passes this machine.

        Counted as a put. Raises ObjectNotFoundError when the source does not exist.
        """
        ...

    def get(self, key: str) -> bytes:
        """Return the whole object. Raises ObjectNotFoundError."""
        ...

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """Return at most ``length`` bytes from ``start``; fewer at the end of the object."""
        ...

    def get_file(self, key: str, path: Path) -> int:
        """Stream the object into a local file with one GET; returns its size in bytes."""
        ...

    def get_range_into(self, key: str, start: int, length: int, file: BinaryIO) -> None:
        """Stream a range of an object to the position of an open local file, with one GET.

        Raises StoreError: the object ends before the range does.
        """
        ...

    def get_many(self, keys: Collection[str]) -> Iterator[tuple[str, bytes | None]]:
        """Yield whole objects, fetched concurrently, in any order; None if not found.

        Objects and bytes that are fetched ahead of the consumer are bounded.

        Args:
            keys: of the objects; as a mapping key -> size in bytes where the caller knows the
                sizes, by which the bound is exact.
        """
        ...

    def get_heads(self, keys: Sequence[str], length: int) -> Iterator[tuple[str, bytes | None]]:
        """Yield the first ``length`` bytes of each object, as ``get_many``."""
        ...

    def list(self, prefix: str, start_after: str | None = None) -> Iterator[ObjectMeta]:
        """Yield the objects whose key begins with ``prefix`` (ending in ``/``), sorted by key.

        Folder markers are left out (``store.listing``).

        ``start_after``: only keys greater than this one.
        """
        ...

    def list_folders(self, prefix: str) -> Iterator[str]:
        """Yield the folders right below ``prefix``, as key prefixes that end in ``/``, sorted.

        Counted as LIST. ``prefix`` is empty or ends in ``/``. What does not exist has no folders.
        """
        ...

    def head(self, key: str) -> ObjectMeta:
        """Return size and time of one object. Raises ObjectNotFoundError."""
        ...

    def delete_many(self, keys: Iterable[str]) -> Iterator[Deleted]:
        """Delete in batches (of 1,000 keys where the store can); yields one result per key."""
        ...


@runtime_checkable
class DeletesBatches(Protocol):
    """A store that leaves it to the caller when it repeats what the store had no time for.

    One that is not this (a fake, a simulation) is asked with ``delete_many``, in one thread.
    """

    @property
    def batches_at_once(self) -> int:
        """Batches that threads of the caller may have sent at once, at least 1."""
        ...

    def delete_batch(self, keys: Sequence[str]) -> Sequence[Deleted]:
        """Delete at most ``sizes.BATCH`` keys; returns one result per key. Thread-safe.

        What the store refuses because it is asked too much is not sent again: it has ``slow`` set.
        """
        ...


@runtime_checkable
class PassesFolders(Protocol):
    """A store that leaves folder markers out of its listings, and remembers them."""

    @property
    def folder_markers(self) -> Collection[str]:
        """Keys, ending in ``/``, of the markers that listings have passed over."""
        ...


@runtime_checkable
class InFolder(Protocol):
    """A store that may keep its objects as files, which other libraries can open by themselves."""

    def file_of(self, key: str) -> str | None:
        """Return the path of an object's file; None if the objects are not files.

        Raises:
            StoreAccessError: the path leads through a symbolic link below the table's folder.
        """
        ...
