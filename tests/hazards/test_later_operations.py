"""Hazards of replaces, restores, changes of the schema, key tombstones, checkpoints."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from firnline.appends.append import Appender
from firnline.clock import SystemClock
from firnline.errors import SnapshotExpiredError
from firnline.kernel.local import LocalEngine
from firnline.operations.cleanup.run import run_cleanup
from firnline.operations.merge.run import run_merge
from firnline.operations.operation import Work
from firnline.operations.options import (
    CleanupOptions,
    Evolution,
    MergeOptions,
    ReplaceOptions,
    RestoreOptions,
    SchemaFixOptions,
)
from firnline.operations.replace.run import run_replace
from firnline.operations.restore.run import run_restore
from firnline.operations.schema.run import run_schema_fix
from firnline.state.snapshot import read_snapshot
from tests.support.beside import Beside
from tests.support.checkpoints import by_checkpoint, by_log, checkpoints
from tests.support.cleanups import RUN
from tests.support.histories import append, drop, filled, rows_from
from tests.support.log_tables import do_merge, put_append
from tests.support.reading import visible_ids, visible_rows
from tests.support.updates import visible
from tests.support.world import World, make_world

LOG_FILE = "put t/_log/"


def kernels(world: World, scratch: Path) -> LocalEngine:
    return LocalEngine(lambda: world.store, scratch, world.ids, SystemClock())


def append_beside(world: World, rows: pa.Table, act: Callable[[], object]) -> None:
    """An append that has begun, and has written its parts, when somebody else acts."""
    store = Beside(world.store, what=LOG_FILE, act=act)
    Appender(replace(world.table, store=store)).append(rows)
    assert store.met


def empty_interval(world: World, scratch: Path) -> None:
    """Ids 3 to 102 go, and nothing takes their place."""
    world.clock.advance(10)
    options = ReplaceOptions(column="id", start=3, end=103, nothing=True)
    run_replace(Work(world.table, RUN, lambda: kernels(world, scratch)), options)


def test_hazard_21_an_append_that_lands_late_is_replaced_with_the_interval_and_a_later_one_is_not(
    tmp_path: Path,
) -> None:
    world = filled(1)  # 0 to 5
    append_beside(world, rows_from(100), lambda: empty_interval(world, tmp_path))
    assert visible_ids(world.table) == Counter([0, 1, 2, 103, 104, 105])
    append(world, 50)
    assert visible_ids(world.table) == Counter([0, 1, 2, *range(50, 56), 103, 104, 105])


def test_hazard_22_a_restore_beside_a_clean_up_brings_back_everything_or_nothing() -> None:
    """Whichever of its requests the clean-up comes before; it deletes one part of two."""
    ends: Counter[str] = Counter()
    for call in range(40):
        world = filled(2)
        drop(world, "day=0")
        world.clock.advance(world.settings.cleanup.grace + 1000)
        old, new = visible_ids(world.table), Counter(range(12))

        def clean(world: World = world) -> None:
            run_cleanup(Work(world.table, RUN), CleanupOptions(max_deletes=3))

        store = Beside(world.store, when=call, act=clean)
        try:
            run_restore(Work(replace(world.table, store=store), RUN), RestoreOptions(to=0))
        except SnapshotExpiredError:
            ends["refused"] += 1
            assert visible_ids(world.table) == old
        else:
            ends["restored"] += 1
            assert visible_ids(world.table) == new
        live = read_snapshot(world.store, world.table.paths).live
        assert live.keys() <= world.store.objects.keys()
        if not store.met:
            break
    assert ends["refused"] > 2
    assert ends["restored"] > 2


def evolve(world: World, scratch: Path) -> None:
    world.clock.advance(10)
    options = SchemaFixOptions(evolution=Evolution(rename={"name": "title"}))
    run_schema_fix(Work(world.table, RUN, lambda: kernels(world, scratch)), options)


def test_hazard_23_an_append_beside_a_change_of_the_schema_loses_no_value(tmp_path: Path) -> None:
    """It began before a column got another name, and lands under the old one."""
    world = filled(1)
    append_beside(world, rows_from(6), lambda: evolve(world, tmp_path))
    if "name" in read_snapshot(world.store, world.table.paths).schema:
        evolve(world, tmp_path)  # both names are there, and the second run puts them together
    assert "name" not in read_snapshot(world.store, world.table.paths).schema
    assert {row["id"]: row["title"] for row in visible_rows(world.table)} == {
        n: f"n{n}" for n in range(12)
    }


def version(key: int, version: int, *, dead: bool = False) -> pa.Table:
    return pa.table({"k": [key], "version": [version], "dead": [dead]})


def test_hazard_24_a_row_that_comes_after_its_newer_key_tombstone_stays_hidden(
    tmp_path: Path,
) -> None:
    """Also when a merge of all there is has taken the tombstone in meanwhile."""
    world = make_world(
        partition=".*",
        primary_key=["k"],
        version="version",
        deleted="dead",
        deleted_keep="7d",
        merge={"min_inputs": 2},
    )
    appender = Appender(world.table)
    appender.append(version(1, 1))
    appender.append(version(2, 1))

    def delete_and_merge() -> None:
        appender.append(version(1, 3, dead=True))
        world.clock.advance(1000)
        run_merge(Work(world.table, RUN, lambda: kernels(world, tmp_path)), MergeOptions())
        assert len(read_snapshot(world.store, world.table.paths).live) == 1

    append_beside(world, version(1, 2), delete_and_merge)
    assert list(visible(world)) == [("", 2)]
    run_merge(Work(world.table, RUN, lambda: kernels(world, tmp_path)), MergeOptions())
    assert list(visible(world)) == [("", 2)]


def clean(world: World) -> None:
    world.clock.advance(world.settings.cleanup.grace + 1000)
    run_cleanup(Work(world.table, RUN), CleanupOptions())


def test_hazard_25_a_checkpoint_brings_no_part_back_that_clean_up_has_deleted() -> None:
    """It was written when the parts were alive, and nobody remembers that they are dead."""
    world = make_world(checkpoint={"min_parts": 1})
    do_merge(world, put_append(world) + put_append(world))
    (old,) = checkpoints(world)
    then = by_checkpoint(world.table).live.keys()
    data = world.store.objects[old]
    do_merge(world, [*then, *put_append(world)])
    for _ in range(3):
        do_merge(world, put_append(world) + put_append(world))
        clean(world)
    assert then.isdisjoint(by_log(world.table).parts)
    for key in checkpoints(world):
        del world.store.objects[key]
    world.store.objects[old] = data
    live = by_checkpoint(world.table).live.keys()
    assert live == by_log(world.table).live.keys()
    assert live <= world.store.objects.keys()


@pytest.mark.parametrize("when", range(8))
def test_hazard_25_a_reader_by_checkpoint_sees_all_when_a_clean_up_passes(when: int) -> None:
    """At any of its requests."""
    world = make_world(checkpoint={"min_parts": 1})
    for _ in range(3):
        do_merge(world, put_append(world) + put_append(world))
    before = set(by_checkpoint(world.table).live)
    store = Beside(world.store, when=when, act=lambda: clean(world))
    seen = by_checkpoint(replace(world.table, store=store)).live.keys()
    assert seen == before <= world.store.objects.keys()
