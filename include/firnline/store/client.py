"""A Store on obstore: ``s3://``, ``gs://``, ``az://``, ``file://`` and ``memory://``.

It is thread-safe. A process forked after the first request cannot use any store, since obstore's
threads do not survive a fork; its requests raise an error.

Listings come in key order, in pages of 1,000, and resume at the last key after a failure. For
deletes see ``firnline.store.deletes``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import obstore

from firnline.clock import Clock, SystemClock
from firnline.errors import ObjectNotFoundError, OutcomeUnknownError, StoreError
from firnline.paths import Root
from firnline.store import deletes, folder, transfer
from firnline.store.access import StoreAccess
from firnline.store.base import Counters, Deleted, ObjectMeta
from firnline.store.connect import open_backend
from firnline.store.failures import Failure, classify
from firnline.store.folders import folders_below
from firnline.store.listing import spelled, without_markers
from firnline.store.requests import LIBRARY_ERRORS, RequestFailed, Requests, RetryPolicy
from firnline.store.sizes import PART_BYTES, part_bytes, put_requests

if TYPE_CHECKING:
    from obstore import GetResult, ListStream
    from obstore import ObjectMeta as Row

PAGE = 1_000
"""Keys of a LIST page, the limit of S3."""
UNSORTED = {"file", "memory"}
"""Stores whose listings are not sorted."""


def open_store(
    root: str,
    access: StoreAccess | None = None,
    clock: Clock | None = None,
    retry: RetryPolicy | None = None,
) -> ObjectClient:
    """Open the store that holds the table at ``root``; sends no request.

    Keys are relative to the bucket; for ``file://`` to the table's parent folder.

    Args:
        root: root URL of a table.
        access: endpoint and credentials; None: environment and chain of the store's cloud.
        clock: for the waits between retries.
        retry: bounds of retries; None: RetryPolicy's defaults.

    Raises:
        UsageError: ``root`` is not a root URL.
        StoreAccessError: no credentials, or no permission on the folder.
    """
    parsed, timer = Root.parse(root), clock or SystemClock()
    backend = open_backend(parsed, access)
    return ObjectClient(Requests(backend, parsed.bucket, timer, retry or RetryPolicy()))


class ObjectClient:
    """A ``firnline.store.base.Store``."""

    def __init__(self, requests: Requests) -> None:
        self._requests = requests
        self._folders: set[str] = set()

    def __repr__(self) -> str:
        return f"<store {self.where}>"

    @property
    def where(self) -> str:
        """Bucket and endpoint, or folder; stores with the same name hold the same objects."""
        return self._requests.backend.where

    @property
    def counters(self) -> Counters:
        """Counts of the requests sent, retries included."""
        return self._requests.counters

    @property
    def in_folder(self) -> bool:
        """True if the objects are files, which answer before a thread has started."""
        return self._requests.backend.scheme == "file"

    @property
    def folder_markers(self) -> Collection[str]:
        """The folder markers that its listings have passed over; see ``PassesFolders``."""
        return self._folders

    def put_new(self, key: str, data: bytes) -> None:
        """Put an object create-only; see ``Store.put_new`` and ``firnline.store.create``."""
        failures: list[Failure] = []

        def put() -> None:
            self._requests.count(put=1, bytes_out=len(data))
            store = self._requests.writable(key)
            obstore.put(store, key, data, mode="create", use_multipart=False)

        try:
            self._requests.run("PUT", key, put, failures=failures)
        except StoreError as error:
            # Whatever the last failure is: an earlier attempt that reached the store and failed
            # without a clear answer may have taken effect.
            unclear = [f for f in failures if f.kind == "transient" and not f.unsent]
            if not unclear or failures[-1].kind == "exists":
                raise
            raise OutcomeUnknownError(
                error.message, next_step="read the key back to see whether it was stored"
            ) from None

    def put_file(self, key: str, file: Path | bytes) -> None:
        """Upload a file under a fresh name; see ``Store.put_file``."""
        if isinstance(file, bytes):
            self._put_whole(key, file)
        else:
            self._put_local(key, file)

    def _put_local(self, key: str, path: Path) -> None:
        try:
            size = path.stat().st_size
            data = path.read_bytes() if size <= PART_BYTES else None
        except OSError as error:
            raise StoreError(
                f"{path} cannot be read for the upload of {key}: {error.strerror}",
                next_step="run the task again and leave its scratch folder alone",
            ) from None
        if data is None:
            self._put_parts(key, path, size)
        else:
            self._put_whole(key, data)

    def _put_whole(self, key: str, data: bytes) -> None:
        def put() -> None:
            self._requests.count(put=1, bytes_out=len(data))
            # Not create-only: the name is fresh, so a retry after a lost answer stores the same
            # bytes again, and nothing has to be read back.
            store = self._requests.writable(key)
            obstore.put(store, key, data, mode="overwrite", use_multipart=False)

        self._requests.run("PUT", key, put)

    def _put_parts(self, key: str, path: Path, size: int) -> None:
        part = part_bytes(size)

        def put() -> None:
            # One request begins the upload and one completes it. Retries by obstore itself are
            # not counted.
            self._requests.count(put=put_requests(size), bytes_out=size)
            store = self._requests.writable(key, upload=True)
            obstore.put(store, key, path, use_multipart=True, chunk_size=part, max_concurrency=4)

        try:
            self._requests.run("PUT", key, put, attempts=1)
        except StoreError:
            # When the answer to the completion is lost, its retry finds no such upload. The name
            # is fresh and an upload is atomic, so an object of this size is this one.
            if not self._is_there(key, size):
                raise

    def _is_there(self, key: str, size: int) -> bool:
        try:
            return self.head(key).size == size
        except StoreError:
            return False  # the caller raises the first error, which says more

    def copy(self, source: str, key: str) -> None:
        """Copy within the store; the name is fresh, so retries are safe. See ``Store.copy``."""

        def copy() -> None:
            self._requests.count(put=1)
            obstore.copy(self._requests.readable(source, key), source, key, overwrite=True)

        # As GET, so that a missing source is not reported as a missing bucket.
        self._requests.run("GET", source, copy)

    def get(self, key: str) -> bytes:
        """Return the whole object, checked against the size that the store states."""

        def get() -> bytes:
            self._requests.count(get=1)
            data = self._from_folder(key)
            if data is not None:
                return data
            result = obstore.get(self._requests.readable(key), key)
            return self._body(result, result.meta["size"])

        return self._requests.run("GET", key, get)

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """Return at most ``length`` bytes from ``start``; none when that is behind the end."""
        if length <= 0:
            return b""

        def get() -> bytes:
            self._requests.count(get=1)
            data = self._from_folder(key, start, length)
            if data is not None:
                return data
            span = (start, start + length)
            try:
                result = obstore.get(self._requests.readable(key), key, options={"range": span})
            except LIBRARY_ERRORS as error:
                if classify(error).kind == "range":
                    return b""
                raise
            first, end = result.range
            return self._body(result, end - first)

        return self._requests.run("GET", key, get)

    def file_of(self, key: str) -> str | None:
        """Return the path of a file in a local folder, None in other stores; no request."""
        return self._requests.file_of(key)

    def _from_folder(self, key: str, start: int = 0, length: int | None = None) -> bytes | None:
        """Return the bytes of a local file; None if obstore has to be asked."""
        path = self.file_of(key) if folder.is_usual(key) else None
        data = None if path is None else folder.read_file(path, start, length)
        if data is not None:
            self._requests.count(bytes_in=len(data))
        return data

    def _body(self, result: GetResult, expected: int) -> bytes:
        body = bytes(result.bytes())
        self._requests.count(bytes_in=len(body))
        _check_size(len(body), expected)
        return body

    def get_file(self, key: str, path: Path) -> int:
        """Stream the object into ``path`` with one GET; on failure the file is removed.

        Raises:
            ScratchFullError: the local disk is full.
        """

        def get() -> int:
            self._requests.count(get=1)
            result = obstore.get(self._requests.readable(key), key)
            size = self._fetch(key, result, path)
            self._requests.count(bytes_in=size)
            _check_size(size, result.meta["size"])
            return size

        try:
            return self._requests.run("GET", key, get)
        except BaseException:
            path.unlink(missing_ok=True)
            raise

    def _fetch(self, key: str, result: GetResult, path: Path) -> int:
        source = self.file_of(key)
        if source is None:
            return transfer.to_file(result.stream(transfer.CHUNK), path)
        # Not a hard link: whoever writes to the copy must not change the object.
        with Path(source).open("rb") as file:
            return transfer.copy_file(file, path)

    def get_range_into(self, key: str, start: int, length: int, file: BinaryIO) -> None:
        """Stream a range into an open file with one GET; a retry writes over what came before.

        Raises:
            ScratchFullError: the local disk is full.
        """
        position = file.tell()

        def get() -> None:
            self._requests.count(get=1)
            span = (start, start + length)
            file.seek(position)
            result = obstore.get(self._requests.readable(key), key, options={"range": span})
            size = transfer.into(result.stream(transfer.CHUNK), file)
            self._requests.count(bytes_in=size)
            _check_size(size, length)

        self._requests.run("GET", key, get)

    def get_many(self, keys: Collection[str]) -> Iterator[tuple[str, bytes | None]]:
        """Yield whole objects, prefetched within ``transfer.Held``; None for a missing one.

        A mapping as ``keys`` states the sizes of the objects.
        """
        return self._each(list(keys), None, keys if isinstance(keys, Mapping) else {})

    def get_heads(self, keys: Sequence[str], length: int) -> Iterator[tuple[str, bytes | None]]:
        """Yield the first ``length`` bytes of each object, as ``get_many``."""
        return self._each(keys, length, dict.fromkeys(keys, length))

    def _each(
        self, keys: Sequence[str], length: int | None, sizes: Mapping[str, int]
    ) -> Iterator[tuple[str, bytes | None]]:
        def one(key: str) -> tuple[str, bytes | None]:
            try:
                return key, self.get(key) if length is None else self.get_range(key, 0, length)
            except ObjectNotFoundError:
                return key, None

        held = transfer.Held[tuple[str, bytes | None]](sizes, lambda pair: len(pair[1] or b""))
        if self.in_folder:
            return transfer.each_in_folder(keys, one, self._requests.clock, held)
        return transfer.each(keys, one, held=held)

    def list(self, prefix: str, start_after: str | None = None) -> Iterator[ObjectMeta]:
        """Yield the objects under ``prefix``, sorted by key."""
        rows = in_order(self._requests, prefix, start_after)
        if self._requests.backend.scheme in UNSORTED:
            return rows  # their folders are none of objects
        return without_markers(rows, prefix, self._folders.add)

    def list_folders(self, prefix: str) -> Iterator[str]:
        """Yield the folders right below ``prefix``; see ``firnline.store.folders``."""
        return iter(folders_below(self._requests, prefix))

    def head(self, key: str) -> ObjectMeta:
        """Return size and time of one object."""

        def head() -> ObjectMeta:
            self._requests.count(head=1)
            return to_meta(obstore.head(self._requests.readable(key), key))

        return self._requests.run("HEAD", key, head)

    def delete_many(self, keys: Iterable[str]) -> Iterator[Deleted]:
        """Delete in batches; nothing is sent before the first result is taken."""
        return deletes.delete_many(self._requests, keys)

    @property
    def batches_at_once(self) -> int:
        """Batches that a caller's threads may have sent at once: elsewhere one is many requests."""
        return deletes.AT_ONCE if self._requests.backend.scheme == "s3" else 1

    def delete_batch(self, keys: Sequence[str]) -> Sequence[Deleted]:
        """Delete at most 1,000 keys; see ``DeletesBatches``."""
        return list(deletes.one_batch(self._requests, keys, patient=False))


def _check_size(size: int, expected: int) -> None:
    if size != expected:
        raise RequestFailed(Failure("transient", f"{size} bytes came instead of {expected}"))


def to_meta(row: Row) -> ObjectMeta:
    """Convert an obstore row."""
    modified = round(row["last_modified"].timestamp() * 1000)
    return ObjectMeta(row["path"], row["size"], modified, row["e_tag"] or "")


def in_order(requests: Requests, prefix: str, start_after: str | None) -> Iterator[ObjectMeta]:
    """Yield the objects under ``prefix``, sorted by key; none when it does not exist.

    The key of a folder marker ends in a slash wherever its place in the listing says so.

    Raises:
        StoreError: a request failed, or the listing of the store is not sorted.
    """
    if requests.backend.scheme in UNSORTED:
        # Their listings are not sorted, and are local anyway.
        yield from sorted(_objects(requests, prefix, start_after), key=lambda meta: meta.key)
        return
    last, begun = start_after, False
    for row in _objects(requests, prefix, start_after):
        meta = spelled(row, last, prefix)
        if requests.backend.scheme == "az" and not begun and last is not None and meta.key <= last:
            continue  # older Azure services and its emulator list from the beginning all the same
        if meta.key == last and meta.key.endswith("/"):
            continue  # listed again after a failure
        begun = True
        if last is not None and meta.key <= last:
            raise StoreError(
                f"{requests.backend.where} lists {meta.key} after {last}, which is out of order",
                next_step="use a general purpose bucket; a directory bucket does not sort",
            )
        last = meta.key
        yield meta


def _objects(requests: Requests, prefix: str, start_after: str | None) -> Iterator[ObjectMeta]:
    if not requests.folder_exists():
        requests.count(list=1)
        return
    after, first = start_after, True
    # An unsorted listing cannot be resumed after a key.
    attempts = 1 if requests.backend.scheme in UNSORTED else None
    stream: ListStream[Sequence[Row]] | None = None

    def page() -> tuple[ObjectMeta, ...]:
        nonlocal stream
        try:
            if stream is None:
                store, below = requests.listable(prefix), prefix.rstrip("/")
                stream = obstore.list(store, below, offset=after, chunk_size=PAGE)
            rows = next(stream, ())
        except LIBRARY_ERRORS:
            requests.count(list=1)
            stream = None  # the next attempt begins after the last key of the previous page
            raise
        if rows or first:
            requests.count(list=1)
        return tuple(to_meta(row) for row in rows)

    while True:
        rows = requests.run("LIST", prefix, page, attempts=attempts)
        yield from rows
        # obstore fills its chunks across pages, so a short one is the last.
        if len(rows) < PAGE:
            return
        # A folder marker may stand last, whose key without its slash comes before those of others.
        after, first = max(row.key for row in rows), False
