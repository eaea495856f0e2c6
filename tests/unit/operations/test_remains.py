"""What is left of a table whose log was lost, and what a rebuild takes over of it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from firnline.append import Appender
from firnline.base import take_base
from firnline.log.txn_file import Counts
from firnline.operations.rebuild import RebuildOptions, RebuildReport, run_rebuild
from firnline.snapshot import Snapshot
from firnline.transaction import Change, Mended, commit
from tests.support import histories
from tests.support.histories import RUN, append, filled, lose_log, merge, state
from tests.support.log_tables import do_merge, put_append
from tests.support.v1_client import V1Client
from tests.support.world import World, make_world


def rebuild(world: World, *, force: bool = False, include: tuple[str, ...] = ()) -> RebuildReport:
    world.clock.advance(1)
    return run_rebuild(world.table, RebuildOptions(force=force, include=include), RUN)


@pytest.mark.parametrize("others", ["v1 first", "v1 last", "v1 alone"])
def test_columns_that_only_the_path_of_a_foreign_part_has_are_no_columns_of_the_table(
    others: str,
) -> None:
    """Unless nobody else says which columns the table has."""
    world = histories.table_world(partition_by=[], partition=".*", sort_by=[])
    foreign = histories.rows_from(0).append_column("d", pa.array(["1"] * 6))

    def by_them() -> None:
        world.clock.advance(1)
        V1Client(world).append_rows("d=1", foreign, {"id": "BIGINT"})

    if others != "v1 last":
        by_them()
        for key in [k for k in world.store.objects if "/_log/" in k]:
            del world.store.objects[key]
    if others != "v1 alone":
        world.clock.advance(10)
        Appender(world.table).append(histories.rows_from(6), partition="d=1")
    if others == "v1 last":
        by_them()
    lose_log(world)
    rebuild(world)
    assert len(state(world).live) == (1 if others == "v1 alone" else 2)
    assert ("d" in state(world).schema) == (others == "v1 alone")


def test_its_number_is_above_those_that_parts_came_after(tmp_path: Path) -> None:
    """Else what deletes the next transactions bring would not hide their rows."""
    world = filled(1)
    merge(world, tmp_path)
    merge(world, tmp_path)
    histories.drop(world, "day=0")
    append(world, 6)
    newest = state(world).seq
    assert newest > 0
    for key in [k for k in world.store.objects if "/_txn/" in k or "/_log/" in k]:
        del world.store.objects[key]
    assert rebuild(world, include=("*",)).transactions == (newest + 1,)


def test_what_is_left_of_a_log_says_how_far_clean_up_went(tmp_path: Path) -> None:
    world = filled()
    merge(world, tmp_path)
    histories.clean_up(world)
    before = state(world).purged
    assert before > 0
    for key in [k for k in world.store.objects if "/_txn/" in k]:
        del world.store.objects[key]
    rebuild(world, force=True)
    assert state(world).purged >= before


def test_of_two_transactions_that_give_a_column_another_type_the_newer_one_counts() -> None:
    world = make_world()
    do_merge(world, put_append(world, schema={"v": "INTEGER"}))

    def mend(snapshot: Snapshot) -> Mended:
        standing = snapshot.contents.keys() - snapshot.log_tombstones.keys()
        return Mended(tuple(standing), {"v": "VARCHAR"})

    change = Change("schema-fix", (), (), Counts(), mend=mend)
    commit(world.table, take_base(world.table), change, RUN)
    assert state(world).schema == {"v": "VARCHAR"}
    lose_log(world)
    rebuild(world)
    assert state(world).schema == {"v": "VARCHAR"}


@pytest.mark.parametrize("wrong", [False, True])
def test_columns_of_a_log_file_that_is_left_count_unless_a_transaction_has_folded_it(
    wrong: bool,
) -> None:
    """Then it may say what a repair of the schema has corrected since."""
    world = make_world()
    do_merge(world, put_append(world, schema={"v": "VARCHAR" if wrong else "INTEGER"}))
    left = {k for k in world.store.objects if "/_log/" in k and "_m_" not in k} if wrong else set()

    def mend(snapshot: Snapshot) -> Mended:
        standing = snapshot.contents.keys() - snapshot.log_tombstones.keys()
        return Mended(tuple(standing), {"v": "INTEGER"})

    for _ in range(2):
        change = Change("schema-fix", (), (), Counts(), mend=mend)
        commit(world.table, take_base(world.table), change, RUN)
    if not wrong:
        before = set(world.store.objects)
        put_append(world, schema={"v": "INTEGER", "new": "VARCHAR"})
        left = world.store.objects.keys() - before
    for key in [k for k in world.store.objects if "/_log/" in k and k not in left]:
        del world.store.objects[key]
    rebuild(world)
    new = {} if wrong else {"new": "VARCHAR"}
    assert state(world).schema == {"v": "INTEGER", **new}
