"""What the errors say of themselves."""

from __future__ import annotations

import pickle

import pytest

from firnline.errors import NAMED, PartGoneError, RunFailedError, quoted, some


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


def test_a_sentence_lists_some_names_and_counts_the_rest() -> None:
    assert [some([]), some(["a"]), some(iter("abcde"))] == ["", "a", "a, b, c, d, e"]
    assert some("abcdefg") == "a, b, c, d, e and 2 more"
    assert some(map(str, range(1_000 + NAMED))).endswith("4 and 1,000 more")
    assert some("abc", 1) == "a and 2 more"


@pytest.mark.long
def test_a_value_of_very_many_levels_is_named_by_its_type() -> None:
    value: list[object] = []
    for _ in range(100_000):
        value = [value]
    assert quoted(value) == "a list of very many levels"
