"""What log, checkpoints, history and clean-up make of a lazy change of columns."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import firnline
from firnline.commit import checkpoint
from firnline.commit.base import take_base
from firnline.errors import FirnlineError, UsageError
from firnline.operations.delete.run import run_delete
from firnline.operations.downgrade.run import run_downgrade
from firnline.operations.drop.run import run_drop
from firnline.operations.operation import Work
from firnline.operations.options import (
    DeleteOptions,
    DowngradeOptions,
    DropOptions,
    Evolution,
    LazyOptions,
    RebuildOptions,
    RestoreOptions,
    VerifyOptions,
)
from firnline.operations.rebuild.run import run_rebuild
from firnline.operations.restore.run import run_restore
from firnline.operations.schema.lazy import run_lazily
from firnline.operations.verify.run import run_verify
from firnline.state.snapshot import read_snapshot
from firnline.store.probe import forget
from tests.support.cleanups import clean_up, keys_under
from tests.support.evolving import (
    AFTER,
    CHANGED,
    DAY,
    RUN,
    at_once,
    columns_in_parts,
    columns_of,
    engine,
    lazily,
    merged,
    put,
    rows_are,
    rows_of,
    schema_of,
    world_of,
)
from tests.support.histories import dies_at, lose_log
from tests.support.world import Crashed, Fault, FaultyStore, make_world


def test_checkpoints_say_what_the_log_says() -> None:
    world = world_of(2)
    table = world.table

    def same() -> None:
        found = read_snapshot(world.store, table.paths, checkpoint_above=0)
        log = read_snapshot(world.store, table.paths)
        assert found.covered
        assert (dict(found.schema), found.changes) == (dict(log.schema), log.changes)
        assert not [
            f for f in run_verify(Work(table), VerifyOptions()).findings if "check" in f.kind
        ]

    assert checkpoint.write(table, take_base(table).snapshot)
    same()
    lazily(world, **CHANGED)
    same()
    assert checkpoint.write(table, take_base(table).snapshot)
    same()
    put(world, columns_of(2))
    lazily(world, rename={"remark": "word"}, drop=("note",))
    same()


@pytest.mark.long
def test_a_checkpoint_that_remembers_a_delete_by_the_old_name_is_of_use_all_the_same(
    tmp_path: Path,
) -> None:
    world = world_of(2)
    options = DeleteOptions(where="note = 'n0'", mode="lazy")
    run_delete(Work(world.table, RUN, engine(world, tmp_path)), options)
    merged(world, tmp_path)
    assert checkpoint.write(world.table, take_base(world.table).snapshot)
    world.clock.advance(2 * DAY)
    put(world, columns_of(2))
    put(world, columns_of(3))
    clean_up(world)
    merged(world, tmp_path)
    assert not read_snapshot(world.store, world.table.paths).deletes
    lazily(world, **CHANGED)
    found = read_snapshot(world.store, world.table.paths, checkpoint_above=0)
    log = read_snapshot(world.store, world.table.paths)
    assert (dict(found.live), found.deletes) == (dict(log.live), {})
    rows_are(world, rows_of(4)[1:])


def test_a_lost_log_is_rebuilt_with_the_record() -> None:
    world = world_of(2)
    lazily(world, **CHANGED)
    put(world, {"id": [2], "remark": ["n2"]})
    lose_log(world)
    world.clock.advance(10)
    run_rebuild(Work(world.table, RUN), RebuildOptions())
    assert schema_of(world) == AFTER
    rows_are(world, rows_of(3))


@pytest.mark.long
def test_what_is_restored_has_the_columns_of_today(tmp_path: Path) -> None:
    world = world_of(2, partition=".*")
    lazily(world, **CHANGED)
    world.clock.advance(10)
    run_drop(Work(world.table, RUN), DropOptions(partitions=("",)))
    rows_are(world, [])
    world.clock.advance(10)
    run_restore(Work(world.table, RUN), RestoreOptions(to=1))
    rows_are(world, rows_of(2))
    merged(world, tmp_path)
    rows_are(world, rows_of(2))
    assert columns_in_parts(world) == {("id", "int64"), ("remark", "string")}


def test_a_downgrade_writes_every_part_in_the_new_form_first(tmp_path: Path) -> None:
    world = world_of(2)
    lazily(world, **CHANGED)
    with pytest.raises(UsageError, match=r"younger than append\.ttl"):
        run_downgrade(Work(world.table, RUN, engine(world, tmp_path)), DowngradeOptions())
    world.clock.advance(DAY)
    run_downgrade(Work(world.table, RUN, engine(world, tmp_path)), DowngradeOptions())
    assert columns_in_parts(world) == {("id", "int64"), ("remark", "string")}
    assert read_snapshot(world.store, world.table.paths).changes == ()
    assert schema_of(world) == AFTER
    rows_are(world, rows_of(2))


@pytest.mark.long
@pytest.mark.parametrize("kind", ["before", "after", "lost"])
def test_after_a_crash_at_any_call_it_is_done_or_not_and_may_be_run_again(kind: str) -> None:
    at = 0
    while True:
        forget()
        world = world_of(2)
        store = FaultyStore(world.store, Fault(at, kind))
        table = replace(world.table, store=store)
        crashed = False
        try:
            lazily(replace(world, table=table), **CHANGED)
        except (Crashed, FirnlineError):
            crashed = True
        done = schema_of(world) == AFTER or take_base(world.table).snapshot.seq == 1
        assert not done or schema_of(world) == AFTER
        if not done:
            forget()
            lazily(world, **CHANGED)
        assert len(read_snapshot(world.store, world.table.paths).changes) == 1
        if not crashed and at >= len(store.calls):
            break
        at += 1
    rows_are(world, rows_of(2))


@pytest.mark.long
def test_clean_up_deletes_log_files_that_name_a_dropped_column(tmp_path: Path) -> None:
    for change in (lambda w: lazily(w, **CHANGED), lambda w: at_once(w, tmp_path, **CHANGED)):
        world = world_of(3)
        change(world)
        merged(world, tmp_path)
        world.clock.advance(2 * DAY)
        clean_up(world)
        clean_up(world)
        assert all("_m_" in key for key in keys_under(world, "_log"))  # no append's any more
        assert schema_of(world) == AFTER
        rows_are(world, rows_of(3))


@pytest.mark.long
def test_the_record_may_be_forgotten_with_the_last_log_file_that_names_the_column(
    tmp_path: Path,
) -> None:
    world = make_world(partition_by=["p"], sort_by=["id"], merge={"min_inputs": 2})

    def put_some(number: int, partition: str, **more: Any) -> None:
        put(world, {"id": [number] * 3, "p": [partition] * 3, **more})

    for partition in "xxyy":
        put_some(1, partition, gone=[1] * 3)
    merged(world, tmp_path)
    lazily(world, drop=("gone",))
    run_drop(Work(world.table, RUN), DropOptions(partitions=("p=y",)))
    for number in range(2, 5):
        put_some(number, "x")
        merged(world, tmp_path)
        world.clock.advance(2 * DAY)
        clean_up(world)  # takes the log file of the first merge, the record too
    assert schema_of(world) == {"id": "BIGINT", "p": "VARCHAR"}
    assert not read_snapshot(world.store, world.table.paths).changes


def test_a_writer_knows_what_a_change_that_nobody_has_published_yet_makes_of_the_columns() -> None:
    world = world_of(2)
    asked = LazyOptions(evolution=Evolution(rename={"gone": "left"}))

    def run(store: FaultyStore) -> None:
        run_lazily(Work(replace(world.table, store=store), RUN), asked)

    assert dies_at(world, "put t/_log", "before", run)
    put(world, {"id": pa.array([2], pa.int32()), "left": pa.array([2], pa.int32())})
    take_base(world.table)
    assert schema_of(world) == {"id": "INTEGER", "note": "VARCHAR", "left": "BIGINT"}
    assert sorted(row["left"] for row in firnline.scan(world.table)) == [0, 1, 2]
