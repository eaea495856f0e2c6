"""A rewrite keeps rows by a filter or makes them by a query, a partition at a time."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firnline.appends.append import Appender
from firnline.clock import SystemClock
from firnline.commit.base import take_base
from firnline.commit.transaction import Change, commit
from firnline.errors import CommitConflictError, RowCountMismatchError, UsageError
from firnline.kernel.local import LocalEngine
from firnline.kernel.task import KernelResult, KernelTask
from firnline.log.records import Delete
from firnline.log.txn_file import Counts, RunIdentity
from firnline.operations.delete.run import run_delete
from firnline.operations.merge.run import run_merge
from firnline.operations.operation import Work
from firnline.operations.options import DeleteOptions, MergeOptions, RewriteOptions
from firnline.operations.rewrite.run import (
    RewriteFailedError,
    RewriteRefusedError,
    RewriteReport,
    preview,
    run_rewrite,
)
from firnline.operations.runner import Progress
from firnline.state.history import history
from tests.support.engines import CountingEngine
from tests.support.log_tables import do_merge, put_append, snapshot
from tests.support.world import World, make_world

RUN = RunIdentity(dag_id="rewrite_partitions__t", run_id="manual-1")
Row = dict[str, Any]


def filled(*appends: list[Row], **settings: Any) -> World:
    """Partitioned by ``d``; each append is a part per value of it."""
    world = make_world(**{"partition_by": ["d"], "sort_by": ["n"], **settings})
    appender = Appender(world.table)
    kinds = pa.schema([("d", pa.int64()), ("n", pa.int64()), ("s", pa.string())])
    for rows in appends:
        world.clock.advance(10)
        appender.append(pa.Table.from_pylist(rows, kinds))
    return world


def numbers(d: int, *values: int | None) -> list[Row]:
    return [{"d": d, "n": n, "s": None if n is None else f"s{n}"} for n in values]


def rewrite(world: World, scratch: Path, **options: Any) -> RewriteReport:
    engine = LocalEngine(lambda: world.store, scratch, world.ids, SystemClock())
    return run_rewrite(Work(world.table, RUN, lambda: engine), RewriteOptions(**options))


def rows(world: World) -> list[tuple[int, int | None]]:
    found = []
    for key in snapshot(world).live:
        table = pq.read_table(io.BytesIO(world.store.objects[key][0]), partitioning=None)
        found += [(row["d"], row["n"]) for row in table.to_pylist()]
    return sorted(found, key=str)


def orphans(world: World) -> set[str]:
    parts = {k for k in world.store.objects if "/_data/" in k}
    return parts - set(snapshot(world).parts)


def never() -> NoReturn:
    raise AssertionError("an engine was started for nothing")


def test_rows_stay_where_the_condition_is_true_and_untouched_parts_stay_as_they_are(
    tmp_path: Path,
) -> None:
    # By statistics the second part keeps all rows; the third is read and found to keep all.
    world = filled(numbers(1, 1, 5, None), numbers(1, 1, 2), numbers(1, 1, 3, 4), numbers(2, 1))
    kept = [m.p for m in snapshot(world).partitions["d=1"][1:]]
    report = rewrite(world, tmp_path, where="n <= 2 or n = 3 or n = 4", partitions=("d=1",))
    assert rows(world) == [(1, 1), (1, 1), (1, 1), (1, 2), (1, 3), (1, 4), (2, 1)]
    assert all(key in snapshot(world).live for key in kept)
    (one,) = report.partitions
    assert (one.parts_in, one.parts_out, one.rows_in, one.rows_removed) == (1, 1, 3, 2)
    assert (report.parts_untouched, one.transaction) == (1, 1)
    (header,) = history(world.table)
    assert (header.op, header.partitions, header.counts.rows_removed) == ("rewrite", ("d=1",), 2)


def test_a_second_run_with_the_same_filter_commits_nothing(tmp_path: Path) -> None:
    world = filled(numbers(1, 1, 2, 3))
    rewrite(world, tmp_path, where="n != 2")
    before = dict(world.store.objects)
    report = rewrite(world, tmp_path, where="n != 2")
    assert (report.transactions, report.parts_untouched) == ((), 1)
    assert world.store.objects == before


def test_nothing_to_read_starts_no_engine(tmp_path: Path) -> None:
    world = filled(numbers(1, 1, 2, 3))
    options = RewriteOptions(where="n < 100 and d >= 0")
    report = run_rewrite(Work(world.table, RUN, never), options)
    assert (report.partition_count, report.transactions) == (0, ())
    assert not history(world.table)


def test_a_partition_of_which_no_row_stays_is_dropped_unread_and_leaves_no_empty_part() -> None:
    world = filled(numbers(1, 1, 2), numbers(1, 3), numbers(2, 9))
    report = run_rewrite(Work(world.table, RUN, never), RewriteOptions(where="n > 5", force=True))
    assert rows(world) == [(2, 9)]
    assert (report.partitions[0].parts_in, report.partitions[0].parts_out) == (2, 0)
    assert report.partitions[0].rows_removed == 3


def test_a_partition_whose_parts_are_read_and_emptied_has_no_part_either(tmp_path: Path) -> None:
    world = filled(numbers(1, 1, 9), numbers(2, 5))
    report = rewrite(world, tmp_path, where="n = 5", force=True)
    assert rows(world) == [(2, 5)]
    assert list(snapshot(world).partitions) == ["d=2"]
    assert report.counts.rows_removed == 2


@pytest.mark.long
def test_more_than_the_fraction_needs_force_and_the_others_are_rewritten(tmp_path: Path) -> None:
    world = filled(numbers(1, 1, 2, 3, 4), numbers(2, 1, 2, 9, 9), numbers(3, 9, 9, 9, 1))
    with pytest.raises(RewriteRefusedError) as caught:
        rewrite(world, tmp_path, where="n < 9")
    report = caught.value.report
    assert [p.partition for p in report.partitions] == ["d=2"]
    assert [f.error for f in report.failures] == ["TooMuchRemovedError"]
    for text in ("3 of the 4 rows", "partition d=3", "75.0 %", "50 %"):
        assert text in str(caught.value)
    assert rows(world)[4:] == [(2, 1), (2, 2), (3, 1), (3, 9), (3, 9), (3, 9)]
    assert orphans(world) == set()
    rewrite(world, tmp_path, where="n < 9", force=True)
    assert (3, 9) not in rows(world)


def test_the_fraction_is_of_the_whole_partition_and_not_of_the_parts_that_are_read(
    tmp_path: Path,
) -> None:
    world = filled(numbers(1, 1, 2, 3, 4), numbers(1, 9, 8))
    rewrite(world, tmp_path, where="n not in (9, 8)")
    assert rows(world) == [(1, n) for n in (1, 2, 3, 4)]


@pytest.mark.long
def test_a_query_sees_the_whole_partition_and_makes_its_rows(tmp_path: Path) -> None:
    world = filled(numbers(1, 1, 2), numbers(1, 2, 3), numbers(2, 2))
    sql = "select d, n, max(s) as s from _rows group by d, n"
    report = rewrite(world, tmp_path, sql=sql, partitions=("d=1",))
    assert rows(world) == [(1, 1), (1, 2), (1, 3), (2, 2)]
    assert [m.n for m in snapshot(world).partitions["d=1"]] == [3]
    assert report.counts == Counts(
        parts_in=2,
        parts_out=1,
        rows_in=4,
        rows_out=3,
        rows_removed=1,
        bytes_in=report.counts.bytes_in,
        bytes_out=report.counts.bytes_out,
        logs_folded=report.counts.logs_folded,
    )


def test_a_query_may_make_rows_and_change_values(tmp_path: Path) -> None:
    world = filled(numbers(1, 1, 2))
    report = rewrite(world, tmp_path, sql="select d, n + i as n, s from _rows, range(2) as r(i)")
    assert rows(world) == [(1, 1), (1, 2), (1, 2), (1, 3)]
    assert report.partitions[0].rows_removed == -2


def test_pending_deletes_are_applied_and_are_not_what_the_rewrite_removes(tmp_path: Path) -> None:
    world = filled(numbers(1, 1, 2, 3, 4))
    gone = Delete(id="x", seq=0, t=0, where=msgspec.Raw(b'{"op":"<","column":"n","value":4}'))
    base = take_base(world.table)
    commit(world.table, base, Change("delete", (), (), Counts(), deletes=(gone,)), RUN)
    # One row is left; removing it would be everything.
    with pytest.raises(RewriteRefusedError, match="1 of the 1 rows"):
        rewrite(world, tmp_path, where="n < 0 or s = 'x'")
    report = rewrite(world, tmp_path, where="n > 1 or s = 'x'")
    assert (report.counts.rows_deleted, report.counts.rows_removed) == (3, 0)
    assert rows(world) == [(1, 4)]
    state = snapshot(world)
    assert all(not state.pending_deletes(m, "d=1") for m in state.live.values())


def hidden(world: World, where: bytes) -> None:
    """A lazy delete that no part has applied yet."""
    gone = Delete(id="x", seq=0, t=0, where=msgspec.Raw(where))
    base = take_base(world.table)
    commit(world.table, base, Change("delete", (), (), Counts(), deletes=(gone,)), RUN)


@pytest.mark.parametrize(
    "where", [b'{"op":"<","column":"n","value":9}', b'{"op":"=","column":"n","value":2}']
)
def test_rows_that_a_delete_hides_in_parts_left_alone_do_not_count_for_the_fraction(
    tmp_path: Path, where: bytes
) -> None:
    world = filled(numbers(1, 1, 2, 3, 4, 5, 6, 7, 8), numbers(1, 20, 21))
    hidden(world, where)
    # The first part stays unread, and which of its rows are hidden nobody has counted.
    with pytest.raises(RewriteRefusedError, match="2 of the 2 rows") as caught:
        rewrite(world, tmp_path, where="n < 20")
    assert "part" in caught.value.report.failures[0].message
    rewrite(world, tmp_path, where="n < 20", force=True)


def test_parts_left_alone_count_in_full_where_statistics_prove_that_no_row_is_hidden(
    tmp_path: Path,
) -> None:
    world = filled(numbers(1, 1, 2, 3, 4), numbers(1, 20, 21), numbers(1, 30))
    hidden(world, b'{"op":"=","column":"n","value":30}')
    report = rewrite(world, tmp_path, where="n < 20 or n = 30")
    assert report.partitions[0].rows_removed == 2


def test_the_rows_of_a_partition_are_those_that_readers_saw(tmp_path: Path) -> None:
    world = filled(numbers(1, 1, 2, 3, 4, 5))
    hidden(world, b'{"op":"<","column":"n","value":3}')
    done = rewrite(world, tmp_path, where="n != 5").partitions[0]
    assert (done.rows_in, done.rows_out, done.rows_removed) == (3, 2, 1)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({}, "a condition (where) or a query (sql)"),
        ({"where": "n = 1", "sql": "from _rows"}, "a condition (where) or a query (sql)"),
        ({"where": "n + 1 = 2"}, "takes a query (sql) over _rows"),
        ({"where": "nothing = 1"}, "nothing"),
        ({"where": "n = 1", "partitions": ("d=7",)}, "d=7"),
        ({"sql": "select * from other"}, "'other'"),
        ({"sql": "select n from _rows"}, "leaves out column"),
        ({"where": "n = 1", "start_ms": 1}, "interval"),
        ({"where": "n = 1", "start_ms": 1, "end_ms": 2}, "not partitioned by time"),
    ],
)
def test_wrong_options_are_refused_before_anything_is_read(
    options: dict[str, Any], says: str
) -> None:
    world = filled(numbers(1, 1))
    with pytest.raises(UsageError) as caught:
        run_rewrite(Work(world.table, RUN, never), RewriteOptions(**options))
    assert says in str(caught.value)
    with pytest.raises(UsageError):
        preview(world.table, RewriteOptions(**options))


DAY = 86_400_000


def test_an_interval_chooses_the_partitions_that_lie_wholly_in_it(tmp_path: Path) -> None:
    world = make_world(partition_by=["day(ts)"])
    appender = Appender(world.table)
    times = [day * DAY * 1000 + 5 for day in (10, 11, 12, 13)]
    appender.append(
        pa.table({"ts": pa.array(times, pa.timestamp("us")), "v": [1, 1, 1, 1]}),
    )
    options: dict[str, Any] = {
        "where": "v = 0",
        "force": True,
        "start_ms": 11 * DAY,
        "end_ms": 13 * DAY - 1,
    }
    plan = preview(world.table, RewriteOptions(**options))
    assert [p.partition for p in plan.partitions] == ["ts_day=1970-01-12"]
    assert plan.to_json()["left_alone"] == {"its partition reaches beyond the interval": 1}
    rewrite(world, tmp_path, **options)
    assert list(snapshot(world).partitions) == [
        "ts_day=1970-01-11",
        "ts_day=1970-01-13",
        "ts_day=1970-01-14",
    ]


def test_a_dry_run_says_what_it_would_cost_and_changes_nothing() -> None:
    world = filled(numbers(1, 1, 2), numbers(1, 7, 8), numbers(2, 1))
    before = dict(world.store.objects)
    options = RewriteOptions(where="n != 2 and n < 7", dry_run=True)
    plan = preview(world.table, options).to_json()
    assert (plan["parts_to_read"], plan["parts_to_drop"]) == (1, 1)
    assert plan["left_alone"] == {"its statistics prove that every row stays": 1}
    assert plan["partitions"][0]["partition"] == "d=1"
    report = run_rewrite(Work(world.table, RUN, never), options)
    assert (report.partition_count, report.transactions) == (1, ())
    assert world.store.objects == before


class Losing(CountingEngine):
    """Fails or lies for one partition."""

    def _result(self, task: KernelTask) -> KernelResult:
        found = super()._result(task)
        if task.partition != "d=2":
            return found
        part = msgspec.structs.replace(found.parts[0], rows=found.parts[0].rows - 1)
        return msgspec.structs.replace(found, parts=(part,))


def test_a_part_that_does_not_read_leaves_its_partition_as_it_was(tmp_path: Path) -> None:
    world = filled(numbers(1, 1, 2, 3), numbers(2, 1, 2, 3))
    (bad,) = [m.p for m in snapshot(world).partitions["d=2"]]
    world.store.objects[bad] = (b"broken", world.clock.now)
    with pytest.raises(RewriteFailedError) as caught:
        rewrite(world, tmp_path, where="n != 2")
    (failure,) = caught.value.report.failures
    assert (failure.partition, failure.key) == ("d=2", bad)
    assert caught.value.report.partitions_changed == 1
    assert orphans(world) == set()


def test_a_lost_row_stops_the_run_before_the_commit() -> None:
    world = make_world()
    for partition in ("d=1", "d=2"):
        put_append(world, partition)
    engine = Losing(world)
    with pytest.raises(RowCountMismatchError):
        run_rewrite(Work(world.table, RUN, lambda: engine), RewriteOptions(sql="from _rows"))
    assert orphans(world) == set()
    assert [h.partitions for h in history(world.table)] == [("d=1",)]


def test_a_rival_makes_it_plan_again_for_the_partitions_that_it_touched() -> None:
    world = make_world()
    for partition in ("d=1", "d=2"):
        put_append(world, partition)
        put_append(world, partition)

    def rival(number: int) -> None:
        if number == 1 and len(engine.tasks) == 2:
            do_merge(world, [m.p for m in snapshot(world).partitions["d=2"]])

    engine = CountingEngine(world, between=rival)
    report = run_rewrite(Work(world.table, RUN, lambda: engine), RewriteOptions(sql="from _rows"))
    assert report.replans == 1
    assert [task.partition for task in engine.tasks] == ["d=1", "d=2", "d=2"]
    assert [p.partition for p in report.partitions] == ["d=1", "d=2"]
    assert orphans(world) == set()
    assert sum(m.n or 0 for m in snapshot(world).live.values()) == 40


def deleting(world: World, scratch: Path) -> LocalEngine:
    """Return an engine beside which, once its kernels have run, a delete hides ``n = 2``."""
    deleted = list[int | None]()

    class Engine(LocalEngine):
        def run(self, tasks: Sequence[KernelTask]) -> Iterator[KernelResult | None]:
            results = list(super().run(tasks))
            if not deleted:
                hide = DeleteOptions(where="n = 2", mode="lazy")
                deleted.append(run_delete(Work(world.table, RUN, never), hide).transaction)
            yield from results

    return Engine(lambda: world.store, scratch, world.ids, SystemClock())


def test_a_query_computes_nothing_from_rows_that_are_deleted_while_it_runs(tmp_path: Path) -> None:
    world = filled(numbers(1, 1, 2, 3))
    engine = deleting(world, tmp_path)
    query = RewriteOptions(sql="select d, n + 10 as n, s from _rows")
    report = run_rewrite(Work(world.table, RUN, lambda: engine), query)
    # The condition of the delete is not true for the new value: the row would be back.
    assert rows(world) == [(1, 11), (1, 13)]
    assert (report.replans, report.transactions) == (1, (2,))
    assert orphans(world) == set()


@pytest.mark.long
def test_rivals_without_end_are_given_up_on() -> None:
    world = make_world()
    put_append(world, "d=1")

    def rival(_: int) -> None:
        do_merge(world, [m.p for m in snapshot(world).partitions["d=1"]])

    engine = CountingEngine(world, between=rival)
    with pytest.raises(CommitConflictError, match="times"):
        run_rewrite(Work(world.table, RUN, lambda: engine), RewriteOptions(sql="from _rows"))
    assert orphans(world) == set()


PLUS_ONE = "select d, n + 1 as n, s from _rows"


def try_of(world: World, scratch: Path, number: int, **options: Any) -> RewriteReport:
    engine = LocalEngine(lambda: world.store, scratch, world.ids, SystemClock())
    run = msgspec.structs.replace(RUN, try_number=number)
    return run_rewrite(
        Work(world.table, run, lambda: engine), RewriteOptions(sql=PLUS_ONE, **options)
    )


@pytest.mark.long
def test_a_retry_does_not_apply_a_query_twice_and_a_new_execution_does(tmp_path: Path) -> None:
    world = filled(numbers(1, 1), numbers(2, 1))
    (bad,) = [m.p for m in snapshot(world).partitions["d=2"]]
    kept = world.store.objects[bad]
    world.store.objects[bad] = (b"broken", world.clock.now)
    with pytest.raises(RewriteFailedError):
        try_of(world, tmp_path, 1, first_try=1)
    world.store.objects[bad] = kept
    report = try_of(world, tmp_path, 2, first_try=1)
    assert ([p.partition for p in report.partitions], report.partitions_earlier) == (["d=2"], 1)
    assert rows(world) == [(1, 2), (2, 2)]
    again = try_of(world, tmp_path, 3, first_try=1)
    assert (again.transactions, again.partitions_earlier) == ((), 2)
    # Cleared by somebody in Airflow: the run is executed anew.
    assert len(try_of(world, tmp_path, 4, first_try=4).transactions) == 2
    assert rows(world) == [(1, 3), (2, 3)]


@pytest.mark.long
def test_a_try_that_was_given_up_does_not_apply_its_query_upon_the_retry(tmp_path: Path) -> None:
    world = filled(numbers(1, 1), numbers(2, 1))
    retried: list[RewriteReport] = []

    class Zombie(LocalEngine):
        """Its results come after the retry is done."""

        def run(self, tasks: Any) -> Any:
            for result in super().run(tasks):
                if not retried:
                    retried.append(try_of(world, tmp_path, 2, first_try=1))
                yield result

    zombie = Zombie(lambda: world.store, tmp_path, world.ids, SystemClock())
    run = msgspec.structs.replace(RUN, try_number=1)
    options = RewriteOptions(sql=PLUS_ONE, first_try=1)
    report = run_rewrite(Work(world.table, run, lambda: zombie), options)
    assert (report.transactions, report.replans, report.partitions_earlier) == ((), 1, 2)
    assert rows(world) == [(1, 2), (2, 2)]
    assert orphans(world) == set()


def test_with_a_primary_key_every_part_is_rewritten_for_itself(tmp_path: Path) -> None:
    world = filled(numbers(1, 1, 2, 9), numbers(1, 1, 3), numbers(1, 3, 9), primary_key=["d", "n"])
    order = [m.order() for m in snapshot(world).partitions["d=1"]]
    rewrite(world, tmp_path, where="n != 9")
    parts = snapshot(world).partitions["d=1"]
    assert sorted(m.order() for m in parts) == sorted(order)
    assert sorted(m.n or 0 for m in parts) == [1, 2, 2]


def test_progress_goes_up_to_all_groups(tmp_path: Path) -> None:
    world = filled(numbers(1, 1, 2, 3), numbers(2, 1, 2, 3))
    engine = LocalEngine(lambda: world.store, tmp_path, world.ids, SystemClock())
    seen: list[Progress] = []
    run_rewrite(Work(world.table, RUN, lambda: engine, seen.append), RewriteOptions(where="n != 2"))
    assert (seen[-1].groups, seen[-1].groups_done, seen[-1].transactions) == (2, 2, 2)
    assert seen[-1].parts_merged == seen[-1].parts_in == 2


def test_a_merge_with_sql_aggregates_what_it_puts_together(tmp_path: Path) -> None:
    sql = "select d, sum(n)::BIGINT as n, max(s) as s from source_files group by d"
    world = filled(*(numbers(1, 1, 2) for _ in range(4)), merge={"sql": sql})
    engine = LocalEngine(lambda: world.store, tmp_path, world.ids, SystemClock())
    report = run_merge(Work(world.table, RUN, lambda: engine), MergeOptions())
    assert rows(world) == [(1, 12)]
    assert (report.counts.rows_in, report.counts.rows_removed) == (8, 7)


def test_a_merge_with_sql_aggregates_no_row_that_is_deleted_while_it_runs(tmp_path: Path) -> None:
    sql = "select d, sum(n)::BIGINT as n, max(s) as s from source_files group by d"
    world = filled(*(numbers(1, 1, 2) for _ in range(4)), merge={"sql": sql})
    engine = deleting(world, tmp_path)
    for _ in range(2):  # a group that lost to a rival is left to the next run
        run_merge(Work(world.table, RUN, lambda: engine), MergeOptions())
    assert rows(world) == [(1, 4)]


def test_a_merge_query_that_is_refused_is_named_before_any_part_is_read() -> None:
    world = filled(
        *(numbers(1, 1, 2) for _ in range(4)), merge={"sql": "select * from '/etc/passwd'"}
    )
    with pytest.raises(UsageError, match="/etc/passwd"):
        run_merge(Work(world.table, RUN, never), MergeOptions())
    assert len(rows(world)) == 8


def test_the_table_given_to_a_rewrite_counts_the_requests_of_its_kernels(tmp_path: Path) -> None:
    world = filled(numbers(1, 1, 2, 3))
    # Kernels count on stores of their own, as in a Spark task.
    table = replace(world.table, store=world.store)
    engine = LocalEngine(lambda: world.store, tmp_path, world.ids, SystemClock())
    report = run_rewrite(Work(table, RUN, lambda: engine), RewriteOptions(where="n != 2"))
    assert report.requests["get"] >= 1
