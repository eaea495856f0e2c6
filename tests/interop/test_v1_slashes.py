"""Clients of log version 1 put the partition between two slashes, also where it is empty."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import firnline
from firnline.appends.append import Appender
from firnline.clock import SystemClock
from firnline.errors import NothingToDoError
from firnline.kernel.local import LocalEngine
from firnline.log.txn_file import RunIdentity
from firnline.operations.cleanup.run import run_cleanup
from firnline.operations.clone.run import run_clone
from firnline.operations.delete.run import run_delete
from firnline.operations.downgrade.run import run_downgrade
from firnline.operations.merge.run import run_merge
from firnline.operations.operation import Work
from firnline.operations.options import (
    CleanupOptions,
    CloneOptions,
    DeleteOptions,
    DowngradeOptions,
    MergeOptions,
    RebuildOptions,
    RelocateOptions,
    SweepOptions,
    VerifyOptions,
)
from firnline.operations.rebuild.run import run_rebuild
from firnline.operations.relocate.run import run_relocate
from firnline.operations.sweep.run import run_sweep
from firnline.operations.verify.run import run_verify
from firnline.state.snapshot import read_snapshot
from tests.support.cleanups import GRACE
from tests.support.log_tables import v1_live
from tests.support.moving import beside, copied
from tests.support.reading import visible_ids
from tests.support.v1_client import V1Client
from tests.support.world import World, make_world

RUN = RunIdentity(run_id="r")
DAY = 86_400_000


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64())})


def appended(world: World, *ids: int) -> None:
    world.clock.advance(10)
    Appender(world.table).append(rows(*ids))


def merged_by_them(**settings: Any) -> tuple[World, V1Client, str]:
    """A table without partitions: two appends of ours that their client has merged."""
    world = make_world(**settings)
    client = V1Client(world)
    appended(world, 1, 2)
    appended(world, 3)
    world.clock.advance(10)
    return world, client, client.merge_rows("")


def ids_of(world: World) -> list[int]:
    return sorted(visible_ids(world.table).elements())


def live(world: World) -> set[str]:
    return set(read_snapshot(world.store, world.table.paths).live)


def kinds(world: World) -> dict[str, int]:
    return run_verify(Work(world.table), VerifyOptions(deep=True)).kinds


def engine_of(world: World, scratch: Path) -> LocalEngine:
    return LocalEngine(lambda: world.store, scratch, world.ids, SystemClock())


def test_a_merge_of_theirs_leaves_a_table_without_partitions_usable(tmp_path: Path) -> None:
    world, client, part = merged_by_them(merge={"min_inputs": 2})
    assert "_data//" in part
    assert live(world) == {client.place(part)}
    assert ids_of(world) == [1, 2, 3]
    appended(world, 4)
    assert not kinds(world).keys() & {"part-missing", "orphans", "v1-differs"}
    run_merge(Work(world.table, RUN, lambda: engine_of(world, tmp_path)), MergeOptions())
    assert ids_of(world) == [1, 2, 3, 4]
    assert len(live(world)) == 1


def test_their_client_sees_its_part_as_dead_once_ours_has_replaced_it(tmp_path: Path) -> None:
    world, client, part = merged_by_them(merge={"min_inputs": 2})
    appended(world, 4)
    run_merge(Work(world.table, RUN, lambda: engine_of(world, tmp_path)), MergeOptions())
    assert part not in client.live()
    assert v1_live(world) == client.live() == live(world)


def test_its_object_is_swept_only_once_it_is_dead_and_past_the_grace(tmp_path: Path) -> None:
    world, client, part = merged_by_them(merge={"min_inputs": 2})
    world.clock.advance(3 * DAY)
    run_sweep(Work(world.table, RUN), SweepOptions())
    assert ids_of(world) == [1, 2, 3]
    appended(world, 4)
    run_merge(Work(world.table, RUN, lambda: engine_of(world, tmp_path)), MergeOptions())
    world.clock.advance(GRACE + DAY)
    run_cleanup(Work(world.table, RUN), CleanupOptions())
    assert client.place(part) not in world.store.objects
    assert ids_of(world) == [1, 2, 3, 4]


def test_rows_are_deleted_from_it(tmp_path: Path) -> None:
    world, _, part = merged_by_them()
    world.clock.advance(10)
    options = DeleteOptions(where="id = 2", mode="eager")
    run_delete(Work(world.table, RUN, lambda: engine_of(world, tmp_path)), options)
    assert ids_of(world) == [1, 3]
    assert part not in v1_live(world)


def test_a_lost_log_is_rebuilt_with_it() -> None:
    world, client, part = merged_by_them()
    for key in [*world.store.objects]:
        if "/_log/" in key and "v1-host" not in key:
            del world.store.objects[key]
    run_rebuild(Work(world.table, RUN), RebuildOptions(force=True))
    assert live(world) == {client.place(part)}
    assert part in v1_live(world)


def test_a_downgrade_leaves_it_under_the_name_that_their_client_gave_it(tmp_path: Path) -> None:
    world, client, part = merged_by_them()
    appended(world, 4)
    world.clock.advance(2 * DAY)
    run_downgrade(Work(world.table, RUN, lambda: engine_of(world, tmp_path)), DowngradeOptions())
    assert part in client.live()
    assert ids_of(world) == [1, 2, 3, 4]


def test_a_copy_of_the_table_is_relocated_and_cloned_with_it() -> None:
    world, _, _ = merged_by_them()
    other = copied(world)
    run_relocate(Work(other.table), RelocateOptions(old=world.table.paths.prefix))
    assert ids_of(other) == [1, 2, 3]


@pytest.mark.parametrize("history", [False, True])
def test_a_clone_has_it_under_the_one_name_that_every_store_keeps(history: bool) -> None:
    world, _, part = merged_by_them()
    target = beside(world.table, "clone")
    run_clone(Work(world.table, RUN), CloneOptions(history=history), target=target)
    assert sorted(visible_ids(target).elements()) == [1, 2, 3]
    place = part.replace("//", "/").removeprefix(world.table.paths.prefix)
    assert f"{target.paths.prefix}{place}" in world.store.objects
    assert run_verify(Work(target), VerifyOptions()).severities.get("error", 0) == 0


@pytest.mark.parametrize(
    ("partition", "ours"),
    [
        ("/d=1", "d=1"),
        ("d=1/", "d=1"),
        ("a//b", "a/b"),
        ("d=1 2", "d=1 2"),
        ("d==1", "d==1"),
        ("just text", "just text"),
        ("ü/%41", "ü/%41"),
    ],
)
def test_a_partition_of_any_spelling_is_read(partition: str, ours: str) -> None:
    world = make_world()
    client = V1Client(world)
    for number in range(2):
        client.append_rows(partition, rows(number), {"id": "BIGINT"})
    part = client.merge_rows(partition)
    state = read_snapshot(world.store, world.table.paths)
    assert list(state.partitions) == [ours]
    assert ids_of(world) == [0, 1]
    assert client.live() == {part}


@pytest.mark.parametrize("partition", ["..", ".", "a/../b", "a\nb"])
def test_a_path_that_no_folder_can_hold_is_refused_with_a_way_out(partition: str) -> None:
    world = make_world()
    V1Client(world, keeps_slashes=True).append_rows(partition, rows(1), {"id": "BIGINT"})
    with pytest.raises(firnline.FirnlineError, match="_data/") as refused:
        live(world)
    assert "move its log file out of _log/" in refused.value.next_step


def test_a_store_that_keeps_both_slashes_is_put_right_by_a_relocation(tmp_path: Path) -> None:
    world = make_world(merge={"min_inputs": 2})
    client = V1Client(world, keeps_slashes=True)
    appended(world, 1, 2)
    appended(world, 3)
    world.clock.advance(10)
    part = client.merge_rows("")
    place = part.replace("//", "/")
    assert part in world.store.objects
    with pytest.raises(firnline.FirnlineError):
        ids_of(world)
    asked = run_relocate(Work(world.table), RelocateOptions(dry_run=True))
    assert (asked.moved, part in world.store.objects) == (1, True)
    assert run_relocate(Work(world.table), RelocateOptions()).moved == 1
    assert part not in world.store.objects
    assert place in world.store.objects
    assert ids_of(world) == [1, 2, 3]
    with pytest.raises(NothingToDoError):
        run_relocate(Work(world.table), RelocateOptions())
    appended(world, 4)
    run_merge(Work(world.table, RUN, lambda: engine_of(world, tmp_path)), MergeOptions())
    assert ids_of(world) == [1, 2, 3, 4]
    assert part not in client.live()


def test_a_copy_of_such_a_table_is_put_right_on_the_way() -> None:
    world = make_world()
    client = V1Client(world, keeps_slashes=True)
    appended(world, 1, 2)
    appended(world, 3)
    world.clock.advance(10)
    client.merge_rows("")
    other = copied(world)
    assert run_relocate(Work(other.table), RelocateOptions(old=world.table.paths.prefix)).moved == 1
    assert ids_of(other) == [1, 2, 3]
