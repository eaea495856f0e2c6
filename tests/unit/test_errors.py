"""What the errors say of themselves."""

from __future__ import annotations

import pickle

import pytest

from firnline.errors import PartGoneError, RunFailedError


@pytest.mark.parametrize(
    ("causes", "retryable"),
    [
        ((), False),
        (("StoreUnavailableError",), True),
        (("PartGoneError", "StoreUnavailableError"), True),
        (("PartUnreadableError", "StoreUnavailableError"), False),
        (("ValueError",), False),
        (("Any",), False),
    ],
)
def test_a_run_is_worth_a_retry_when_everything_that_went_wrong_may_pass(
    causes: tuple[str, ...], retryable: bool
) -> None:
    error = RunFailedError("2 groups failed", next_step="look", causes=causes)
    assert error.retryable is retryable
    assert str(error) == "2 groups failed; look"


def test_an_error_travels_between_processes() -> None:
    error = pickle.loads(pickle.dumps(PartGoneError("t/x has no object", next_step="read again")))
    assert (error.message, error.next_step) == ("t/x has no object", "read again")
    assert error.retryable
