from __future__ import annotations

import pytest

from firnline.errors import ObjectExistsError, StoreUnavailableError, StoreUnsafeError
from firnline.store.probe import probe
from tests.support.world import Asleep, CountedIds, MemoryStore, SetClock


class Overwriting(MemoryStore):
    """Ignores create-only."""

    def put_new(self, key: str, data: bytes) -> None:
        self._write(key, data)


class Lying(MemoryStore):
    """Refuses the second put and stores it all the same."""

    def put_new(self, key: str, data: bytes) -> None:
        there = key in self.objects
        self._write(key, data)
        if there:
            raise ObjectExistsError("exists", next_step="read it back")


class Silent(MemoryStore):
    def put_new(self, key: str, data: bytes) -> None:
        raise StoreUnavailableError("silence", next_step="wait")


class Swept(MemoryStore):
    """Somebody deletes what lies there between two requests."""

    def put_new(self, key: str, data: bytes) -> None:
        try:
            super().put_new(key, data)
        finally:
            if data.startswith(b"second"):
                self.objects.clear()


@pytest.mark.parametrize("kind", [Overwriting, Lying])
def test_a_store_that_overwrites_is_refused_with_the_way_out(kind: type[MemoryStore]) -> None:
    store = kind(SetClock())
    with pytest.raises(StoreUnsafeError, match="locking: pool-only") as raised:
        probe(store, "t", ids=CountedIds(), clock=store.clock)
    assert "\n" not in str(raised.value)
    assert store.objects == {}
    with pytest.raises(StoreUnsafeError):
        probe(store, "t", ids=CountedIds(), clock=store.clock)


def test_a_good_store_is_asked_once_for_each_table() -> None:
    store = MemoryStore(SetClock())
    probe(store, "t", ids=CountedIds(), clock=store.clock)
    assert (store.counters.put, store.counters.get, store.counters.delete) == (2, 1, 1)
    probe(store, "t", ids=CountedIds(), clock=store.clock)
    assert store.counters.put == 2
    probe(store, "other", ids=CountedIds(), clock=store.clock)
    assert store.counters.put == 4
    assert store.objects == {}


def test_a_store_that_does_not_answer_is_not_called_unsafe() -> None:
    with pytest.raises(StoreUnavailableError):
        probe(Silent(SetClock()), "t", ids=CountedIds(), clock=SetClock())


def test_a_probe_whose_object_somebody_deleted_can_be_tried_again() -> None:
    store = Swept(SetClock())
    with pytest.raises(StoreUnavailableError, match="deleted") as raised:
        probe(store, "t", ids=CountedIds(), clock=store.clock)
    assert raised.value.retryable


def test_a_new_store_is_not_taken_for_one_that_is_gone() -> None:
    for _ in range(50):  # the next object often lies where the last one was
        store = MemoryStore(SetClock())
        probe(store, "t", ids=CountedIds(), clock=store.clock)
        assert store.counters.put == 2
        del store
        with pytest.raises(StoreUnsafeError):
            probe(Overwriting(SetClock()), "t", ids=CountedIds(), clock=SetClock())


def test_a_store_is_not_blamed_for_what_a_sweep_deleted_while_the_probe_slept() -> None:
    store = MemoryStore(SetClock())

    def sleeps() -> None:
        store.clock.advance(72 * 3_600_000)
        store.objects.clear()

    asleep = Asleep(store, at="put t/_probe/", skip=1, meanwhile=sleeps)
    with pytest.raises(StoreUnavailableError, match="while it was used to probe the store"):
        probe(asleep, "t", ids=CountedIds(), clock=store.clock)
    assert asleep.slept == 1
