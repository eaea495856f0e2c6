"""Send requests: count them, retry them where that is safe, translate their failures.

Only safe requests are retried, after a random wait and within bounds.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from obstore.exceptions import BaseError
from tenacity import RetryCallState, Retrying, retry_if_exception, wait_random_exponential

from firnline.clock import Clock
from firnline.errors import StoreError
from firnline.next_steps import STORE_LOG
from firnline.store.base import Counters
from firnline.store.connect import Backend, open_folder
from firnline.store.failures import Failure, classify, to_error
from firnline.store.links import refuse_links, refuse_links_below

if TYPE_CHECKING:
    from obstore.store import ObjectStore

T = TypeVar("T")
Kind = Literal["GET", "PUT", "LIST", "DELETE", "HEAD"]

LIBRARY_ERRORS = (BaseError, OSError, ValueError, RuntimeError)
"""Exceptions of obstore (NotImplementedError is a RuntimeError)."""

_NEEDS_BUCKET: tuple[Kind, ...] = ("PUT", "LIST", "DELETE")
"""Requests for which 'not found' means that the bucket is missing."""


class _Runtime:
    """State of obstore's threads in this process. They do not survive a fork.

    A request in the child would wait for them for ever.
    """

    used = False
    lost = False

    @classmethod
    def after_fork(cls) -> None:
        cls.lost = cls.used


os.register_at_fork(after_in_child=_Runtime.after_fork)


class Requests:
    """Sends requests to one bucket; thread-safe."""

    def __init__(self, backend: Backend, bucket: str, clock: Clock, policy: RetryPolicy) -> None:
        self.backend = backend
        self.counters = Counters()
        self._bucket = bucket
        self.clock = clock
        self._policy = policy
        self._lock = threading.Lock()
        self._second: Any = None

    @property
    def bucket(self) -> str:
        """Name of the bucket, or path of the folder."""
        return self._bucket

    def second(self) -> Any:  # noqa: ANN401 - boto3 has no types
        """Return a client of boto3 for the bucket, which sends each request once; thread-safe.

        Raises StoreError: there is none, or no credentials.
        """
        with self._lock:
            if self._second is None:
                if self.backend.second is None:
                    raise StoreError(f"{self.backend.where} is not on S3", next_step=STORE_LOG)
                _, self._second = self.backend.second()
            return self._second

    def count(self, **add: int) -> None:
        """Add to the counters; thread-safe."""
        with self._lock:
            self.counters.add(add)

    def folder_exists(self) -> bool:
        """Return False for a local folder that does not exist yet."""
        if self.backend.small is None:
            self.backend = open_folder(self._bucket, create=False)
        return self.backend.small is not None

    def readable(self, *keys: str) -> ObjectStore:
        """Return the obstore object to read ``keys`` from, or to delete them in.

        Raises:
            FileNotFoundError: a local folder does not exist yet.
            StoreAccessError: a key leads through a symbolic link, see ``firnline.store.links``.
        """
        if not self.folder_exists() or self.backend.small is None:
            raise FileNotFoundError(f"there is no folder {self._bucket}")
        if self.backend.scheme == "file":
            refuse_links(self._bucket, keys)
        return self.backend.small

    def file_of(self, key: str) -> str | None:
        """Return the path of a local file; None for any other store. Raises StoreAccessError."""
        if self.backend.scheme != "file":
            return None
        refuse_links(self._bucket, [key])
        return f"{self._bucket.rstrip('/')}/{key}"

    def listable(self, prefix: str) -> ObjectStore:
        """Return the obstore object to list ``prefix`` in. Raises as ``readable``."""
        store = self.readable(prefix)
        if self.backend.scheme == "file":
            refuse_links_below(self._bucket, prefix)
        return store

    def writable(self, key: str, *, upload: bool = False) -> ObjectStore:
        """Return the obstore object to write ``key`` to; creates a local folder.

        ``upload``: one with obstore's own retries.

        Raises StoreAccessError as ``readable``.
        """
        if self.backend.small is None:
            self.backend = open_folder(self._bucket, create=True)
        if self.backend.scheme == "file":
            refuse_links(self._bucket, [key])
        store = self.backend.upload if upload else self.backend.small
        assert store is not None
        return store

    def run(
        self,
        kind: Kind,
        key: str,
        call: Callable[[], T],
        *,
        failures: list[Failure] | None = None,
        attempts: int | None = None,
        patient: bool = True,
    ) -> T:
        """Send a request, with retries where the policy allows.

        Args:
            kind: for the message.
            key: for the message.
            call: sends one request (and counts it); may raise RequestFailed itself.
            failures: collects the failure of each attempt.
            attempts: upper limit of attempts below that of the policy.
            patient: repeat a request, too, that the store refused because it is asked too much.

        Raises:
            StoreError: a subclass that fits the last failure.
        """
        if _Runtime.lost:
            raise StoreError(
                "this process was forked from one that had used a store already",
                next_step="start it with the method 'spawn', or fork before the first request",
            )
        _Runtime.used = True
        seen: list[Failure] = [] if failures is None else failures

        def attempt() -> T:
            try:
                return call()
            except RequestFailed as error:
                seen.append(error.failure)
                raise
            except LIBRARY_ERRORS as error:
                seen.append(classify(error))
                # The cause is dropped: its text holds the access key's id and the signed string.
                raise RequestFailed(seen[-1]) from None
            except BaseException as error:
                if type(error).__name__ != "PanicException":
                    raise
                # A panic of obstore's Rust code, which is not a subclass of Exception.
                seen.append(Failure("other", "the store's client crashed"))
                raise RequestFailed(seen[-1]) from None

        policy = self._policy if attempts is None else self._policy.bounded(attempts)
        try:
            return with_retry(
                policy, self.clock, attempt, lambda: self.count(retries=1), patient=patient
            )
        except RequestFailed as error:
            raise self.error(kind, key, error.failure) from None

    def error(self, kind: Kind, key: str, failure: Failure) -> StoreError:
        """Return the error for a failed request."""
        if failure.kind == "not-found" and kind in _NEEDS_BUCKET:
            failure = Failure("access", failure.reason, failure.code or "NoSuchBucket")
        if failure.kind == "exists" and kind != "PUT":
            failure = Failure("other", "the store answers with a conflict", failure.code)
        return to_error(failure, f"{kind} of {key}", self.backend.where)


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Bounds of retries. Waits are random between 0 and a bound that doubles (full jitter).

    Full jitter, because many executors are throttled at the same moment and must not retry at the
    same moment.
    """

    attempts: int = 8
    """Requests at most, including the first."""
    deadline_ms: int = 60_000
    """Time after the first request within which retries may begin, milliseconds."""
    first_wait: float = 0.1
    """Bound of the first wait, seconds."""
    longest_wait: float = 8.0
    """Bound of any wait, seconds."""

    def bounded(self, attempts: int) -> RetryPolicy:
        """Return the policy with at most this number of attempts."""
        return replace(self, attempts=min(attempts, self.attempts))


class RequestFailed(Exception):  # noqa: N818 - never leaves the store
    """Carries a Failure through tenacity."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.reason)
        self.failure = failure


def with_retry(
    policy: RetryPolicy,
    clock: Clock,
    call: Callable[[], T],
    on_retry: Callable[[], None],
    *,
    patient: bool = True,
) -> T:
    """Call until success, a permanent failure, or the end of the policy's bounds.

    Without ``patient`` a store that asks to slow down is a permanent failure.

    Raises:
        RequestFailed: the failure of the last attempt.
    """
    began = clock.elapsed_ms()

    def late() -> bool:
        return clock.elapsed_ms() - began >= policy.deadline_ms

    def used_up(state: RetryCallState) -> bool:
        return late() or state.attempt_number >= policy.attempts

    def repeat(state: RetryCallState) -> None:
        # Here, not in tenacity's sleep: the machine may have been suspended while it waited, and
        # must not send a request that others have given up on hours ago.
        clock.sleep(state.upcoming_sleep)
        if late() and state.outcome is not None:
            state.outcome.result()  # raises the last failure
        on_retry()

    def may_repeat(error: BaseException) -> bool:
        if not isinstance(error, RequestFailed) or error.failure.kind != "transient":
            return False
        return patient or not error.failure.slow

    try:
        return call()
    except RequestFailed as error:
        first = [error]

    def call_again() -> T:
        if first:
            raise first.pop()
        return call()

    # Only now: tenacity costs as much as it takes to read a log file from a local folder.
    retrying = Retrying(
        stop=used_up,
        wait=wait_random_exponential(multiplier=policy.first_wait, max=policy.longest_wait),
        retry=retry_if_exception(may_repeat),
        before_sleep=repeat,
        sleep=lambda _: None,
        reraise=True,
    )
    return retrying(call_again)
