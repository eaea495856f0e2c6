from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import pytest

from firnline.errors import (
    ObjectExistsError,
    ObjectNotFoundError,
    OutcomeUnknownError,
    StoreAccessError,
    StoreError,
    StoreUnavailableError,
)
from firnline.store.create import ATTEMPTS, Attempt, create
from tests.support.world import MemoryStore, SetClock

Put = Callable[["Scripted", str, bytes], None]


def works(store: Scripted, key: str, data: bytes) -> None:
    store.store_it(key, data)


def loses_the_answer(store: Scripted, key: str, data: bytes) -> None:
    store.store_it(key, data)
    raise OutcomeUnknownError("no answer", next_step="read it back")


def finds_its_own(store: Scripted, key: str, data: bytes) -> None:
    """The first attempt had its effect, the client repeated it."""
    store.store_it(key, data)
    raise ObjectExistsError("exists", next_step="read it back")


def never_arrives(store: Scripted, key: str, data: bytes) -> None:
    raise OutcomeUnknownError("no answer", next_step="read it back")


def collides(store: Scripted, key: str, data: bytes) -> None:
    """409: two puts in flight, and neither was stored."""
    raise ObjectExistsError("conflict", next_step="read it back")


def loses_to_a_rival(store: Scripted, key: str, data: bytes) -> None:
    store.store_it(key, b"rival")
    raise ObjectExistsError("exists", next_step="read it back")


def is_refused(store: Scripted, key: str, data: bytes) -> None:
    raise StoreAccessError("403", next_step="check")


class Scripted(MemoryStore):
    """A store whose puts do what the script says, then work."""

    def __init__(self, *script: Put) -> None:
        super().__init__(SetClock())
        self.script = list(script)
        self.get_fails = False

    def store_it(self, key: str, data: bytes) -> None:
        super().put_new(key, data)

    def put_new(self, key: str, data: bytes) -> None:
        put = self.script.pop(0) if self.script else works
        put(self, key, data)

    def get(self, key: str) -> bytes:
        if self.get_fails:
            raise StoreUnavailableError("silence", next_step="wait")
        return super().get(key)


@pytest.mark.parametrize(
    "script",
    [
        [],
        [loses_the_answer],
        [finds_its_own],
        [never_arrives],
        [collides],
        [never_arrives, collides],
        [never_arrives, loses_the_answer],
        [collides, collides, finds_its_own],
    ],
)
def test_our_own_object_is_recognised_whatever_the_answer_was(script: list[Put]) -> None:
    store = Scripted(*script)
    assert create(store, "k", b"ours") is None
    assert store.get("k") == b"ours"


@pytest.mark.parametrize(
    "script", [[loses_to_a_rival], [collides, loses_to_a_rival], [never_arrives, loses_to_a_rival]]
)
def test_of_a_rivals_object_the_bytes_are_given(script: list[Put]) -> None:
    store = Scripted(*script)
    assert create(store, "k", b"ours") == b"rival"
    assert store.get("k") == b"rival"


def test_an_answer_lost_to_a_rival_is_no_success() -> None:
    store = Scripted(never_arrives)
    store.store_it("k", b"rival")
    assert create(store, "k", b"ours") == b"rival"


@pytest.mark.parametrize("put", [never_arrives, collides])
def test_it_gives_up_and_says_that_nobody_knows(put: Put) -> None:
    store = Scripted(*[put] * 99)
    with pytest.raises(OutcomeUnknownError, match="whether k was stored"):
        create(store, "k", b"ours")
    assert len(store.script) == 99 - ATTEMPTS


def test_a_store_that_goes_silent_before_the_read_back_leaves_it_unknown() -> None:
    store = Scripted(loses_the_answer)
    store.get_fails = True
    with pytest.raises(OutcomeUnknownError, match="silence"):
        create(store, "k", b"ours")


def test_what_is_refused_is_not_repeated() -> None:
    store = Scripted(is_refused)
    with pytest.raises(StoreAccessError):
        create(store, "k", b"ours")
    with pytest.raises(ObjectNotFoundError):
        store.get("k")


@pytest.mark.parametrize("put", [never_arrives, collides])
def test_a_put_is_not_repeated_once_it_is_too_late(put: Put) -> None:
    # The simulation found it: a machine that slept between two puts published an append a day
    # late, when the sweep had deleted its parts.
    store = Scripted(put)
    with pytest.raises(OutcomeUnknownError, match="too late to try again"):
        create(store, "k", b"ours", may_put=lambda: False)
    assert "k" not in store.objects


def test_too_late_or_not_our_own_object_is_recognised() -> None:
    store = Scripted(loses_the_answer)
    assert create(store, "k", b"ours", may_put=lambda: False) is None


def interrupted(store: Scripted, key: str, data: bytes) -> None:
    raise KeyboardInterrupt


def interrupted_late(store: Scripted, key: str, data: bytes) -> None:
    store.store_it(key, data)
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("script", "may_stand"),
    [
        ([], True),
        ([loses_the_answer], True),
        ([finds_its_own], True),
        ([loses_to_a_rival], False),
        ([never_arrives, loses_to_a_rival], False),
        ([is_refused], False),
        ([never_arrives, is_refused], True),
        ([never_arrives] * ATTEMPTS, True),
        ([interrupted], True),
        ([interrupted_late], True),
        ([never_arrives, interrupted], True),
    ],
)
def test_whatever_ends_a_put_it_is_known_whether_it_may_have_had_its_effect(
    script: list[Put], may_stand: bool
) -> None:
    attempt = Attempt()
    with suppress(KeyboardInterrupt, StoreError):
        create(Scripted(*script), "key", b"mine", attempt=attempt)
    assert attempt.may_stand == may_stand


def test_a_put_that_loses_after_one_that_was_unknown_takes_the_doubt_away() -> None:
    """One attempt goes through all tries of a transaction, each under its own number."""
    attempt = Attempt(may_stand=True)
    create(Scripted(loses_to_a_rival), "key", b"mine", attempt=attempt)
    assert not attempt.may_stand
