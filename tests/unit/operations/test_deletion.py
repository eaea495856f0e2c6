"""Deleting in batches: at a bounded rate, and nothing counts as gone without an answer."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, cast

import pytest

from firnline.errors import StoreError
from firnline.operations.delete_rate import FLOOR
from firnline.operations.deletion import GIVE_UP_MS, DeleteProgress, Deleter
from firnline.store.base import Deleted, Store
from firnline.table import Table
from tests.support.cleanups import Refusing
from tests.support.world import MemoryStore, World, make_world


def filled(many: int, **cleanup: object) -> tuple[World, list[str]]:
    world = make_world(cleanup=cleanup)
    keys = [f"t/_data/{number:05d}.parquet" for number in range(many)]
    world.store.objects = dict.fromkeys(keys, (b"x", world.clock.now))
    return world, keys


def test_batches_of_a_thousand_wait_for_their_rate() -> None:
    world, keys = filled(4_500, deletes_per_second=500)
    seen: list[tuple[int, DeleteProgress]] = []
    began = world.clock.elapsed
    deleter = Deleter(world.table, 4_500, lambda p: seen.append((world.clock.elapsed - began, p)))
    assert deleter.delete(keys) == frozenset(keys)
    assert world.store.objects == {}
    assert world.store.counters.delete == 5
    assert [(at, p.deleted) for at, p in seen] == [
        (0, 1_000),
        (2_000, 2_000),
        (4_000, 3_000),
        (6_000, 4_000),
        (8_000, 4_500),
    ]
    assert deleter.delete([]) == frozenset()


def test_a_slow_store_is_not_slowed_down_further() -> None:
    world, keys = filled(3_000, deletes_per_second=1_000)
    deleter = Deleter(world.table, 3_000, lambda _: world.clock.advance(5_000))
    began = world.clock.elapsed
    deleter.delete(keys)
    assert world.clock.elapsed - began == 15_000


def test_a_key_with_an_error_is_not_confirmed_and_the_others_are() -> None:
    world, keys = filled(10)
    table = replace(world.table, store=Refusing(world.store, refuse=frozenset(keys[3:5])))
    deleter = Deleter(table, 10)
    assert deleter.delete(keys) == frozenset(keys) - {keys[3], keys[4]}
    assert [f.key for f in deleter.failures] == keys[3:5]
    assert "locked" in deleter.failures[0].message
    assert (deleter.failed, deleter.gave_up) == (2, False)


def test_a_key_without_an_answer_is_not_confirmed() -> None:
    class Silent(Refusing):
        def delete_many(self, keys: Iterable[str]) -> Iterator[Deleted]:
            yield from list(super().delete_many(keys))[:-1]

    world, keys = filled(3)
    deleter = Deleter(replace(world.table, store=Silent(world.store)), 3)
    assert deleter.delete(keys) == frozenset(keys[:2])
    assert [(f.key, f.message) for f in deleter.failures] == [
        (keys[2], "the store gave no answer for it")
    ]


def test_a_store_that_refuses_a_whole_batch_is_not_asked_again() -> None:
    world, keys = filled(3_000)
    store = Refusing(world.store, refuse=frozenset(keys))
    deleter = Deleter(replace(world.table, store=store), 3_000)
    assert deleter.delete(keys) == frozenset()
    assert store.calls == ["delete"]
    assert (deleter.failed, len(deleter.failures), deleter.gave_up) == (3_000, 100, True)


def test_one_locked_object_does_not_end_a_run() -> None:
    world, keys = filled(3)
    deleter = Deleter(
        replace(world.table, store=Refusing(world.store, refuse=frozenset(keys[:1]))), 3
    )
    deleter.delete(keys[:1])
    assert deleter.delete(keys[1:]) == frozenset(keys[1:])


def test_answers_of_other_requests_count_too() -> None:
    world, keys = filled(2)
    deleter = Deleter(world.table, 2)
    deleter.answered(keys[0], None)
    deleter.answered(keys[1], StoreError("no", next_step="wait"))
    assert (deleter.confirmed, deleter.failed) == ({keys[0]}, 1)


@dataclass
class Throttled:
    """A store that has time for some keys of a batch, or for none, and says so for the others."""

    inner: MemoryStore
    takes: Callable[[Sequence[str]], int]
    """How many keys of a batch it has time for."""
    sent: list[tuple[str, ...]] = field(default_factory=list)
    batches_at_once: int = 1

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def delete_batch(self, keys: Sequence[str]) -> Sequence[Deleted]:
        self.sent.append(tuple(keys))
        some = self.takes(keys)
        busy = StoreError("503 SlowDown", next_step="wait")
        late = [Deleted(key, busy, slow=True) for key in keys[some:]]
        return [*self.inner.delete_many(keys[:some]), *late]


def throttled(world: World, takes: Callable[[Sequence[str]], int]) -> tuple[Table, Throttled]:
    store = Throttled(world.store, takes)
    return replace(world.table, store=cast("Store", store)), store


def test_only_the_keys_without_an_answer_are_sent_again_and_none_counts_twice() -> None:
    world, keys = filled(3_000, deletes_per_second=3_000)
    turns = iter((700, 1_000, 0))
    table, store = throttled(world, lambda keys: min(next(turns, 1_000), len(keys)))
    seen: list[DeleteProgress] = []
    deleter = Deleter(table, 3_000, seen.append)
    assert deleter.delete(keys) == deleter.confirmed == frozenset(keys)
    assert world.store.objects == {}
    assert (deleter.failed, deleter.failures, deleter.gave_up) == (0, [], False)
    assert [p.deleted for p in seen[:3]] == [700, 1_700, 1_700]
    assert seen[-1].deleted == 3_000
    assert seen[0].slowed
    assert seen[0].per_second < 3_000
    again = [key for batch in store.sent[3:] for key in batch]
    assert sorted(again) == sorted([*keys[700:1_000], *keys[2_000:]])


def test_a_store_that_slows_down_gets_no_more_than_a_seconds_keys_a_request() -> None:
    world, keys = filled(2_000, deletes_per_second=3_000)
    refusals = iter([0] * 6)
    table, store = throttled(world, lambda keys: next(refusals, len(keys)))
    Deleter(table, 2_000).delete(keys)
    assert world.store.objects == {}
    sizes = [len(batch) for batch in store.sent]
    assert sizes[:9] == [1_000, 1_000, 750, 375, 187, FLOOR, FLOOR, FLOOR + 50, FLOOR + 100]


@pytest.mark.long
def test_a_store_that_takes_2000_keys_a_second_gets_about_as_many() -> None:
    """The whole loop: it asks to slow down whenever a second has more, and nothing is lost."""
    world, keys = filled(100_000, deletes_per_second=3_000)
    spent: dict[int, int] = {}

    def takes(batch: Sequence[str]) -> int:
        second = world.clock.elapsed // 1_000
        room = max(0, 2_000 - spent.get(second, 0))
        spent[second] = spent.get(second, 0) + min(room, len(batch))
        return min(room, len(batch))

    table, store = throttled(world, takes)
    began = world.clock.elapsed
    deleter = Deleter(table, 100_000)
    assert deleter.delete(keys) == frozenset(keys)
    assert world.store.objects == {}
    seconds = (world.clock.elapsed - began) / 1_000
    assert 50 <= seconds <= 90, "2,000 a second are 50 s"
    assert sum(map(len, store.sent)) <= 110_000


def test_a_store_that_only_refuses_is_given_up_after_a_bounded_time() -> None:
    world, keys = filled(2_500, deletes_per_second=3_000)
    table, store = throttled(world, lambda _: 0)
    deleter = Deleter(table, 2_500)
    began = world.clock.elapsed
    assert deleter.delete(keys) == frozenset()
    spent = world.clock.elapsed - began
    assert GIVE_UP_MS <= spent < GIVE_UP_MS + 2_000
    assert (deleter.failed, deleter.gave_up) == (2_500, True)
    assert deleter.failures[0].message == (
        "the store refuses to delete anything for 5m, down to 100 keys a second: 503 SlowDown; wait"
    )
    assert len(world.store.objects) == 2_500
    assert len(store.sent) < 350
    later = Deleter(replace(table, store=world.store), 2_500)
    assert later.delete(keys) == frozenset(keys), "a later run goes on"


def test_a_pause_between_two_deletes_of_a_run_is_no_refusal() -> None:
    world, keys = filled(2_000)
    turns = iter((1_000, 0))
    table, _ = throttled(world, lambda keys: min(next(turns, 1_000), len(keys)))
    deleter = Deleter(table, 2_000)
    deleter.delete(keys[:1_000])
    world.clock.advance(2 * GIVE_UP_MS)
    deleter.delete(keys[1_000:])
    assert not deleter.gave_up
    assert world.store.objects == {}


def test_batches_are_in_flight_while_another_one_is_prepared() -> None:
    world, keys = filled(5_000, deletes_per_second=10_000_000)
    table, store = throttled(world, len)
    store.batches_at_once = 4
    together = threading.Barrier(4, timeout=20)
    one = store.delete_batch

    def meet(keys: Sequence[str]) -> Sequence[Deleted]:
        if next(number) < 4:
            together.wait()
        with lock:
            return one(keys)

    lock, number = threading.Lock(), count()
    store.delete_batch = meet  # type: ignore[method-assign] # for the test
    deleter = Deleter(table, 5_000)
    assert deleter.delete(keys) == frozenset(keys)
    assert (len(store.sent), deleter.failed) == (5, 0)
