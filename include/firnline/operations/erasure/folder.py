"""The folder of erasure requests: one object for each request, its keys, and its end.

Each is created once. The keys go when the request is closed; the other two stay.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeVar

import msgspec

from firnline.clock import Clock, SystemClock
from firnline.errors import (
    FirnlineError,
    LogCorruptError,
    ObjectNotFoundError,
    StoreError,
    UsageError,
)
from firnline.ids import UUID7, Ids, SystemIds
from firnline.log.codec import UNREADABLE
from firnline.operations.asked import AskedKeys
from firnline.operations.erasure.record import Closed, Request
from firnline.paths import RequestName, RequestPaths, Root
from firnline.settings.erasure import ErasureSettings
from firnline.store.access import StoreAccess
from firnline.store.base import Store
from firnline.store.client import open_store
from firnline.store.create import create

_RecordT = TypeVar("_RecordT", Request, Closed)


@dataclass(frozen=True, slots=True)
class Standing:
    """A request, and how it ended."""

    request: Request
    closed: Closed | None
    has_keys: bool
    """Its file of keys is there."""


NOBODY: Mapping[str, Standing] = MappingProxyType({})
"""No request is known."""


@dataclass(frozen=True, slots=True)
class Requests:
    """All requests of a folder."""

    standing: tuple[Standing, ...]
    """Oldest first."""
    unread: tuple[str, ...]
    """Requests with an object that does not read, each with the reason and the next step."""


@dataclass(frozen=True, slots=True)
class RequestFolder:
    """An open folder of requests."""

    root: Root
    paths: RequestPaths
    store: Store
    clock: Clock
    ids: Ids

    def requests(self, known: Mapping[str, Standing] = NOBODY) -> Requests:
        """Return all requests; one that does not read keeps no other from it.

        Requests: a LIST for each 1,000 objects, a GET for each request and each that is closed; no
        GET for what is known.

        Args:
            known: requests of an earlier look by their ids. What was written is never changed.
        """
        found: dict[str, dict[str, RequestName]] = {}
        for meta in self.store.list(self.paths.folder):
            name = self.paths.parse(meta.key)
            if name is not None:
                found.setdefault(name.id, {})[name.kind] = name
        asked = {each: names for each, names in found.items() if "request" in names}
        wanted = [
            self.paths.key(n) for each, names in asked.items() for n in _new(names, known.get(each))
        ]
        data = dict(self.store.get_many(wanted))
        standing, unread = list[Standing](), list[str]()
        for each, names in sorted(asked.items()):
            try:
                standing.append(self._standing(names, data, known.get(each)))
            except FirnlineError as error:
                unread.append(f"{error.message}; {error.next_step}")
        return Requests(tuple(standing), tuple(unread))

    def one(self, request: str) -> Standing:
        """Return a request. Requests: those of ``requests``. Raises UsageError: there is none."""
        if UUID7.fullmatch(request) is not None:
            for each in self.requests().standing:
                if each.request.id == request:
                    return each
        raise UsageError(
            f"there is no request {request!r} in {self.root.url}",
            next_step="`firnline erasure show` lists them",
        )

    def take(self, request: Request, keys: bytes) -> None:
        """Write a request, then its keys: no keys are left that nobody sees. 2 PUT."""
        self._create(RequestName(request.id, "request", "json"), msgspec.json.encode(request))
        self._create(RequestName(request.id, "keys", request.ending), keys)

    def close(self, closed: Closed) -> Closed:
        """Write the end of a request, and delete its keys. Returns the end that stands.

        Requests: 1 PUT and 1 DELETE, which a run that died in between is made up for by another.
        """
        name = RequestName(closed.id, "closed", "json")
        key = self.paths.key(name)
        other = create(self.store, key, msgspec.json.encode(closed))
        ended = closed if other is None else self._decoded(name, {key: other}, Closed)
        self.forget(closed.id)
        return ended

    def forget(self, request: str) -> None:
        """Delete the keys of a request that is closed. Raises StoreError: they are still there."""
        names = [RequestName(request, "keys", ending) for ending in ("csv", "parquet")]
        for answer in self.store.delete_many([self.paths.key(name) for name in names]):
            if answer.error is not None:
                raise StoreError(
                    f"the keys of request {request} could not be deleted: {answer.error}",
                    next_step="run `firnline erasure run` again, or delete them by hand",
                )

    def keys_of(self, request: Request) -> AskedKeys:
        """Return the request as an erase takes it."""
        key = self.paths.key(RequestName(request.id, "keys", request.ending))
        return AskedKeys(id=request.id, digest=request.digest, url=self.root.url_of(key))

    def _create(self, name: RequestName, data: bytes) -> None:
        if create(self.store, self.paths.key(name), data) is not None:
            raise StoreError(f"{self.paths.key(name)} is there already", next_step="run it again")

    def _standing(
        self,
        names: Mapping[str, RequestName],
        data: Mapping[str, bytes | None],
        known: Standing | None,
    ) -> Standing:
        request, closed = (None, None) if known is None else (known.request, known.closed)
        if request is None:
            request = self._decoded(names["request"], data, Request)
        if "closed" not in names:
            closed = None
        elif closed is None:
            closed = self._decoded(names["closed"], data, Closed)
        return Standing(request, closed, "keys" in names)

    def _decoded(
        self, name: RequestName, data: Mapping[str, bytes | None], kind: type[_RecordT]
    ) -> _RecordT:
        key = self.paths.key(name)
        try:
            found = data[key]
            if found is None:
                raise ObjectNotFoundError(f"{key} is gone", next_step="run it again")
            return msgspec.json.decode(found, type=kind)
        except UNREADABLE as error:
            raise LogCorruptError(
                f"{self.root.url_of(key)} does not read: {error}",
                next_step="restore the object from a backup, or move it out of the folder",
            ) from None


def _new(names: Mapping[str, RequestName], known: Standing | None) -> Iterator[RequestName]:
    """Yield the records of a request that are not known."""
    if known is None:
        yield names["request"]
    if "closed" in names and (known is None or known.closed is None):
        yield names["closed"]


def open_folder(
    settings: ErasureSettings,
    access: StoreAccess | None = None,
    *,
    clock: Clock | None = None,
    ids: Ids | None = None,
) -> RequestFolder:
    """Open the folder of requests; no request is sent.

    Args:
        settings: the section ``erasure``.
        access: endpoint and credentials; None: the environment's.
        clock: source of time; None: the system's.
        ids: source of ids; None: the system's randomness.

    Raises UsageError: the settings name none.
    """
    if settings.requests is None:
        raise UsageError(
            "the settings name no folder for requests of erasure",
            next_step="add `erasure: {requests: s3://bucket/erasures}` at the top of the file",
        )
    root = Root.parse(settings.requests, source=True)
    clock = clock or SystemClock()
    store = open_store(settings.requests, access, clock=clock)
    return RequestFolder(root, RequestPaths(root.prefix), store, clock, ids or SystemIds())
