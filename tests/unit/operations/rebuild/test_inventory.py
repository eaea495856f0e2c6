"""What is left of a table whose log was lost, and what a rebuild takes over of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

from firnline.appends.append import Appender
from firnline.commit.base import take_base
from firnline.commit.transaction import Change, Repaired, commit
from firnline.log import codec, dated
from firnline.log.records import LogContent, Marker
from firnline.log.txn_file import Counts
from firnline.operations.operation import Work
from firnline.operations.options import RebuildOptions
from firnline.operations.rebuild import inventory
from firnline.operations.rebuild.run import RebuildReport, preview, run_rebuild
from firnline.properties.in_force import from_settings
from firnline.properties.record import PropertiesRecord
from firnline.state.snapshot import Snapshot, read_snapshot
from firnline.state.survey import LogSurvey, TxnSurvey
from tests.support import histories
from tests.support.evolving import (
    AFTER,
    CHANGED,
    columns_of,
    lazily,
    put,
    rows_are,
    rows_of,
    schema_of,
    world_of,
)
from tests.support.histories import RUN, append, filled, lose_log, merge, state
from tests.support.log_tables import do_merge, put_append
from tests.support.v1_client import V1Client
from tests.support.world import World, make_world

HOUR = 3_600_000
YEARS = 10 * 365 * 24 * HOUR


def rebuild(
    world: World, *, force: bool = False, include: tuple[str, ...] = (), revive: bool = False
) -> RebuildReport:
    world.clock.advance(1)
    options = RebuildOptions(force=force, include=include, revive=revive)
    return run_rebuild(Work(world.table, RUN), options)


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
    assert rebuild(world, include=("*",), revive=True).transactions == (newest + 1,)


@pytest.mark.long
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


def test_where_the_history_has_a_gap_no_state_before_it_is_told_any_more() -> None:
    """But nothing that exists counts as deleted."""
    world = filled(1)
    histories.drop(world, "day=0")
    (first,) = {m.tmb for m in state(world).parts.values() if m.tmb is not None}
    histories.drop(world, "day=1")
    second = max(m.tmb or 0 for m in state(world).parts.values())
    there = {key for key in world.store.objects if "day=0" in key}
    lose_log(world)
    del world.store.objects[world.table.paths.txn(1)]
    assert preview(world.table, RebuildOptions()).purged == first - 1
    for key in there:
        del world.store.objects[key]
    rebuild(world)
    assert state(world).purged == second - 1


def test_of_two_transactions_that_give_a_column_another_type_the_newer_one_counts() -> None:
    world = make_world()
    do_merge(world, put_append(world, schema={"v": "INTEGER"}))

    def repair(snapshot: Snapshot) -> Repaired:
        standing = snapshot.contents.keys() - snapshot.log_tombstones.keys()
        return Repaired(tuple(standing), {"v": "VARCHAR"})

    change = Change("schema-fix", (), (), Counts(), repair=repair)
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

    def repair(snapshot: Snapshot) -> Repaired:
        standing = snapshot.contents.keys() - snapshot.log_tombstones.keys()
        return Repaired(tuple(standing), {"v": "INTEGER"})

    for _ in range(2):
        change = Change("schema-fix", (), (), Counts(), repair=repair)
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


@pytest.mark.long
def test_rows_of_a_dropped_partition_stay_away_whatever_log_files_are_left() -> None:
    """The log file of the drop is lost, and its transaction says that they are dead."""
    world = filled(2)
    histories.drop(world, "day=0")
    before = state(world)
    (dropped,) = [key for key in before.listing if "_m_" in key]
    del world.store.objects[dropped]
    dead = {path for path, marker in before.parts.items() if marker.tmb is not None}
    assert dead
    assert dead <= world.store.objects.keys()
    rebuild(world, force=True)
    assert state(world).live.keys() == before.live.keys()


@pytest.mark.parametrize("others", [[], [2]])
def test_what_appends_say_that_the_table_is_counts_where_no_birth_record_says_otherwise(
    others: list[int],
) -> None:
    """Transactions of later do not: who began by the properties of then may be under way."""
    world = make_world()
    said = from_settings(world.settings)

    def record(seq: int, ttl: int) -> PropertiesRecord:
        return PropertiesRecord(seq, seq, msgspec.structs.replace(said, append_ttl=ttl))

    first, later = record(0, HOUR), [record(seq, 2 * HOUR) for seq in others]
    content = LogContent(t=1, schema={}, markers=[], properties=[first])
    log = LogSurvey({}, {"t/_log/1_a.jsonl": content}, {}, ())
    assert inventory._properties(log, TxnSurvey(properties=later)) == (first, *later)
    born = record(0, 3 * HOUR)
    found = inventory._properties(log, TxnSurvey(properties=[born, *later]))
    assert found == (born, *later)


# --- parts of clients that do not say which transactions they came after --------------------------


def lost_foreign_part(world: World) -> dict[str, str]:
    """A part of version 1 whose log file is lost, with a column by its old name; the schema."""
    rows = pa.table({"id": pa.array([9], pa.int32()), "note": ["n9"]})
    V1Client(world).append_rows("d=1", rows, {"id": "INTEGER", "note": "VARCHAR"})
    there = schema_of(world)
    assert there["note"] == "VARCHAR", "it came after the change, and the column is one of its own"
    del world.store.objects[max(k for k in world.store.objects if "_v1-host" in k)]
    return there


def remarked(world: World, number: int) -> None:
    put(world, {"id": pa.array([number], pa.int32()), "remark": ["r"], "gone": [number]})


@pytest.mark.long
@pytest.mark.parametrize("left", ["log", "transactions", "both"])
def test_a_foreign_part_has_its_own_columns_if_it_came_after_a_change_of_the_schema(
    left: str,
) -> None:
    """By what is left of the log or of the transactions, and whatever was appended in between."""
    world = world_of(2, partition=".*")
    lazily(world, rename={"note": "remark"})
    remarked(world, 2)
    there = lost_foreign_part(world)
    if left == "transactions":
        lose_log(world)
    elif left == "log":
        del world.store.objects[world.table.paths.txn(1)]
    rebuild(world, force=True)
    assert schema_of(world) == there


@pytest.mark.long
def test_columns_that_are_dropped_or_renamed_by_now_do_not_come_back_by_parts_of_before(
    tmp_path: Path,
) -> None:
    """Of an append that began before the change and landed after it."""
    world = world_of(2)
    put(world, columns_of(2), beside=lambda: lazily(world, **CHANGED))
    assert schema_of(world) == AFTER
    lose_log(world)
    rebuild(world)
    assert schema_of(world) == AFTER
    rows_are(world, rows_of(3))


def test_a_change_of_the_schema_says_itself_when_it_was_where_its_transaction_is_gone() -> None:
    world = world_of(2, partition=".*")
    lazily(world, rename={"note": "remark"})
    there = lost_foreign_part(world)
    remarked(world, 2)
    lazily(world, widen={"id": "BIGINT"})
    before = read_snapshot(world.store, world.table.paths).changes
    for key in [k for k in world.store.objects if "_m_00000000000000000001" in k]:
        del world.store.objects[key]
    del world.store.objects[world.table.paths.txn(1)]
    rebuild(world, force=True)
    assert read_snapshot(world.store, world.table.paths).changes == before
    assert schema_of(world) == {**there, "id": "BIGINT"}


# --- dates that are far ahead ---------------------------------------------------------------------


def test_a_date_that_was_far_ahead_says_nothing_of_appends_once_it_is_over_either() -> None:
    """Else any append of the hours in between would be older than its time to live."""
    world = make_world()
    for ahead in (0, 20 * HOUR):
        clock = replace(world.clock, now=world.clock.now + ahead)
        Appender(replace(world.table, clock=clock)).append(pa.table({"id": [1]}))
    do_merge(world, list(state(world).live))
    world.clock.advance(HOUR)
    Appender(world.table).append(pa.table({"id": [2]}))
    before = set(state(world).live)
    lose_log(world)
    world.clock.advance(20 * HOUR)
    assert not preview(world.table, RebuildOptions()).undecided
    rebuild(world)
    assert set(state(world).live) == before


def test_a_tombstone_that_is_dated_years_ahead_and_of_which_nobody_says_more_is_there_by_now() -> (
    None
):
    """A client of version 1 drops the record that said so when it folds the log."""
    world = make_world()
    (path,) = put_append(world)
    t = world.clock.now + YEARS
    folded = LogContent(t=t + 5, schema={}, markers=[Marker(p=path, b=100, t=5, tmb=t, n=10)])
    lose_log(world)
    world.store.put_new(f"t/_log/{t + 5}_m_v1.jsonl", codec.encode(folded))
    put_append(world)
    rebuild(world, force=True)
    assert dated.recorded(state(world).other)[t] <= world.clock.now
