"""A run that dies at any store call around writing a checkpoint leaves a table that reads right."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import pytest

from firnline.commit.base import take_base
from firnline.commit.transaction import commit
from firnline.errors import FirnlineError
from firnline.log.txn_file import RunIdentity
from firnline.operations.cleanup.run import run_cleanup
from firnline.operations.operation import Work
from firnline.operations.options import CleanupOptions
from firnline.table import Table
from tests.support.checkpoints import assert_same, checkpoints
from tests.support.log_tables import do_merge, merge_change, put_append
from tests.support.sweeping import each_interrupt, every_point
from tests.support.world import INTERRUPTED, Crashed, Fault, FaultyStore, World, make_world

RUN = RunIdentity(run_id="r")


def start() -> World:
    """Checkpoints of three ages, and something to merge and to delete."""
    world = make_world(checkpoint={"min_parts": 1})
    for _ in range(3):
        do_merge(world, put_append(world) + put_append(world))
    assert len(checkpoints(world)) == 3
    world.clock.advance(world.settings.cleanup.grace + 1)
    put_append(world, "d=9")
    put_append(world, "d=9")
    return world


def merge(world: World, table: Table) -> None:
    base = take_base(table)
    keys = [m.p for m in base.snapshot.partitions.get("d=9", [])]
    if len(keys) > 1:
        commit(table, base, merge_change(world, keys, base), RUN)


def clean_up(world: World, table: Table) -> None:
    run_cleanup(Work(table, RUN), CleanupOptions())


@pytest.mark.parametrize("act", [merge, clean_up])
def test_whatever_call_it_dies_at_readers_agree_and_the_next_run_goes_on(
    act: Callable[[World, Table], None],
) -> None:
    world = start()
    store = FaultyStore(world.store)
    act(world, replace(world.table, store=store))
    about = [at for at, call in enumerate(store.calls) if "_ckpt" in call]
    assert len(about) >= 2
    for fault in [*every_point(store.calls), *each_interrupt(store.calls)]:
        world = start()
        rows = rows_of(world)
        faulty = FaultyStore(world.store, fault)
        with suppress(Crashed, FirnlineError, *INTERRUPTED):
            act(world, replace(world.table, store=faulty))
        assert rows_of(world) == rows
        act(world, world.table)
        assert rows_of(world) == rows
        assert checkpoints(world)


def rows_of(world: World) -> int:
    """By a reader that uses checkpoints, who has to agree with one that does not."""
    return sum(m.n or 0 for m in assert_same(world.table).live.values())


@pytest.mark.parametrize("act", [merge, clean_up])
def test_a_lost_answer_about_a_checkpoint_fails_nothing(
    act: Callable[[World, Table], None],
) -> None:
    world = start()
    store = FaultyStore(world.store)
    act(world, replace(world.table, store=store))
    for at in [at for at, call in enumerate(store.calls) if "_ckpt" in call]:
        again = start()
        act(again, replace(again.table, store=FaultyStore(again.store, Fault(at, "lost"))))
        assert take_base(again.table).seq == take_base(world.table).seq
