"""When new objects may be deleted: never once a put that may make them live was sent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from firnline.append import Appender
from firnline.base import take_base
from firnline.errors import CommitUnknownError
from firnline.operations.import_files import ImportOptions, run_import
from firnline.operations.restore import RestoreOptions, run_restore
from firnline.operations.verify import VerifyOptions, run_verify
from tests.support.histories import RUN, drop, filled, parquet_bytes, rows_from
from tests.support.log_tables import snapshot
from tests.support.reading import visible_ids
from tests.support.world import INTERRUPTED, INTERRUPTS, Fault, FaultyStore, World, make_world

FOLDER = "memory://bucket/lake/in"


def a_drop_to_undo() -> World:
    world = filled()
    drop(world, "day=0")
    world.clock.advance(10)
    return world


def restore(world: World, store: FaultyStore) -> object:
    return run_restore(replace(world.table, store=store), RestoreOptions(to=0), RUN)


def a_folder() -> World:
    world = make_world()
    for number in range(2):
        data = parquet_bytes(rows_from(6 * number))
        world.store.objects[f"lake/in/a=1/{number}.parquet"] = (data, world.clock.now)
    return world


def import_(world: World, store: FaultyStore) -> object:
    return run_import(replace(world.table, store=store), ImportOptions(source=FOLDER))


def nothing_yet() -> World:
    return make_world(partition=".*")


def append(world: World, store: FaultyStore) -> object:
    return Appender(replace(world.table, store=store)).append(rows_from(0), "p")


CASES = [(a_drop_to_undo, restore), (a_folder, import_), (nothing_yet, append)]
each = pytest.mark.parametrize(("start", "run"), CASES, ids=["restore", "import", "append"])
interrupted = pytest.mark.parametrize("interrupt", INTERRUPTS)
Run = Callable[[World, FaultyStore], object]


def data(world: World) -> set[str]:
    return {key for key in world.store.objects if "/_data/" in key}


def commit_of(start: Callable[[], World], run: Run) -> int:
    """The number of the call that commits."""
    world = start()
    store = FaultyStore(world.store)
    run(world, store)
    puts = [
        n for n, call in enumerate(store.calls) if call.startswith(("put t/_txn/", "put t/_log/"))
    ]
    return puts[0]


def hit(start: Callable[[], World], run: Run, fault: Fault) -> World:
    world = start()
    with pytest.raises((*INTERRUPTED, CommitUnknownError)):
        run(world, FaultyStore(world.store, fault))
    return world


@interrupted
@each
def test_an_interrupt_right_after_the_put_that_commits_leaves_every_committed_row(
    start: Callable[[], World], run: Run, interrupt: str
) -> None:
    world = hit(start, run, Fault(commit_of(start, run), "after", interrupt))
    clean = start()
    run(clean, FaultyStore(clean.store))
    take_base(world.table)  # publishes what is committed
    assert run_verify(world.table, VerifyOptions(deep=True)).healthy
    assert visible_ids(world.table) == visible_ids(clean.table)
    assert snapshot(world).live.keys() <= data(world)


@interrupted
@each
def test_an_interrupt_before_anything_was_sent_that_commits_leaves_no_new_object(
    start: Callable[[], World], run: Run, interrupt: str
) -> None:
    for at in range(commit_of(start, run)):
        for kind in ("before", "after"):
            world = hit(start, run, Fault(at, kind, interrupt))
            assert data(world) == data(start()), (at, kind)
