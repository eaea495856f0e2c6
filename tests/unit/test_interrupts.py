from __future__ import annotations

import pytest

from firnline.errors import StoppedError
from firnline.interrupts import Interrupts
from tests.support.striking import is_interrupted

WHY = StoppedError("enough", next_step="rest")


def test_a_run_is_interrupted_once_and_only_if_it_was_asked_to_stop() -> None:
    interrupts = Interrupts()
    assert not is_interrupted(interrupts.strike)
    interrupts.ask(WHY)
    assert is_interrupted(interrupts.strike)
    assert not is_interrupted(interrupts.strike)  # its cleaning up is not disturbed
    assert interrupts.over() is WHY


def test_a_commit_that_is_under_way_is_not_interrupted() -> None:
    interrupts = Interrupts()
    with interrupts.commit():
        interrupts.ask(WHY)
        assert interrupts.committing
        assert not is_interrupted(interrupts.strike)
    assert not interrupts.committing
    assert is_interrupted(interrupts.strike)


def test_no_commit_begins_once_the_run_is_to_stop() -> None:
    interrupts = Interrupts()
    interrupts.ask(WHY)
    for _ in range(2):  # neither does one of what runs on while it stops
        with pytest.raises(KeyboardInterrupt), interrupts.commit():
            pytest.fail("it began")
        assert not interrupts.committing
    assert not is_interrupted(interrupts.strike)


def test_a_run_that_is_over_is_not_interrupted() -> None:
    interrupts = Interrupts()
    assert interrupts.over() is None
    interrupts.ask(WHY)
    assert not is_interrupted(interrupts.strike)


def test_a_commit_that_fails_is_over() -> None:
    interrupts = Interrupts()
    with pytest.raises(ValueError, match="no"), interrupts.commit():
        raise ValueError("no")
    assert not interrupts.committing
