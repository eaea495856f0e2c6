"""Deleting in batches: at a bounded rate, and nothing counts as gone without an answer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from firnline.errors import StoreError
from firnline.operations.deletion import DeleteProgress, Deleter
from firnline.store.base import Deleted
from tests.support.cleanups import Refusing
from tests.support.world import World, make_world


def filled(count: int, **cleanup: object) -> tuple[World, list[str]]:
    world = make_world(cleanup=cleanup)
    keys = [f"t/_data/{number:05d}.parquet" for number in range(count)]
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
