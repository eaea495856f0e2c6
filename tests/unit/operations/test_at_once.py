"""Looking at many tables at once."""

from __future__ import annotations

import threading

import pytest

from firnline.operations.at_once import at_once
from tests.support.programs import HUNG_SECONDS


def test_what_is_found_keeps_the_order_of_the_items() -> None:
    second_done = threading.Event()
    seen: list[int] = []

    def look(item: int) -> int:
        if item == 1:
            assert second_done.wait(HUNG_SECONDS)
        return item * 10

    def looked(found: int) -> None:
        seen.append(found)
        if found == 20:
            second_done.set()

    assert at_once([1, 2], look, 2, looked) == [10, 20]
    assert seen == [20, 10]


def test_nothing_is_found_of_nothing() -> None:
    assert at_once([], str, 4) == []


def test_an_error_that_a_look_does_not_handle_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        at_once([1, 0], lambda item: 1 // item, 2)
