"""Hazards of deleting what was replaced (docs/guarantees.md)."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from firnline.appends.append import Appender
from firnline.errors import ForeignPathError
from firnline.operations.cleanup.run import preview, run_cleanup
from firnline.operations.delete.run import run_delete
from firnline.operations.drop.run import run_drop
from firnline.operations.merge.run import run_merge
from firnline.operations.operation import Work
from firnline.operations.options import (
    CleanupOptions,
    DeleteOptions,
    DropOptions,
    MergeOptions,
    SweepOptions,
    VerifyOptions,
)
from firnline.operations.sweep.run import run_sweep
from firnline.operations.verify.run import run_verify
from firnline.paths import TablePaths
from firnline.state.snapshot import read_snapshot
from firnline.store.base import Deleted
from firnline.store.client import open_store
from firnline.table import Table
from tests.support import appends
from tests.support.beside import Beside, Watched, busy, nothing_dangles
from tests.support.cleanups import DAY, GRACE, RUN, check, clean_up, keys_under
from tests.support.engines import CountingEngine
from tests.support.log_tables import do_merge, put_append, snapshot, v1_live
from tests.support.stale_client import sleeper
from tests.support.world import Crashed, Fault, FaultyStore, SetClock, World, make_world


def merge(world: World, store: Any = None) -> None:
    table = world.table if store is None else replace(world.table, store=store)
    engine = CountingEngine(replace(world, table=table))
    run_merge(Work(table, RUN, lambda: engine), MergeOptions())


def rows(world: World) -> int:
    return sum(m.n or 0 for m in snapshot(world).live.values())


def test_hazard_03_clean_up_never_deletes_an_object_that_a_log_file_lists_alive() -> None:
    """An alive copy may stand in a later file than the tombstone: version 1 clients go by it.

    Such a copy is that of a client which slept. The part waits until a transaction has written
    its tombstone down again behind the copy; then it goes.
    """
    world = make_world(merge={"min_inputs": 2})
    dropped = set(put_append(world, "d=1")) | set(put_append(world, "d=1"))
    put_append(world, "d=2"), put_append(world, "d=2")
    goes_on = sleeper(world, "d=2")
    run_drop(Work(world.table, RUN), DropOptions(partitions=("d=1",)))
    world.clock.advance(10)
    goes_on(world.clock.now)
    world.clock.advance(2 * GRACE)
    assert dropped <= v1_live(world)
    store = Watched(world.store, look=lambda: nothing_dangles(world))
    clean_up(world, store)
    assert dropped <= world.store.objects.keys()
    (waiting,) = [w for w in preview(world.table, CleanupOptions()).waiting if w.what == "parts"]
    assert (waiting.count, "version 1" in waiting.reason) == (2, True)
    assert dropped.isdisjoint(read_snapshot(world.store, world.table.paths).live)
    put_append(world, "d=2")
    merge(world)
    assert dropped.isdisjoint(v1_live(world))
    world.clock.advance(2 * GRACE)
    clean_up(world, store)
    assert dropped.isdisjoint(world.store.objects)
    check(world, snapshot(world).live)


def test_hazard_03_nor_at_any_moment_of_a_run() -> None:
    """Nor after a batch of which only some keys were deleted, whichever these are."""
    world, live = busy()
    due = len(preview(world.table, CleanupOptions()).parts)
    assert due > 2
    for done in range(1, due):
        world, live = busy()
        look = partial(nothing_dangles, world)
        with pytest.raises(Crashed):
            clean_up(world, _HalfBatch(world.store, done=done, look=look))
        check(world, live)
        clean_up(world, Watched(world.store, look=look))
        check(world, live)


@dataclass
class _HalfBatch(Watched):
    """Of the first batch so many keys are deleted one by one, then the process dies."""

    done: int = 0

    def delete_many(self, keys: Iterable[str]) -> Iterator[Deleted]:
        wanted = sorted(keys)
        if len(wanted) == 1:  # the probe's
            yield from super().delete_many(wanted)
            return
        for key in wanted[: self.done]:
            list(super().delete_many([key]))
        raise Crashed("delete")


@pytest.mark.parametrize("kind", ["before", "after"])
def test_hazard_05_a_clean_up_that_dies_between_deleting_and_rewriting_the_log_loses_no_marker(
    kind: str,
) -> None:
    """Live parts are named by files that stay; dead ones until their deletion is on record."""
    world, _ = busy()
    counting = FaultyStore(world.store)
    clean_up(world, counting)
    first = counting.calls.index("delete")
    assert first + 4 < len(counting.calls), "the log is rewritten after the objects are deleted"
    for at in range(first, len(counting.calls)):
        world, live = busy()
        dead = snapshot(world).parts.keys() - live
        before = {p: (m.n, m.q, m.o) for p, m in snapshot(world).live.items()}
        with pytest.raises(Crashed):
            clean_up(world, FaultyStore(world.store, Fault(at, kind)))
        check(world, live)
        gone = dead - world.store.objects.keys()
        known = snapshot(world)
        assert gone <= known.parts.keys() or known.purged, "forgotten before it is on record"
        assert {p: (m.n, m.q, m.o) for p, m in known.live.items()} == before
        # The rerun finishes, and in the end only what is live is left, and its markers.
        for _ in range(3):
            clean_up(world)
            world.clock.advance(2 * GRACE)
        check(world, live)
        assert keys_under(world, "_data") == live == snapshot(world).parts.keys()


def test_hazard_06_a_clean_up_beside_a_merge_neither_revives_nor_hides() -> None:
    """Between any two calls of the one all of the other happens, in both directions."""

    def tried(
        run: Callable[[World, Any], object], beside: Callable[[World], object]
    ) -> Iterator[World]:
        counting = FaultyStore(_mergeable()[0].store)
        run(_mergeable()[0], counting)
        for when in range(len(counting.calls)):
            world, count = _mergeable()
            dead = {p for p, m in snapshot(world).parts.items() if m.tmb is not None}
            store = Beside(world.store, when=when, act=partial(beside, world))
            run(world, store)
            assert store.met
            check(world, snapshot(world).live)
            assert rows(world) == count, "no old row is back, no new one is hidden"
            assert dead.isdisjoint(snapshot(world).live)
            yield world

    runs = [*tried(merge, clean_up), *tried(clean_up, merge)]
    assert len(runs) > 12
    for world in runs:
        count = rows(world)
        for _ in range(4):
            world.clock.advance(2 * GRACE)
            clean_up(world)
            merge(world)
            assert rows(world) == count
            check(world, snapshot(world).live)
        world.clock.advance(2 * GRACE)
        clean_up(world)
        assert keys_under(world, "_data") == snapshot(world).live.keys()


def _mergeable() -> tuple[World, int]:
    """Parts to merge, parts that are due, and how many rows there are."""
    world, _ = busy()
    settings = world.settings.model_copy(
        update={"merge": world.settings.merge.model_copy(update={"min_inputs": 2})}
    )
    put_append(world, "d=1", "d=2")
    world = replace(world, settings=settings, table=replace(world.table, settings=settings))
    return world, rows(world)


OPERATIONS: dict[str, Callable[[Table], object]] = {
    "cleanup": lambda table: run_cleanup(Work(table, RUN), CleanupOptions()),
    "sweep": lambda table: run_sweep(Work(table, RUN), SweepOptions()),
    "merge": lambda table: run_merge(Work(table, RUN, _no_engine), MergeOptions()),
    "drop": lambda table: run_drop(Work(table, RUN), DropOptions(partitions=("d=1",))),
    "delete": lambda table: run_delete(Work(table, RUN, _no_engine), DeleteOptions(where="v = 1")),
    "append": lambda table: Appender(table).append(appends.TABLE),
}


def _no_engine() -> CountingEngine:
    raise AssertionError("a part of the original was about to be read")


@pytest.mark.parametrize("operation", ["cleanup", "sweep", "merge", "drop", "delete"])
def test_hazard_12_cleaning_a_copied_table_never_touches_the_original(operation: str) -> None:
    """Its log names the original's objects: an error that says so, and no path is followed.

    Nor does anything of the copy go, whose log says nothing of what is in it.
    """
    world = make_world()
    do_merge(world, put_append(world) + put_append(world))
    put_append(world)
    copies = {
        key.replace("t/", "copy/", 1): value for key, value in dict(world.store.objects).items()
    }
    world.store.objects.update(copies)
    world.clock.advance(30 * DAY)
    before = dict(world.store.objects)
    settings = world.settings.model_copy(update={"root": "memory://bucket/copy"})
    copied = Table(settings, world.store, TablePaths("copy"), world.clock, world.ids)
    with pytest.raises(ForeignPathError, match=r"points to 't/_.*was copied") as raised:
        OPERATIONS[operation](copied)
    assert "copy/_log/" in str(raised.value)
    assert world.store.objects == before
    assert not run_verify(Work(copied), VerifyOptions()).healthy
    assert world.store.objects == before


def test_hazard_12_a_copied_folder_is_a_table_of_its_own(tmp_path: Path) -> None:
    """Keys of ``file://`` tables begin at the table's folder, so the copy names its own objects."""

    def opened(parent: str, name: str = "t") -> Table:
        root = f"file://{tmp_path}/{parent}/{name}"
        made = appends.make(root)
        return replace(made, store=open_store(root))

    def content(parent: str) -> dict[str, bytes]:
        files = (path for path in (tmp_path / parent).rglob("*") if path.is_file())
        return {str(path): path.read_bytes() for path in files}

    (tmp_path / "original").mkdir()
    appender = Appender(opened("original"))
    for _ in range(2):
        appender.append(appends.TABLE)
    run_drop(Work(opened("original"), RUN), DropOptions(partitions=("",)))
    shutil.copytree(tmp_path / "original", tmp_path / "copy")
    shutil.copytree(tmp_path / "copy" / "t", tmp_path / "original" / "renamed")
    before = content("original")
    table = opened("copy")
    later = SetClock(now=4_000_000_000_000)
    assert run_cleanup(Work(replace(table, clock=later), RUN), CleanupOptions()).parts == 2
    renamed = replace(opened("original", "renamed"), clock=later)
    with pytest.raises(ForeignPathError, match="copied"):
        run_cleanup(Work(renamed, RUN), CleanupOptions())
    assert content("original") == before
