"""Clean-up beside everybody else: whatever happens between any two of its calls, no row is lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firnline.commit.base import take_base
from firnline.commit.transaction import commit
from firnline.errors import (
    CommitConflictError,
    FirnlineError,
    OutcomeUnknownError,
    SnapshotExpiredError,
)
from firnline.operations.cleanup.run import preview
from firnline.operations.options import CleanupOptions
from firnline.state.snapshot import read_snapshot
from tests.support.beside import Beside, busy
from tests.support.cleanups import GRACE, RUN, check, clean_up, keys_under, sweep
from tests.support.effort import examples
from tests.support.log_tables import do_merge, merge_change, part_key, put_append, snapshot, v1_live
from tests.support.world import FaultyStore, World, make_world


def calls_of(run: Callable[[World, Any], object]) -> int:
    world, _ = busy()
    store = FaultyStore(world.store)
    run(world, store)
    return len(store.calls)


def each_call(run: Callable[[World, Any], object]) -> Iterator[int]:
    count = calls_of(run)
    assert count > 3
    yield from range(count)


def merge_all(world: World) -> None:
    """Every partition into one part."""
    for partition, markers in snapshot(world).partitions.items():
        assert partition
        do_merge(world, [m.p for m in markers])


def rows(world: World) -> int:
    return sum(m.n or 0 for m in snapshot(world).live.values())


@pytest.mark.long
@pytest.mark.parametrize("rival", ["merge", "append", "clean-up", "all"])
def test_whoever_works_between_any_two_calls_loses_nothing(rival: str) -> None:
    for when in each_call(clean_up):
        world, _ = busy()
        before = rows(world)

        def act(world: World = world) -> None:
            if rival in {"merge", "all"}:
                merge_all(world)
            if rival in {"append", "all"}:
                put_append(world, "d=1", rows=0)
            if rival in {"clean-up", "all"}:
                clean_up(world)

        clean_up(world, Beside(world.store, when=when, act=act))
        check(world, snapshot(world).live)
        assert rows(world) == before
        # Nothing dangles: what is dead is deleted in the end, and forgotten.
        world.clock.advance(GRACE + 10)
        for _ in range(3):
            clean_up(world)
            world.clock.advance(GRACE + 10)
        assert keys_under(world, "_data") == set(snapshot(world).live)


@pytest.mark.long
def test_a_clean_up_between_any_two_calls_of_a_merge_neither_revives_nor_hides() -> None:
    def merge(world: World, store: Any) -> None:
        table = replace(world.table, store=store)
        base = take_base(table)
        keys = [m.p for m in base.snapshot.partitions["d=1"]]
        commit(table, base, merge_change(world, keys, base), RUN)

    for when in each_call(merge):
        world, live = busy()
        inputs = {m.p for m in snapshot(world).partitions["d=1"]}
        merge(world, Beside(world.store, when=when, act=partial(clean_up, world)))
        after = set(snapshot(world).live)
        check(world, after)
        assert live - inputs <= after
        assert len(after - live) == 1
        assert inputs.isdisjoint(after)


@pytest.mark.parametrize("everything", [True, False])
def test_a_reader_gets_all_files_of_its_listing_or_lists_again(everything: bool) -> None:
    def read(world: World, store: Any) -> set[str]:
        return set(read_snapshot(store, world.table.paths, everything=everything).live)

    world, live = busy()
    store = FaultyStore(world.store)
    read(world, store)
    for when in range(len(store.calls)):
        world, live = busy()
        seen = read(world, Beside(world.store, when=when, act=partial(clean_up, world)))
        assert seen == live
        assert seen <= world.store.objects.keys()


def test_parts_of_a_transaction_that_was_published_late_stay_for_the_whole_grace() -> None:
    class DiesBeforePublishing(FaultyStore):
        def put_new(self, key: str, data: bytes) -> None:
            if "/_log/" in key:
                raise OutcomeUnknownError("gone", next_step="wait")
            super().put_new(key, data)

        def get(self, key: str) -> bytes:
            raise OutcomeUnknownError("gone", next_step="wait")

    world = make_world()
    keys = put_append(world) + put_append(world)
    base = take_base(world.table)
    dying = replace(world.table, store=DiesBeforePublishing(world.store))
    assert not commit(dying, base, merge_change(world, keys, base), RUN).published
    world.clock.advance(3 * GRACE)
    reader = v1_live(world)  # it knows no transaction that is not published
    assert reader == set(keys)
    report = clean_up(world)  # publishes it
    assert snapshot(world).seq == 1
    assert (report.parts, report.waiting[0].count) == (0, 2)
    world.clock.advance(GRACE - 1)
    clean_up(world)
    assert reader <= world.store.objects.keys(), "a reader from before has the whole grace"
    world.clock.advance(1)
    assert clean_up(world).parts == 2
    check(world, snapshot(world).live)


def test_a_part_that_is_live_is_never_deleted_whatever_the_clock_says() -> None:
    world, live = busy()
    world.clock.advance(365 * GRACE)
    clean_up(world)
    world.clock.advance(-400 * GRACE)
    clean_up(world)
    check(world, live)


def test_a_clean_up_that_another_has_overtaken_does_not_move_the_horizon_back() -> None:
    """Else the past in between, whose parts are deleted, would be read as if it were whole."""
    world = make_world()
    do_merge(world, put_append(world, "d=1") + put_append(world, "d=1"))
    second = put_append(world, "d=2") + put_append(world, "d=2")
    world.clock.advance(1_000)
    buried = do_merge(world, second).header.t
    world.clock.advance(2 * GRACE)
    logs = len(preview(world.table, CleanupOptions()).logs)
    store = Beside(world.store, what="put t/_txn", act=partial(clean_up, world))
    report = clean_up(world, store, max_deletes=logs + 2)  # the parts of d=1, and no other
    assert store.met
    assert (report.parts, set(second) & world.store.objects.keys()) == (2, set())
    assert report.purged == snapshot(world).purged == buried
    with pytest.raises(SnapshotExpiredError):
        snapshot(world).at(buried)
    check(world, snapshot(world).live)


def test_confirmations_of_an_earlier_run_that_died_do_not_count() -> None:
    world, live = busy()
    dead = {p for p, m in snapshot(world).parts.items() if m.tmb is not None}

    class DiesAfterDeleting(FaultyStore):
        def list(self, prefix: str, start_after: str | None = None) -> Iterator[Any]:
            if "delete" in self.calls:
                raise OutcomeUnknownError("died", next_step="run again")
            yield from super().list(prefix, start_after)

    with pytest.raises(FirnlineError):
        clean_up(world, DiesAfterDeleting(world.store))
    gone = dead - world.store.objects.keys()
    assert gone
    assert gone <= set(snapshot(world).parts), "nothing is forgotten before the commit"
    assert clean_up(world).parts == len(gone)
    check(world, live)


ACTIONS = ["append", "merge", "fold", "clean-up", "sweep", "die", "read", "wait", "wait long"]


@pytest.mark.long
@examples(25, 1_000)
@given(st.lists(st.tuples(st.sampled_from(ACTIONS), st.integers(0, 7)), max_size=40))
def test_in_any_order_of_everything_readers_keep_their_parts_and_no_row_is_lost(
    steps: list[tuple[str, int]],
) -> None:
    world = make_world()
    expected = 0
    readers: list[tuple[int, set[str]]] = []
    for action, number in steps:
        world.clock.advance(1)
        if action == "append":
            put_append(world, f"d={number % 2}")
            expected += 10
        elif action in {"merge", "fold", "die"}:
            _merge_some(world, number, dies=action == "die")
        elif action == "clean-up":
            clean_up(world, max_deletes=1 + 3 * number)
        elif action == "sweep" and snapshot(world).listing:
            sweep(world)
        elif action == "read":
            readers.append((world.clock.now, set(snapshot(world).live) | v1_live(world)))
        elif action.startswith("wait"):
            world.clock.advance(GRACE // 3 if action == "wait" else 2 * GRACE)
        readers = [(at, parts) for at, parts in readers if world.clock.now - at < GRACE]
        for _, parts in readers:
            assert parts <= world.store.objects.keys()
        assert rows(world) == expected
        check(world, snapshot(world).live)
    _comes_to_rest(world, expected)


def _merge_some(world: World, number: int, *, dies: bool) -> None:
    """Merge some parts; or leave an output behind, as a run that was killed."""
    keys = [p for index, p in enumerate(sorted(snapshot(world).live)) if (index + number) % 3]
    same = [k for k in keys if k.split("/")[2] == f"d={number % 2}"]
    if dies:
        if snapshot(world).listing:  # else it would look like what is left of a lost table
            part_key(world)
    elif same:
        base = take_base(world.table)
        try:
            commit(world.table, base, merge_change(world, same, base), RUN)
        except CommitConflictError as error:
            raise AssertionError("nobody works beside it") from error


def _comes_to_rest(world: World, expected: int) -> None:
    """With time, only live parts are left, and one more run does nothing at all."""
    if not snapshot(world).listing:
        return
    for _ in range(4):
        world.clock.advance(5 * GRACE)
        clean_up(world)
        sweep(world)
    before = dict(world.store.objects)
    clean_up(world)
    sweep(world)
    assert world.store.objects == before
    assert keys_under(world, "_data") == set(snapshot(world).live)
    assert rows(world) == expected
