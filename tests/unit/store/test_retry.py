from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from firnline.store.failures import Failure
from firnline.store.requests import RequestFailed, RetryPolicy, with_retry


@dataclass
class FakeClock:
    """Time that passes only by sleeping."""

    now: float = 0.0
    slept: list[float] = field(default_factory=list)

    def now_ms(self) -> int:
        return self.elapsed_ms()

    def elapsed_ms(self) -> int:
        return int(self.now * 1000)

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


class Suspended(FakeClock):
    """Of a machine whose lid is closed while it waits."""

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds + 86_400)


TRANSIENT, FINAL = Failure("transient", "503"), Failure("access", "403")


def failing(times: int, failure: Failure = TRANSIENT, calls: list[int] | None = None) -> int:
    seen = calls if calls is not None else []
    seen.append(1)
    if len(seen) <= times:
        raise RequestFailed(failure)
    return len(seen)


def test_what_may_be_repeated_is_repeated_until_it_succeeds() -> None:
    clock, calls, retries = FakeClock(), list[int](), list[int]()
    done = with_retry(
        RetryPolicy(), clock, lambda: failing(3, calls=calls), lambda: retries.append(1)
    )
    assert (done, len(retries), len(clock.slept)) == (4, 3, 3)


def test_what_may_not_be_repeated_is_sent_once() -> None:
    clock, calls = FakeClock(), list[int]()
    with pytest.raises(RequestFailed, match="403"):
        with_retry(RetryPolicy(), clock, lambda: failing(9, FINAL, calls), lambda: None)
    assert (len(calls), clock.slept) == (1, [])


def test_an_error_that_is_no_failure_of_the_store_passes_at_once() -> None:
    calls = list[int]()

    def broken() -> None:
        calls.append(1)
        raise KeyError("bug")

    with pytest.raises(KeyError):
        with_retry(RetryPolicy(), FakeClock(), broken, lambda: None)
    assert len(calls) == 1


def test_attempts_are_bounded() -> None:
    calls = list[int]()
    with pytest.raises(RequestFailed):
        with_retry(
            RetryPolicy(attempts=5), FakeClock(), lambda: failing(99, calls=calls), lambda: None
        )
    assert len(calls) == 5


def test_time_is_bounded_by_the_injected_clock() -> None:
    clock, calls = FakeClock(), list[int]()

    def slow() -> int:
        clock.now += 25
        return failing(99, calls=calls)

    with pytest.raises(RequestFailed):
        with_retry(RetryPolicy(deadline_ms=60_000), clock, slow, lambda: None)
    assert len(calls) == 3


def test_waits_are_random_and_their_bound_doubles() -> None:
    policy = RetryPolicy(attempts=12, deadline_ms=10**9, first_wait=1.0, longest_wait=8.0)
    waits = []
    for _ in range(40):
        clock = FakeClock()
        with pytest.raises(RequestFailed):
            with_retry(policy, clock, lambda: failing(99), lambda: None)
        waits.append(clock.slept)
    for position, bound in enumerate([1, 2, 4, 8, 8, 8]):
        column = [row[position] for row in waits]
        assert max(column) <= bound
        assert min(column) < bound / 2 < max(column)


def test_a_machine_that_was_suspended_while_it_waited_does_not_send_again() -> None:
    clock, calls = Suspended(), list[int]()
    with pytest.raises(RequestFailed, match="503"):
        with_retry(RetryPolicy(), clock, lambda: failing(3, calls=calls), lambda: None)
    assert len(calls) == 1
