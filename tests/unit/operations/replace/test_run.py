"""Replaces on real parts in memory: what goes unread, what is rewritten, who wins a race."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace as replace_fields
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firnline.appends.append import Appender
from firnline.clock import SystemClock
from firnline.commit.fold import delete_is_over
from firnline.errors import (
    CommitConflictError,
    CommitUnknownError,
    FirnlineError,
    OutcomeUnknownError,
    PartSchemaError,
    SchemaConflictError,
    UsageError,
)
from firnline.kernel.local import LocalEngine
from firnline.log.fence import Fence
from firnline.log.txn_file import RunIdentity
from firnline.operations.delete.run import run_delete
from firnline.operations.drop.run import run_drop
from firnline.operations.merge.run import run_merge
from firnline.operations.operation import Work
from firnline.operations.options import DeleteOptions, DropOptions, MergeOptions, ReplaceOptions
from firnline.operations.replace.run import ReplaceFailedError, ReplaceReport, preview, run_replace
from firnline.parquet.part import read_pairs
from tests.support.log_tables import snapshot, v1_live
from tests.support.reading import stored_ids, visible_ids
from tests.support.world import FaultyStore, World, make_world

RUN = RunIdentity(run_id="r")
DAY = datetime.fromisoformat("2026-01-01")
HOURS = 24


def rows(ids: Any, client: int = 1) -> pa.Table:
    """Row ``id`` of two days happens at hour ``id % 48``; ids from 48 on are later versions."""
    wanted = list(ids)
    return pa.table(
        {
            "id": wanted,
            "ts": [DAY + timedelta(hours=i % 48) for i in wanted],
            "client": [client] * len(wanted),
        }
    )


def append(world: World, ids: Any, client: int = 1) -> None:
    world.clock.advance(10)
    Appender(world.table).append(rows(ids, client))


def world_of(**settings: Any) -> World:
    """Ids 0 to 23 of one day in four parts of six hours each."""
    world = make_world(sort_by=["ts"], **settings)
    for first in range(0, HOURS, 6):
        append(world, range(first, first + 6))
    return world


def hours(start: int, end: int, **more: Any) -> ReplaceOptions:
    moments = [(DAY + timedelta(hours=hour)).isoformat() for hour in (start, end)]
    return ReplaceOptions(column="ts", start=moments[0], end=moments[1], **more)


def engine_of(world: World, scratch: Path) -> LocalEngine:
    return LocalEngine(lambda: world.store, scratch, world.ids, SystemClock())


def never() -> Any:
    raise AssertionError("no engine is needed")


Replace = Callable[..., ReplaceReport]


@pytest.fixture
def replace(tmp_path: Path) -> Replace:
    def call(world: World, options: ReplaceOptions, data: Any = None) -> ReplaceReport:
        engine = lambda: engine_of(world, tmp_path)  # noqa: E731
        return run_replace(Work(world.table, RUN, engine), options, data=data)

    return call


@pytest.fixture
def merge(tmp_path: Path) -> Callable[[World], Any]:
    def call(world: World) -> Any:
        engine = lambda: engine_of(world, tmp_path)  # noqa: E731
        return run_merge(Work(world.table, RUN, engine), MergeOptions())

    return call


def same(world: World, ids: Any) -> None:
    """Readers of both kinds see these ids, each once."""
    assert visible_ids(world.table) == stored_ids(world.table) == Counter(ids)
    assert v1_live(world) == set(snapshot(world).live)


# --- what becomes of the parts --------------------------------------------------------------------


def test_parts_wholly_inside_die_unread_and_the_new_rows_take_their_place() -> None:
    world = world_of()
    gets = world.store.counters.get
    report = run_replace(Work(world.table, RUN, never), hours(6, 18), data=rows(range(54, 66)))
    assert (report.parts_dropped, report.parts_read, report.parts_excluded) == (2, 0, 2)
    assert world.store.counters.get - gets <= 5  # log files and the probe, no part
    assert (report.rows_new, report.parts_new, report.counts.rows_deleted) == (12, 1, 12)
    assert report.counts.rows_added == report.counts.rows_out == 12
    same(world, [*range(6), *range(54, 66), *range(18, 24)])


def test_an_eager_replace_rewrites_the_parts_that_the_interval_cuts(replace: Replace) -> None:
    world = world_of()
    report = replace(world, hours(3, 14), rows([51]))
    assert (report.mode, report.parts_dropped, report.parts_rewritten) == ("eager", 1, 2)
    assert (report.counts.rows_in, report.counts.rows_deleted) == (18, 11)
    same(world, [0, 1, 2, 51, *range(14, 24)])


def test_a_lazy_replace_reads_no_part_and_merges_remove_what_it_hides(
    merge: Callable[[World], Any],
) -> None:
    world = world_of(deletes="lazy", merge={"min_inputs": 2})
    report = run_replace(Work(world.table, RUN, never), hours(3, 14), data=rows([51]))
    assert (report.mode, report.parts_dropped, report.parts_hidden) == ("lazy", 1, 2)
    expected = Counter([0, 1, 2, 51, *range(14, 24)])
    assert visible_ids(world.table) == expected
    # v1 readers see the rows of cut parts beside the new ones until a merge.
    assert stored_ids(world.table) == expected + Counter([3, 4, 5, 12, 13])
    merge(world)
    same(world, expected)


def test_equalities_narrow_what_is_replaced(replace: Replace) -> None:
    world = world_of()
    append(world, range(48, 72), client=2)
    report = replace(world, hours(0, 24, equal={"client": "2"}), rows([100], client=2))
    # No statistics of the client: every part is read, one is rewritten.
    assert (report.parts_read, report.parts_rewritten, report.counts.rows_deleted) == (5, 1, 24)
    same(world, [*range(24), 100])


def test_a_part_with_one_value_of_each_column_dies_unread_too() -> None:
    world = make_world(partition_by=["client"], sort_by=["ts"])
    append(world, range(6))
    append(world, range(48, 54), client=2)
    options = hours(0, 24, equal={"client": 2})
    report = run_replace(Work(world.table, RUN, never), options, data=rows([50], client=2))
    assert (report.parts_dropped, report.parts_excluded) == (1, 1)
    same(world, [*range(6), 50])


def test_nothing_empties_the_interval_and_writes_no_part(replace: Replace) -> None:
    world = world_of()
    report = replace(world, hours(6, 13, nothing=True))
    assert (report.parts_new, report.counts.rows_added, report.counts.rows_deleted) == (0, 0, 7)
    same(world, [*range(6), *range(13, 24)])


@pytest.mark.long
def test_hours_without_a_new_row_are_empty_afterwards_and_other_partitions_are_filled(
    replace: Replace,
) -> None:
    world = make_world(partition_by=["day(ts)"], sort_by=["ts"])
    append(world, range(48))
    report = replace(world, hours(12, 36), rows([47 + 13, 48 + 35]))
    assert report.parts_new == 2
    assert sorted(snapshot(world).partitions) == ["ts_day=2026-01-01", "ts_day=2026-01-02"]
    same(world, [*range(12), 60, 83, *range(36, 48)])


def test_a_row_without_a_time_stays(replace: Replace) -> None:
    world = make_world(sort_by=["ts"])
    world.clock.advance(10)
    Appender(world.table).append(pa.table({"id": [1, 2], "ts": [None, DAY], "client": [1, 1]}))
    replace(world, hours(0, 24), rows([50]))
    same(world, [1, 50])


def test_a_table_that_is_not_there_yet_is_made(replace: Replace) -> None:
    world = make_world()
    report = replace(world, hours(0, 24), rows(range(3)))
    assert (report.transaction, snapshot(world).schema["ts"]) == (1, "TIMESTAMP")
    same(world, range(3))


def test_new_columns_are_added_to_the_table(replace: Replace) -> None:
    world = world_of()
    data = rows([50]).append_column("note", pa.array(["new"]))
    replace(world, hours(0, 6), data)
    assert snapshot(world).schema["note"] == "VARCHAR"
    same(world, [50, *range(6, 24)])


def test_the_same_replace_once_more_changes_nothing_that_is_seen(replace: Replace) -> None:
    world = world_of()
    for _ in range(2):
        replace(world, hours(3, 14), rows([51, 52]))
    same(world, [0, 1, 2, 51, 52, *range(14, 24)])


@pytest.mark.long
def test_a_stream_of_batches_becomes_parts_of_bounded_size(replace: Replace) -> None:
    world = make_world(sort_by=["ts"], append={"part_bytes": "1MiB", "buffer": "16MiB"})

    def batches() -> Iterator[pa.RecordBatch]:
        for _ in range(4):
            yield from rows([*range(24)] * 1000).to_batches()

    report = replace(world, hours(0, 24), batches())
    assert (report.rows_new, report.parts_new > 1) == (96_000, True)


# --- staged files ---------------------------------------------------------------------------------


def parquet(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink)
    return sink.getvalue()


@pytest.mark.long
def test_rows_come_from_a_prefix_of_the_bucket_without_what_is_half_written(
    replace: Replace,
) -> None:
    world = world_of()
    for name, ids in (("a.parquet", [54]), ("x/b.parquet", [55]), ("_temporary/c.parquet", [0])):
        world.store.put_new(f"staged/day/{name}", parquet(rows(ids)))
    world.store.put_new("staged/day/_SUCCESS", b"")
    world.store.put_new("staged/day2/d.parquet", parquet(rows([1])))
    report = replace(world, hours(6, 12, files=("memory://bucket/staged/day",)))
    assert report.rows_new == 2
    same(world, [*range(6), 54, 55, *range(12, 24)])


def test_rows_come_from_files_and_folders_of_this_machine(replace: Replace, tmp_path: Path) -> None:
    world = world_of()
    (tmp_path / "in").mkdir()
    pq.write_table(rows([54]), tmp_path / "in" / "a.parquet")
    pq.write_table(rows([55]), tmp_path / "one.parquet")
    files = (str(tmp_path / "in"), f"file://{tmp_path}/one.parquet")
    assert replace(world, hours(6, 12, files=files)).rows_new == 2
    same(world, [*range(6), 54, 55, *range(12, 24)])


@pytest.mark.long
@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("memory://bucket/nowhere", "no Parquet file is at or below memory://bucket/nowhere"),
        ("s3://other/x", "s3://other/x is not in memory://bucket"),
        ("s3://key:hush@bucket/x", "a URL holds no credentials"),
        ("/no/such/file.parquet", "/no/such/file.parquet"),
    ],
)
def test_a_source_that_is_none_is_named_and_nothing_goes(
    source: str, said: str, replace: Replace
) -> None:
    world = world_of()
    with pytest.raises(FirnlineError) as raised:
        replace(world, hours(6, 12, files=(source,)))
    assert said in raised.value.message
    same(world, range(24))


def test_a_staged_file_that_is_broken_is_named_by_its_url(replace: Replace) -> None:
    world = world_of()
    world.store.put_new("staged/a.parquet", parquet(rows([54]))[:-9])
    with pytest.raises(FirnlineError, match=r"^memory://bucket/staged/a\.parquet "):
        replace(world, hours(6, 12, files=("memory://bucket/staged/",)))
    assert not [key for key in world.store.objects if "staged.parquet" in key]
    same(world, range(24))


# --- what is refused ------------------------------------------------------------------------------


def data_keys(world: World) -> set[str]:
    return {key for key in world.store.objects if "/_data/" in key}


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (
            rows([54, 60]),
            "1 of 2 new rows do not lie in ts from 2026-01-01T06:00:00 to 2026-01-01T12:00:00;",
        ),
        (rows([60, 61]), "the first has ts = 2026-01-01 12:00:00"),
        (rows([53]), "1 of 1 new rows"),
        (pa.table({"id": [1], "ts": pa.array([None], pa.timestamp("us"))}), "ts = None"),
        (pa.table({"id": [1]}), "the new rows have no column 'ts'"),
        (rows([]), "the rows to replace with are none"),
    ],
)
def test_rows_outside_of_the_interval_are_refused_before_anything_is_committed(
    data: pa.Table, said: str, replace: Replace
) -> None:
    world = world_of()
    before = data_keys(world)
    with pytest.raises(UsageError) as raised:
        replace(world, hours(6, 12), data)
    assert said in raised.value.message
    assert data_keys(world) == before
    assert snapshot(world).seq == 0


@pytest.mark.long
def test_a_row_that_breaks_an_equality_is_refused_after_parts_were_written(
    replace: Replace,
) -> None:
    world = world_of(append={"part_bytes": "1MiB", "buffer": "16MiB"})
    before = data_keys(world)

    def batches() -> Iterator[pa.RecordBatch]:
        for _ in range(3):
            yield from rows([54] * 30_000).to_batches()
        yield from rows([54], client=7).to_batches()

    with pytest.raises(UsageError, match=r"client = 1; the first has ts = .*, client = 7$|client"):
        replace(world, hours(6, 12, equal={"client": 1}), batches())
    assert data_keys(world) == before
    same(world, range(24))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (hours(6, 6, nothing=True), "there is nothing between"),
        (hours(7, 6, nothing=True), "there is nothing between"),
        (hours(6, 7), "either new rows or `nothing`, and neither is given"),
        (hours(6, 7, nothing=True, files=("a",)), "and both are given"),
        (hours(6, 7, nothing=True, equal={"ts": "2026-01-01"}), "'ts' is named twice"),
        (hours(6, 7, nothing=True, equal={"nobody": 1}), "has no column 'nobody'"),
        (hours(6, 7, nothing=True, equal={"client": "x"}), "'x' is not a number"),
        (ReplaceOptions(column="no", start=1, end=2, nothing=True), "has no column 'no'"),
        (
            ReplaceOptions(column="ts", start="soon", end="later", nothing=True),
            "'soon' is not a date",
        ),
    ],
)
def test_an_interval_that_is_none_changes_nothing(
    options: ReplaceOptions, said: str, replace: Replace
) -> None:
    world = world_of()
    before = dict(world.store.objects)
    with pytest.raises(UsageError) as raised:
        replace(world, options)
    assert said in raised.value.message
    assert world.store.objects == before


def test_rows_of_another_type_are_refused(replace: Replace) -> None:
    world = world_of()
    with pytest.raises(SchemaConflictError, match="column 'client'"):
        replace(world, hours(6, 12), rows([54]).set_column(2, "client", pa.array(["x"])))
    with pytest.raises(PartSchemaError, match=r"column 'u' .* would become null"):
        replace(world, hours(6, 12), rows([54]).append_column("u", pa.array([[]])))
    same(world, range(24))


@pytest.mark.long
def test_a_column_of_nulls_without_a_type_is_left_out(replace: Replace) -> None:
    world = world_of()
    replace(world, hours(6, 12), rows([54]).append_column("u", pa.array([None])))
    assert "u" not in snapshot(world).schema


def test_a_part_that_does_not_read_stops_the_replace_and_leaves_no_output(
    replace: Replace,
) -> None:
    world = world_of()
    broken = next(iter(snapshot(world).live))
    data, modified = world.store.objects[broken]
    world.store.objects[broken] = (data[:-9], modified)
    before = data_keys(world)
    with pytest.raises(ReplaceFailedError) as raised:
        replace(world, hours(3, 12), rows([54]))
    assert raised.value.report.failures[0].key == broken
    assert data_keys(world) == before


def test_a_dry_run_says_why_and_writes_nothing(replace: Replace) -> None:
    world = world_of()
    before = dict(world.store.objects)
    plan = preview(world.table, hours(3, 14, nothing=True)).to_json()
    assert (plan["parts_to_drop"], plan["rows_to_drop"], plan["parts_to_read"]) == (1, 6, 2)
    assert (plan["column"], plan["start"]) == ("ts", "2026-01-01T03:00:00.000000")
    assert plan["left_alone"] == {"its statistics prove that no row matches": 1}
    lazy = preview(world.table, hours(3, 14, mode="lazy", nothing=True)).to_json()
    assert (lazy["parts_to_drop"], lazy["parts_to_read"], lazy["parts_hidden"]) == (1, 0, 2)
    report = replace(world, hours(3, 14, dry_run=True), rows([51]))
    assert (report.dry_run, report.transaction) == (True, None)
    assert world.store.objects == before


# --- beside others --------------------------------------------------------------------------------


class Between(LocalEngine):
    """Kernels beside which somebody acts, once, after they have read."""

    acts: list[Callable[[], object]]

    def run(self, tasks: Any) -> Any:
        found = list(super().run(tasks))
        if self.acts:
            self.acts.pop()()
        yield from found


def beside(world: World, tmp_path: Path, act: Callable[[], object]) -> Callable[[], Any]:
    engine = Between(lambda: world.store, tmp_path, world.ids, SystemClock())
    object.__setattr__(engine, "acts", [act])
    return lambda: engine


def streamed(table: pa.Table, act: Callable[[], object]) -> Iterator[pa.RecordBatch]:
    """New rows, beside which somebody acts after the replace has read the table."""
    yield from table.to_batches()
    act()


def test_an_append_that_began_before_is_covered_and_one_that_began_after_stays(
    replace: Replace,
) -> None:
    world = world_of()

    def late() -> Iterator[pa.RecordBatch]:
        yield from rows([5, 40]).to_batches()
        replace(world, hours(0, 24), rows([50]))
        world.clock.advance(10)

    Appender(world.table).append(late())
    append(world, [6])
    assert visible_ids(world.table) == Counter([50, 40, 6])


@pytest.mark.parametrize("mode", ["eager", "lazy"])
def test_of_two_replaces_at_once_the_later_commit_covers_the_other_s_rows(
    mode: str, replace: Replace
) -> None:
    world = world_of(deletes=mode)
    rival = lambda: replace(world, hours(6, 12), rows([54, 55]))  # noqa: E731
    # Their intervals share the hours 9 to 12; hour 6 and 7 are the rival's alone.
    report = replace(world, hours(9, 15), streamed(rows([60]), rival))
    assert visible_ids(world.table) == Counter([*range(6), 54, 55, 60, *range(15, 24)])
    assert report.transaction == 2


@pytest.mark.long
@pytest.mark.parametrize("mode", ["eager", "lazy"])
def test_the_rival_s_rows_go_where_the_later_interval_covers_them(
    mode: str, replace: Replace
) -> None:
    world = world_of(deletes=mode)
    rival = lambda: replace(world, hours(6, 12), rows([54, 58]))  # noqa: E731
    replace(world, hours(9, 15), streamed(rows([60]), rival))
    assert visible_ids(world.table) == Counter([*range(6), 54, 60, *range(15, 24)])


def test_an_eager_replace_plans_again_for_rival_rows_that_v1_readers_would_see(
    replace: Replace,
) -> None:
    world = make_world(sort_by=["ts"])
    append(world, [40])
    # Neither of them replaces a part: only the rows of the rival are in the way.
    rival = lambda: replace(world, hours(6, 12), rows([54, 58]))  # noqa: E731
    report = replace(world, hours(9, 15), streamed(rows([60]), rival))
    assert report.replans == 1
    same(world, [40, 54, 60])


def test_a_lazy_replace_relies_on_its_record_for_rival_rows(
    merge: Callable[[World], Any], replace: Replace
) -> None:
    world = make_world(sort_by=["ts"], deletes="lazy", merge={"min_inputs": 2})
    rival = lambda: replace(world, hours(6, 12), rows([58]))  # noqa: E731
    report = replace(world, hours(9, 15), streamed(rows([60]), rival))
    assert report.replans == 0
    assert visible_ids(world.table) == Counter([60])
    merge(world)
    same(world, [60])


@pytest.mark.long
def test_a_merge_of_parts_that_only_overlap_does_not_conflict_with_a_lazy_replace(
    merge: Callable[[World], Any],
) -> None:
    world = world_of(deletes="lazy", merge={"min_inputs": 2})
    report = run_replace(
        Work(world.table, RUN, never), hours(3, 5), data=streamed(rows([51]), lambda: merge(world))
    )
    assert report.replans == 0
    expected = [0, 1, 2, 51, *range(5, 24)]
    assert visible_ids(world.table) == Counter(expected)
    merge(world)
    same(world, expected)


def test_a_merge_that_runs_beside_a_replace_commits_and_its_output_is_covered(
    tmp_path: Path, replace: Replace, merge: Callable[[World], Any]
) -> None:
    world = world_of(deletes="lazy", merge={"min_inputs": 2})
    act = lambda: replace(world, hours(3, 5), rows([51]))  # noqa: E731
    report = run_merge(Work(world.table, RUN, beside(world, tmp_path, act)), MergeOptions())
    assert (report.groups_done, report.replans) == (1, 0)
    expected = [0, 1, 2, 51, *range(5, 24)]
    assert visible_ids(world.table) == Counter(expected)
    merge(world)
    same(world, expected)


@pytest.mark.long
def test_a_merge_that_took_a_part_away_makes_the_replace_plan_again_with_the_same_new_parts(
    tmp_path: Path, merge: Callable[[World], Any]
) -> None:
    world = world_of(merge={"min_inputs": 2})
    engine = beside(world, tmp_path, lambda: merge(world))
    report = run_replace(Work(world.table, RUN, engine), hours(3, 14), data=rows([51]))
    assert (report.replans, report.parts_new) == (1, 1)
    same(world, [0, 1, 2, 51, *range(14, 24)])
    assert data_keys(world) == set(snapshot(world).parts)


@pytest.mark.long
def test_a_replace_gives_up_after_losing_too_often_and_leaves_no_part(
    tmp_path: Path, merge: Callable[[World], Any]
) -> None:
    world = world_of(merge={"min_inputs": 2, "max_replans": 0})
    engine = beside(world, tmp_path, lambda: merge(world))
    with pytest.raises(CommitConflictError, match="took parts of t away 1 time"):
        run_replace(Work(world.table, RUN, engine), hours(3, 14), data=rows([51]))
    assert data_keys(world) == set(snapshot(world).parts)
    same(world, range(24))


def test_a_delete_that_committed_first_does_not_reach_the_new_rows_and_one_after_does(
    tmp_path: Path, replace: Replace
) -> None:
    world = world_of(deletes="lazy")

    def erase(ids: str) -> None:
        run_delete(Work(world.table, RUN, never), DeleteOptions(where=f"id in ({ids})"))

    replace(world, hours(6, 12), streamed(rows([54, 55]), lambda: erase("54, 20")))
    assert visible_ids(world.table) == Counter({*range(6), 54, 55, *range(12, 24)} - {20})
    erase("55")
    assert visible_ids(world.table) == Counter({*range(6), 54, *range(12, 24)} - {20})


def test_a_part_that_was_dropped_meanwhile_makes_it_plan_again(replace: Replace) -> None:
    world = make_world(partition_by=["day(ts)"], sort_by=["ts"])
    append(world, range(48))
    gone = DropOptions(partitions=("ts_day=2026-01-01",))
    report = replace(
        world, hours(0, 24), streamed(rows([50]), lambda: run_drop(Work(world.table, RUN), gone))
    )
    assert report.replans == 1
    same(world, [50, *range(24, 48)])


def test_nothing_is_deleted_when_nobody_knows_whether_it_committed(tmp_path: Path) -> None:
    world = world_of()

    class Silent(FaultyStore):
        def put_new(self, key: str, data: bytes) -> None:
            if "/_txn/" not in key:
                return super().put_new(key, data)
            raise OutcomeUnknownError("no answer", next_step="wait")

        def get(self, key: str) -> bytes:
            if "/_txn/" in key:
                raise OutcomeUnknownError("no answer", next_step="wait")
            return super().get(key)

    table = world.table
    unsure = type(table)(table.settings, Silent(world.store), table.paths, table.clock, table.ids)
    before = data_keys(world)
    with pytest.raises(CommitUnknownError):
        run_replace(Work(unsure, RUN, never), hours(6, 12), data=rows([54]))
    assert len(data_keys(world) - before) == 1


# --- what stands in the log and in the parts ------------------------------------------------------


def test_a_footer_says_enough_to_rebuild_the_log(replace: Replace) -> None:
    world = world_of()
    report = replace(world, hours(6, 12), rows([54]))
    state = snapshot(world)
    (new,) = [m for m in state.live.values() if m.q == report.transaction]
    stated = read_pairs(new.p, pq.read_metadata(io.BytesIO(world.store.objects[new.p][0])).metadata)
    assert stated is not None
    # Without an append id it is a part of a transaction: live only if that committed.
    assert (stated.writer, stated.append, stated.q) == ("replace", "", 0)
    assert stated.d == (report.delete,)


def test_the_new_parts_do_not_hold_the_record_back(
    replace: Replace, merge: Callable[[World], Any]
) -> None:
    world = world_of(deletes="lazy", merge={"min_inputs": 2})
    replace(world, hours(3, 14), rows([51]))
    state, late = snapshot(world), world.clock.now + 1
    (new,) = [m for m in state.live.values() if m.q == 1]
    (record,) = state.deletes.values()
    assert state.pending_deletes(new, "") == []
    assert not delete_is_over(state, record, late, state.purged), "for the parts that were cut"
    merge(world)
    state = replace_fields(snapshot(world), fence=Fence(record.seq, record.t))
    assert delete_is_over(state, record, late, state.newest_t), "once those are purged"
    assert not delete_is_over(state, record, late, state.purged), "they may be asked for still"


def test_an_eager_replace_needs_its_record_for_late_appends_only(replace: Replace) -> None:
    world = world_of()
    replace(world, hours(3, 14), rows([51]))
    state = snapshot(world)
    (record,) = state.deletes.values()
    late = world.clock.now + 1
    assert not delete_is_over(state, record, late, state.purged), "an append may sleep"
    state = replace_fields(state, fence=Fence(record.seq, record.t))
    assert delete_is_over(state, record, late, state.purged)
    assert not delete_is_over(state, record, world.clock.now - 1, state.purged)
