"""Hazards of what readers may still use, and of the past (docs/guarantees.md)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from firnline.errors import SnapshotExpiredError
from firnline.operations.cleanup.run import CleanupFailedError, preview
from firnline.operations.drop.run import run_drop
from firnline.operations.operation import Work
from firnline.operations.options import CleanupOptions, DropOptions, RewriteOptions
from firnline.operations.rewrite.run import run_rewrite
from firnline.state.snapshot import read_snapshot
from tests.support.beside import Watched
from tests.support.cleanups import GRACE, RUN, Refusing, check, clean_up
from tests.support.engines import CountingEngine
from tests.support.log_tables import do_merge, put_append, snapshot
from tests.support.world import World, make_world

HOUR = 3_600_000


def lived() -> tuple[World, dict[int, set[str]]]:
    """A table with a past, and what was live after each millisecond of it."""
    world = make_world()
    past: dict[int, set[str]] = {}

    def happens(act: Callable[[], object]) -> None:
        world.clock.advance(3)
        act()
        state = snapshot(world)
        past.update({world.clock.now + ms: set(state.live) for ms in range(3)})

    def merge(partition: str) -> None:
        do_merge(world, [m.p for m in snapshot(world).partitions[partition]])

    for _ in range(3):
        happens(lambda: put_append(world, "d=1", "d=2"))
        happens(lambda: merge("d=1"))
    happens(lambda: merge("d=2"))
    happens(lambda: run_drop(Work(world.table, RUN), DropOptions(partitions=("d=1",))))
    happens(lambda: put_append(world, "d=1", "d=2"))
    return world, past


def look_back(world: World, past: dict[int, set[str]], *, objects: bool) -> int:
    """Ask for every moment of the past; how many of them are refused.

    An answer is all that was live then, and with ``objects`` every part of it exists.
    """
    refused = 0
    for state in (snapshot(world), read_snapshot(world.store, world.table.paths)):
        refused = 0
        for at, live in past.items():
            if at <= state.purged:
                refused += 1
                with pytest.raises(SnapshotExpiredError, match=str(at)):
                    state.at(at)
                continue
            answer = set(state.at(at).live)
            assert answer == live
            assert not objects or answer <= world.store.objects.keys()
    return refused


@pytest.mark.parametrize("step", [1, 2, 1_000])
def test_hazard_10_an_as_of_read_before_the_purge_horizon_fails_and_is_never_partial(
    step: int,
) -> None:
    """However little of the work each clean-up does, and at every moment of its run."""
    world, past = lived()
    dropped = max(m.tmb or 0 for m in snapshot(world).parts.values())
    assert look_back(world, past, objects=True) == 0
    world.clock.advance(GRACE + 10)
    refused = [0]
    while preview(world.table, CleanupOptions()).count:
        # While only some of a transaction's parts are deleted, an answer may name one without an
        # object: an error for who reads it (PartGoneError), and no smaller answer.
        store = Watched(world.store, look=lambda: look_back(world, past, objects=False))
        clean_up(world, store, max_deletes=step)
        refused.append(look_back(world, past, objects=False))
        assert len(refused) < 100
    assert refused == sorted(refused)
    assert look_back(world, past, objects=True) == refused[-1]
    assert snapshot(world).purged == dropped, "the last that was deleted is what was dropped"
    assert refused[-1] == sum(at <= dropped for at in past)


def test_hazard_10_what_could_not_be_deleted_holds_the_horizon() -> None:
    """The past that can still be told in full stays readable."""
    world, past = lived()
    world.clock.advance(GRACE + 10)
    dead = sorted((m.tmb, p) for p, m in snapshot(world).parts.items() if m.tmb is not None)
    middle = dead[len(dead) // 2]
    with pytest.raises(CleanupFailedError):
        clean_up(world, Refusing(world.store, refuse=frozenset({middle[1]})))
    assert dead[0][0] <= snapshot(world).purged < middle[0]
    refused = look_back(world, past, objects=False)
    assert 0 < refused == sum(at <= snapshot(world).purged for at in past)


def test_hazard_11_a_rewrite_longer_than_the_grace_keeps_its_inputs_for_the_whole_grace() -> None:
    """After its commit, that is: a reader from just before it loses no part under its feet."""
    world = make_world(cleanup={"grace": "1h"}, commit_ttl="6h")
    keys = {key for _ in range(3) for key in put_append(world)}
    kept: list[set[str]] = []

    def reading(_: int) -> None:
        world.clock.advance(5 * HOUR)
        kept.append(set(snapshot(world).live))

    engine = CountingEngine(world, between=reading)
    options = RewriteOptions(where="v > 0", force=True)
    began = world.clock.now
    assert run_rewrite(Work(world.table, RUN, lambda: engine), options).partitions_changed == 1
    assert kept == [keys]
    state = snapshot(world)
    assert keys.isdisjoint(state.live)
    assert {state.parts[key].tmb for key in keys} == {began + 5 * HOUR}
    just_before = began + 5 * HOUR - 1
    for _ in range(4):
        clean_up(world)
        check(world, snapshot(world).live)
        assert keys <= world.store.objects.keys(), "the reader's whole grace is not over"
        assert set(snapshot(world).at(just_before).live) == keys
        world.clock.advance(HOUR // 4 - 1)
    world.clock.advance(4)
    assert clean_up(world).parts == len(keys)
    check(world, snapshot(world).live)
