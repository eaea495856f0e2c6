"""A step is repeated while the context lasts, and never after it."""

from __future__ import annotations

import threading

import pytest

from firnline.watching import repeated


def test_a_step_is_repeated_in_a_thread_of_its_own_until_the_context_ends() -> None:
    names: list[str] = []
    twice = threading.Event()

    def step() -> None:
        names.append(threading.current_thread().name)
        if len(names) == 2:
            twice.set()

    with repeated(step, 0.001, "firnline-test"):
        assert twice.wait(60)
    seen = len(names)
    assert set(names) == {"firnline-test"}
    assert "firnline-test" not in {thread.name for thread in threading.enumerate()}
    assert len(names) == seen


def test_an_error_in_the_context_ends_it_too() -> None:
    with pytest.raises(KeyError), repeated(lambda: None, 0.001, "firnline-test"):
        raise KeyError
    assert "firnline-test" not in {thread.name for thread in threading.enumerate()}
