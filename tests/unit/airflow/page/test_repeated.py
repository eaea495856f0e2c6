from __future__ import annotations

import pytest

from firnline.airflow.page.background import FAILED, Background
from firnline.airflow.page.repeated import Last, Repeated
from firnline.errors import StoreError
from tests.support.background import LateBackground
from tests.support.world import SetClock

EVERY = 1_000


class Counting:
    """Something that counts how often it is read, and may fail."""

    def __init__(self) -> None:
        self.clock, self.work = SetClock(), Background("test", 1)
        self.repeated = Repeated[int]("it", EVERY, self.clock, self.work)
        self.error: Exception | None = None
        self.then = 0

    def read(self, old: int | None) -> int:
        if self.error is not None:
            raise self.error
        return (old or 0) + 1

    def get(self, of: str = "a", *, at_once: bool = False) -> Last[int]:
        def then() -> None:
            self.then += 1

        self.repeated.refresh(of, self.read, then, at_once=at_once)
        self.work.wait()
        return self.repeated.get(of)


def test_it_is_read_again_when_it_is_stale_with_what_is_known() -> None:
    it = Counting()
    assert it.repeated.get("a") == Last("a")
    assert (it.get().value, it.get().value) == (1, 1)
    it.clock.advance(EVERY)
    last = it.get()
    assert (last.value, last.read_ms, last.under_way) == (2, it.clock.now_ms(), False)
    assert it.then == 2


@pytest.mark.parametrize("at_once", [False, True])
def test_two_that_find_it_stale_at_one_time_have_it_read_once(*, at_once: bool) -> None:
    """The first reading may begin and end before the second one is started."""
    work = LateBackground()
    it = Repeated[int]("it", EVERY, SetClock(), work)
    for of in ("a", "a", "b"):
        it.refresh(of, lambda old: (old or 0) + 1, at_once=at_once)
    first, second, other = work.acts
    first()
    second()
    assert it.get("a").value == 1
    other()
    assert it.get("b").value == 1


def test_another_thing_begins_anew() -> None:
    it = Counting()
    it.clock.advance(EVERY)
    assert [it.get().value, it.get("b").value, it.get("b").value] == [1, 1, 1]
    assert it.repeated.get("a") == Last("a")


def test_what_is_known_to_be_of_the_past_is_read_at_once() -> None:
    it = Counting()
    assert [it.get().value, it.get(at_once=True).value] == [1, 2]


@pytest.mark.parametrize(
    ("error", "problem"),
    [(StoreError("away", next_step="wait"), "away; wait"), (ValueError("?"), FAILED)],
)
def test_an_error_keeps_what_is_known_and_is_not_asked_for_again_at_once(
    error: Exception, problem: str
) -> None:
    it = Counting()
    began = it.get().read_ms
    it.error = error
    it.clock.advance(EVERY)
    last = it.get()
    assert (last.value, last.read_ms, last.problem) == (1, began, problem)
    it.error = None
    assert it.get(at_once=True).problem == problem
    it.clock.advance(EVERY)
    assert (it.get().value, it.get().problem, it.then) == (2, "", 2)
