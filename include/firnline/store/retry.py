"""When a request is sent again: only what may be repeated, after a random wait, within bounds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

from tenacity import RetryCallState, Retrying, retry_if_exception, wait_random_exponential

from firnline.clock import Clock
from firnline.store.failures import Failure

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How long to go on. Waits are random between 0 and a bound that doubles (full jitter).

    Full jitter, because many executors are slowed down at the same moment and must not come back
    at the same moment.
    """

    attempts: int = 8
    """Requests at most, the first included."""
    deadline_ms: int = 60_000
    """No request begins later than this after the first, milliseconds."""
    first_wait: float = 0.1
    """Bound of the first wait, seconds."""
    longest_wait: float = 8.0
    """Bound of any wait, seconds."""

    def bounded(self, attempts: int) -> RetryPolicy:
        """The same with no more than so many attempts."""
        return replace(self, attempts=min(attempts, self.attempts))


class RequestFailed(Exception):  # noqa: N818 - never leaves the store
    """Carries a Failure through tenacity."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.reason)
        self.failure = failure


def with_retry(
    policy: RetryPolicy, clock: Clock, call: Callable[[], T], on_retry: Callable[[], None]
) -> T:
    """Call until it succeeds, fails for good, or the policy is used up.

    Raises:
        RequestFailed: of the last attempt.
    """
    began = clock.elapsed_ms()

    def late() -> bool:
        return clock.elapsed_ms() - began >= policy.deadline_ms

    def used_up(state: RetryCallState) -> bool:
        return late() or state.attempt_number >= policy.attempts

    def repeat(state: RetryCallState) -> None:
        # Here, not in tenacity's own sleep: the machine may have been suspended while it waited,
        # and nobody sends a request that others have given up on hours ago.
        clock.sleep(state.upcoming_sleep)
        if late() and state.outcome is not None:
            state.outcome.result()  # raises what went wrong last
        on_retry()

    def may_repeat(error: BaseException) -> bool:
        return isinstance(error, RequestFailed) and error.failure.kind == "transient"

    retrying = Retrying(
        stop=used_up,
        wait=wait_random_exponential(multiplier=policy.first_wait, max=policy.longest_wait),
        retry=retry_if_exception(may_repeat),
        before_sleep=repeat,
        sleep=lambda _: None,
        reraise=True,
    )
    return retrying(call)
