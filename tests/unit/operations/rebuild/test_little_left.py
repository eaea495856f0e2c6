"""Rebuild of a table of which little is left, and of what lies there besides."""

from __future__ import annotations

from pathlib import Path

import pytest

from firnline.errors import FindingsError, LogCorruptError, UsageError
from firnline.log import codec
from firnline.log.records import LogContent
from firnline.operations.operation import Work
from firnline.operations.options import RebuildOptions
from firnline.operations.rebuild.run import RebuildReport, preview, run_rebuild
from firnline.state.history import history
from firnline.state.snapshot import Snapshot
from tests.support import histories
from tests.support.histories import RUN, append, filled, ids_of, lose_log, merge, state
from tests.support.v1_client import V1Client
from tests.support.world import World, make_world


def rebuild(world: World, *, force: bool = False, revive: bool = False) -> RebuildReport:
    world.clock.advance(1)
    return run_rebuild(Work(world.table, RUN), RebuildOptions(force=force, revive=revive))


def lost_when_empty() -> tuple[World, Snapshot]:
    """A table whose last part was dropped and deleted, as it was before its log was lost."""
    world = filled(1)
    for partition in list(state(world).partitions):
        histories.drop(world, partition)
    histories.clean_up(world)
    before = state(world)
    lose_log(world)
    return world, before


def test_an_empty_place_is_not_rebuilt() -> None:
    with pytest.raises(UsageError, match="nothing at memory://bucket/t"):
        rebuild(make_world())


def test_where_nothing_can_be_live_no_empty_log_is_written() -> None:
    world = filled(1)
    lose_log(world)
    for key in [k for k in world.store.objects if "/_data/" in k]:
        world.store.objects[key] = (b"no longer Parquet", world.clock.now)
    before = dict(world.store.objects)
    with pytest.raises(UsageError, match="nothing that is left of table t can be live"):
        rebuild(world)
    assert world.store.objects == before


@pytest.mark.long
def test_where_all_that_is_left_is_undecided_somebody_decides(tmp_path: Path) -> None:
    world = filled()
    merge(world, tmp_path)
    merged = state(world).live.keys()
    for key in world.store.objects.keys() - merged:
        del world.store.objects[key]
    before = dict(world.store.objects)
    with pytest.raises(FindingsError, match="not even a birth record"):
        rebuild(world)
    with pytest.raises(FindingsError, match="2 objects of table t may be live or left over"):
        rebuild(world, revive=True)
    assert world.store.objects == before


def test_of_a_log_whose_objects_are_all_gone_it_is_told_which_they_were() -> None:
    world = filled(1)
    named = sorted(state(world).live)
    for key in named:
        del world.store.objects[key]
    assert preview(world.table, RebuildOptions(force=True)).missing == tuple(named)


def test_dead_parts_alone_are_named_so_that_clean_up_finds_them() -> None:
    world = filled(1)
    for partition in list(state(world).partitions):
        histories.drop(world, partition)
    # What a client of version 1 leaves of it: no transaction, and not the log files of before.
    dead = [m for m in state(world).parts.values() if m.tmb is not None]
    lose_log(world)
    for key in [k for k in world.store.objects if "/_txn/" in k]:
        del world.store.objects[key]
    content = LogContent(t=world.clock.now, schema={"id": "BIGINT"}, markers=dead)
    world.store.put_new(f"t/_log/{world.clock.now}_m_v1.jsonl", codec.encode(content))
    rebuild(world, force=True)
    histories.clean_up(world)
    assert not [key for key in world.store.objects if "/_data/" in key]


def test_a_table_whose_last_part_was_dropped_and_deleted_is_rebuilt_empty_with_its_schema() -> None:
    world, before = lost_when_empty()
    report = rebuild(world)
    after = state(world)
    assert report.transactions == (before.seq + 1,)
    assert after.live == {}
    assert after.schema == before.schema
    append(world, 6)
    assert set(ids_of(world)) == set(range(6, 12))


def test_one_transaction_is_enough_for_that_where_the_others_are_past_their_retention() -> None:
    world, before = lost_when_empty()
    for seq in range(1, before.seq):
        del world.store.objects[world.table.paths.txn(seq)]
    rebuild(world)
    after = state(world)
    assert (after.live, after.schema) == ({}, before.schema)
    assert after.purged >= before.purged


def test_a_table_whose_client_does_not_count_rows_is_rebuilt() -> None:
    world = make_world()
    part = V1Client(world).append("d=1")
    assert rebuild(world, force=True).plan["rows"] is None
    assert state(world).live.keys() == {part}
    assert history(world.table)[0].counts.rows_out == 0


def test_what_lies_beside_the_log_is_in_nobodys_way_unless_it_looks_like_a_log_file() -> None:
    """One that cannot be placed may be an append's: without it rows were lost."""
    world = filled()
    world.store.objects["t/_log/notes.txt"] = (b"hello", world.clock.now)
    rebuild(world, force=True)
    assert ids_of(world) == dict.fromkeys(range(24), 1)
    world.store.objects["t/_log/restored.jsonl"] = (b"{}", world.clock.now)
    with pytest.raises(LogCorruptError, match="1 file cannot be read, the first t/_log/restored"):
        rebuild(world, force=True)


@pytest.mark.long
def test_a_dead_part_that_is_deleted_is_forgotten_although_a_log_file_says_that_it_is_dead(
    tmp_path: Path,
) -> None:
    world = filled()
    merge(world, tmp_path)
    before = state(world)
    left = {k: v for k, v in world.store.objects.items() if "_m_" in k}
    histories.clean_up(world)
    world.store.objects |= left
    rebuild(world, force=True)
    assert state(world).live.keys() == before.live.keys()
    newest = max(state(world).contents.values(), key=lambda content: content.t)
    assert {marker.p for marker in newest.markers} == before.live.keys()
