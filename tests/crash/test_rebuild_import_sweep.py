"""Every store call of rebuild, import and downgrade: die before it, after it, lose its answer.

Exhaustive, as ``test_sweep``. After each fault the table reads or is still as lost as before; run
again, the operation comes to the same end.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from firnline.clock import SystemClock
from firnline.errors import FirnlineError, LogCorruptError, UsageError
from firnline.kernel.local import LocalEngine
from firnline.operations.cleanup import CleanupOptions, run_cleanup
from firnline.operations.downgrade import DowngradeOptions, run_downgrade
from firnline.operations.import_files import ImportOptions, run_import
from firnline.operations.rebuild import RebuildOptions, run_rebuild
from firnline.operations.verify import VerifyOptions, run_verify
from firnline.snapshot import read_snapshot
from firnline.store.probe import forget
from tests.support import histories
from tests.support.histories import RUN, append, filled, ids_of, merge, state
from tests.support.log_tables import v1_live
from tests.support.world import Crashed, Fault, FaultyStore, World, make_world

KINDS = ["before", "after", "lost"]
Operation = Callable[[World, FaultyStore, Path], None]
FOLDER = "memory://bucket/lake/in"


def rebuild(world: World, store: FaultyStore, _: Path) -> None:
    forget()
    run_rebuild(replace(world.table, store=store), RebuildOptions(), RUN)


def import_(world: World, store: FaultyStore, _: Path) -> None:
    run_import(replace(world.table, store=store), ImportOptions(source=FOLDER))


def downgrade(world: World, store: FaultyStore, scratch: Path) -> None:
    forget()
    engine = LocalEngine(lambda: store, scratch, world.ids, SystemClock())
    run_downgrade(replace(world.table, store=store), lambda: engine, DowngradeOptions(), RUN)


def points(start: World, operation: Operation, scratch: Path) -> Iterator[Fault]:
    """One fault per store call and kind."""
    store = FaultyStore(restored(start).store)
    world = restored(start)
    store.inner = world.store
    operation(world, store, scratch)
    for index in range(len(store.calls)):
        for kind in KINDS:
            yield Fault(index, kind)


def hit(world: World, operation: Operation, fault: Fault, scratch: Path) -> bool:
    """Run with a fault; True when the operation came through all the same."""
    try:
        operation(world, FaultyStore(world.store, fault), scratch)
    except (Crashed, FirnlineError):
        return False
    return True


def restored(start: World) -> World:
    """A copy of a world that goes its own way."""
    world = make_world(**start.settings.model_dump(exclude_defaults=True, exclude={"name"}))
    world.store.objects = copy.copy(start.store.objects)
    world.clock.now, world.clock.elapsed = start.clock.now, start.clock.elapsed
    world.ids.count = start.ids.count
    return world


def is_healthy(world: World) -> bool:
    return run_verify(world.table, VerifyOptions(deep=True)).healthy


def lost_table(tmp_path: Path) -> World:
    """Merged, appended to, left-overs of a dead merge beside it; its log is gone."""
    world = filled()
    merge(world, tmp_path)
    for first in range(24, 48, 6):
        append(world, first)
    histories.dies_at(world, "put t/_txn/", "before", lambda s: merge(world, tmp_path, s))
    histories.lose_log(world)
    return world


def test_a_rebuild_that_dies_at_any_store_call_is_run_again(tmp_path: Path) -> None:
    start = lost_table(tmp_path)
    swept = 0
    for fault in points(start, rebuild, tmp_path):
        world = restored(start)
        came_through = hit(world, rebuild, fault, tmp_path)
        # What is lost now is lost wholly, or the log is there wholly: never a part of it.
        seen = ids_of(world)
        assert seen in (Counter(), Counter(range(48))), fault
        world.clock.advance(1000)
        if came_through:
            with pytest.raises(UsageError, match="reads, and lacks nothing"):
                rebuild(world, FaultyStore(world.store), tmp_path)
        elif seen:
            hit(world, rebuild, Fault(-1, "none"), tmp_path)
        else:
            rebuild(world, FaultyStore(world.store), tmp_path)
        assert ids_of(world) == Counter(range(48)), fault
        assert v1_live(world) == state(world).live.keys()
        assert is_healthy(world), fault
        swept += 1
    assert swept >= 3 * 12


def test_a_rebuild_that_died_after_its_commit_stops_other_runs_until_it_is_run_again(
    tmp_path: Path,
) -> None:
    world = lost_table(tmp_path)
    died = histories.dies_at(
        world, "put t/_log/", "before", lambda store: rebuild(world, store, tmp_path)
    )
    assert died
    with pytest.raises(LogCorruptError, match="firnline rebuild"):
        merge(world, tmp_path)
    rebuild(world, FaultyStore(world.store), tmp_path)
    merge(world, tmp_path)
    assert ids_of(world) == Counter(range(48))
    assert is_healthy(world)


def folder() -> World:
    """Three files to import into a table that has rows already."""
    world = filled(partition_by=[], sort_by=[], partition=".*")
    for number in range(3):
        data = histories.parquet_bytes(histories.rows_from(100 + 6 * number))
        world.store.objects[f"lake/in/a=1/{number}.parquet"] = (data, world.clock.now)
    return world


def test_an_import_that_dies_at_any_store_call_is_there_wholly_or_not_at_all(
    tmp_path: Path,
) -> None:
    start = folder()
    before, after = Counter(range(24)), Counter([*range(24), *range(100, 118)])
    source = {k: v for k, v in start.store.objects.items() if k.startswith("lake/")}
    swept = 0
    for fault in points(start, import_, tmp_path):
        world = restored(start)
        came_through = hit(world, import_, fault, tmp_path)
        seen = ids_of(world)
        assert seen in (before, after), fault
        assert seen == after or not came_through, fault
        world.clock.advance(1000)
        if seen == before:
            import_(world, FaultyStore(world.store), tmp_path)
        else:
            with pytest.raises(UsageError, match="imported into this table before"):
                import_(world, FaultyStore(world.store), tmp_path)
        assert ids_of(world) == after, fault
        assert source.items() <= world.store.objects.items()
        orphans = {k for k in world.store.objects if "/_data/" in k} - set(state(world).parts)
        assert len(orphans) <= 3, fault
        assert is_healthy(world), fault
        swept += 1
    assert swept >= 3 * 10


def with_deletes() -> World:
    """Twelve rows; two parts hold one each that is deleted."""
    world = filled(2)
    histories.delete_lazily(world, 2)
    world.clock.advance(world.settings.append.ttl)
    return world


def test_a_downgrade_that_dies_at_any_store_call_goes_on_when_it_is_run_again(
    tmp_path: Path,
) -> None:
    start = with_deletes()
    swept = 0
    for fault in points(start, downgrade, tmp_path):
        world = restored(start)
        hit(world, downgrade, fault, tmp_path)
        # Rows below 2 are hidden by the record until they are gone; the others are there once.
        assert {i: n for i, n in ids_of(world).items() if i >= 2} == dict.fromkeys(range(2, 12), 1)
        world.clock.advance(1000)
        downgrade(world, FaultyStore(world.store), tmp_path)
        assert ids_of(world) == Counter(range(2, 12)), fault
        assert v1_live(world) == state(world).live.keys()
        assert read_snapshot(world.store, world.table.paths).deletes == {}
        assert is_healthy(world), fault
        swept += 1
    assert swept >= 3 * 20


def test_the_deletion_of_left_overs_that_dies_at_any_store_call_goes_on(tmp_path: Path) -> None:
    start = with_deletes()
    downgrade(start, FaultyStore(start.store), tmp_path)
    start.clock.advance(2 * start.settings.cleanup.grace)
    for fault in points(start, downgrade, tmp_path):
        world = restored(start)
        hit(world, downgrade, fault, tmp_path)
        assert ids_of(world) == Counter(range(2, 12)), fault
        world.clock.advance(1000)
        downgrade(world, FaultyStore(world.store), tmp_path)
        assert ids_of(world) == Counter(range(2, 12)), fault
        folders = Counter(k.split("/")[1] for k in world.store.objects)
        assert folders == {"_log": 1, "_data": len(state(world).live)}, fault


def test_a_clean_up_after_a_rebuild_deletes_the_dead_parts_and_no_other(tmp_path: Path) -> None:
    world = lost_table(tmp_path)
    rebuild(world, FaultyStore(world.store), tmp_path)
    world.clock.advance(world.settings.cleanup.grace + 1000)
    run_cleanup(world.table, CleanupOptions(), RUN)
    assert ids_of(world) == Counter(range(48))
    named = set(state(world).parts)
    left = {k for k in world.store.objects if "/_data/" in k} - named
    assert len(left) == 2, "what the dead merge left, for the orphan sweep"
    assert not [p for p, m in state(world).parts.items() if m.tmb and p in world.store.objects]
