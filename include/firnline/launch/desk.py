"""How a run and its job elsewhere talk: objects beside the published package.

The run puts a request before it starts the job; the job puts its outcome before it ends, and reads
no settings file, no Airflow and no log. Both are deleted once the run has heard the outcome. They
hold the settings of the table and the options of the run, never credentials.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from firnline.errors import EnvironmentFaultError, ObjectExistsError, ObjectNotFoundError
from firnline.launch.package import MANIFEST, Manifest, Package, PackagePaths
from firnline.log.codec import UNREADABLE
from firnline.log.txn_file import RunIdentity
from firnline.settings.packages import refuse_other
from firnline.store.access import StoreAccess
from firnline.store.client import ObjectClient, open_store

_OPEN = ("endpoint", "region", "addressing", "allow_http")
"""Fields of an access that are no secrets; a job elsewhere has an identity of its own."""


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What a job is to do."""

    operation: str
    """Its name on the command line."""
    settings: msgspec.Raw
    """Of the table."""
    options: msgspec.Raw
    run: RunIdentity
    access: dict[str, Any] = {}
    """Endpoint and region of the table's store; no credentials."""
    looks_for_cancel: bool = False
    """True if the job looks for the object by which it is asked to stop."""


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """Why a job failed, as ``FirnlineError`` has it."""

    message: str
    next_step: str
    retryable: bool = False


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """How a job ended."""

    report: dict[str, Any] | None = None
    """Its figures; also of a job that failed half-way."""
    error: Failure | None = None


@dataclass(frozen=True, slots=True)
class Desk:
    """The objects of the jobs of one package."""

    url: str
    """Of the package."""
    store: ObjectClient
    paths: PackagePaths

    @classmethod
    def open(cls, url: str, access: StoreAccess | None) -> Desk:
        """Open the package at a URL; sends no request. Raises UsageError for another folder."""
        refuse_other(url)
        return cls(url, open_store(url, access), PackagePaths.of(url))

    def package(self) -> Package:
        """Return what is published. Requests: 1 GET.

        Raises EnvironmentFaultError if nothing is, or it does not read.
        """
        publish = "run `firnline spark publish URL` and name in spark.package what it prints"
        try:
            data = self.store.get(self.paths.file(MANIFEST))
            return Package(self.url, msgspec.json.decode(data, type=Manifest))
        except ObjectNotFoundError:
            raise EnvironmentFaultError(
                f"nothing is published at {self.url}", next_step=publish
            ) from None
        except UNREADABLE as error:
            raise EnvironmentFaultError(
                f"{self.url}/{MANIFEST} does not read: {error}", next_step=publish
            ) from None

    def name_at(self, url: str) -> str:
        """Return the name of the job whose request has this URL."""
        return self.paths.name_of(f"{self.paths.prefix}{url.removeprefix(self.url)}")

    def request_url(self, name: str) -> str:
        """Return the URL of a job's request."""
        return f"{self.url}{self.paths.request(name).removeprefix(self.paths.prefix)}"

    def ask(self, name: str, request: Request) -> None:
        """Put what a job is to do; one that stands is of this try already. Requests: 1 PUT."""
        self._put(self.paths.request(name), msgspec.json.encode(request))

    def request(self, name: str) -> Request:
        """Return what a job is to do. Requests: 1 GET. Raises ObjectNotFoundError."""
        return msgspec.json.decode(self.store.get(self.paths.request(name)), type=Request)

    def tell(self, name: str, outcome: Outcome) -> None:
        """Put how a job ended; the first telling stands. Requests: 1 PUT."""
        self._put(self.paths.outcome(name), msgspec.json.encode(outcome))

    def outcome(self, name: str) -> Outcome | None:
        """Return how a job ended; None if it has not told. Requests: 1 GET.

        What it has told and does not read counts as a failure that a retry helps.
        """
        key = self.paths.outcome(name)
        try:
            return msgspec.json.decode(self.store.get(key), type=Outcome)
        except ObjectNotFoundError:
            return None
        except UNREADABLE as error:
            return Outcome(
                error=_unreadable(f"{self.url}{key.removeprefix(self.paths.prefix)}", error)
            )

    def names(self, task: str) -> list[str]:
        """Return the names of the tries of a task that have objects here. Requests: 1 LIST."""
        listing = self.store.list(self.paths.tries(task))
        return list(dict.fromkeys(self.paths.name_of(meta.key) for meta in listing))

    def stop(self, name: str) -> None:
        """Ask a job that looks for it to stop. Requests: 1 PUT."""
        self._put(self.paths.cancel(name), b"stop")

    def stopped(self, name: str) -> bool:
        """Return True if the job is asked to stop. Requests: 1 HEAD."""
        try:
            self.store.head(self.paths.cancel(name))
        except ObjectNotFoundError:
            return False
        return True

    def clear(self, name: str, *, over: bool = True) -> None:
        """Delete the objects of a job. Requests: 1 DELETE of a batch.

        Args:
            name: of the job.
            over: False if it may still work: that it is to stop stays.
        """
        keys = [self.paths.request(name), self.paths.outcome(name)]
        _exhaust(self.store.delete_many([*keys, self.paths.cancel(name)] if over else keys))

    def _put(self, key: str, data: bytes) -> None:
        try:
            self.store.put_new(key, data)
        except ObjectExistsError:
            return  # of this name only one run and one job write, and the first one stands


def _unreadable(url: str, error: Exception) -> Failure:
    return Failure(
        message=f"how the job ended does not read, from {url}: {error}",
        next_step="the next try goes on from what the job had committed",
        retryable=True,
    )


def open_access(access: StoreAccess | None) -> dict[str, Any]:
    """Return what a job elsewhere may know of the access to the table's store."""
    if access is None:
        return {}
    named = {name: getattr(access, name) for name in _OPEN}
    return {name: value for name, value in named.items() if value is not None}


def _exhaust(results: Iterator[Any]) -> None:
    """Have all keys deleted; one that is left costs a few bytes, and fails no run."""
    for _ in results:
        pass
