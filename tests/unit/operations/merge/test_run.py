"""A merge keeps its progress, names what it could not do, and leaves nothing behind."""

from __future__ import annotations

from typing import Any, NoReturn

import pytest

from firnline.errors import CommitConflictError, RowCountMismatchError, StoppedError
from firnline.log.txn_file import RunIdentity
from firnline.operations.merge.run import MergeFailedError, MergeReport, preview, run_merge
from firnline.operations.operation import Work
from firnline.operations.options import MergeOptions
from firnline.operations.runner import Progress
from firnline.state.history import history, run_report
from tests.support.commit_costs import FIRST_CHECK
from tests.support.engines import CountingEngine
from tests.support.log_tables import do_merge, put_append, snapshot
from tests.support.striking import is_interrupted
from tests.support.world import World, make_world

RUN = RunIdentity(dag_id="merge__t", run_id="manual-1", try_number=1)


def filled(*partitions: str, parts: int = 5, **settings: Any) -> World:
    world = make_world(**settings)
    for partition in partitions or ("d=1",):
        for _ in range(parts):
            put_append(world, partition)
    return world


def merge(world: World, engine: CountingEngine | None = None, **options: object) -> MergeReport:
    chosen = engine or CountingEngine(world)
    return run_merge(Work(world.table, RUN, lambda: chosen), MergeOptions(**options))  # type: ignore[arg-type]  # passed through


def rows(world: World) -> int:
    return sum(m.n or 0 for m in snapshot(world).live.values())


def never() -> NoReturn:
    raise AssertionError("an engine was started for nothing")


def orphans(world: World) -> set[str]:
    parts = {k for k in world.store.objects if "/_data/" in k}
    return parts - set(snapshot(world).parts)


def test_a_merge_leaves_one_part_and_all_rows() -> None:
    world = filled()
    report = merge(world)
    assert (report.groups_done, report.counts.parts_in, report.counts.parts_out) == (1, 5, 1)
    assert rows(world) == 50
    assert len(snapshot(world).live) == 1


def test_a_second_run_right_after_finds_nothing_and_starts_no_engine() -> None:
    world = filled("d=1", "d=2")
    merge(world)
    before = dict(world.store.objects)
    report = run_merge(Work(world.table, RUN, never), MergeOptions())
    assert (report.groups, report.transactions) == (0, ())
    assert world.store.objects == before


def test_a_dry_run_changes_nothing() -> None:
    world = filled()
    before = dict(world.store.objects)
    report = run_merge(Work(world.table, RUN, never), MergeOptions(dry_run=True))
    assert report.groups == 1
    assert world.store.objects == before
    assert preview(world.table, MergeOptions()).parts_in == 5


def test_requests_are_inputs_outputs_and_at_most_eight_and_the_check() -> None:
    world = filled("d=1", "d=2", parts=7)
    logs = len(snapshot(world).listing)
    before = sum(v for k, v in world.store.counters.as_dict().items() if "bytes" not in k)
    report = merge(world)
    after = sum(v for k, v in world.store.counters.as_dict().items() if "bytes" not in k)
    inputs = 14
    assert report.requests["get"] >= inputs
    assert after - before - logs - inputs <= 8 + FIRST_CHECK


def test_groups_of_the_last_seconds_share_a_transaction() -> None:
    world = filled("d=1", "d=2", "d=3")
    assert merge(world).transactions == (1,)
    assert history(world.table)[0].partitions == ("d=1", "d=2", "d=3")


def test_a_long_run_commits_what_is_done_so_far() -> None:
    world = filled("d=1", "d=2", "d=3")
    every = world.settings.merge.commit_every
    engine = CountingEngine(world, between=lambda _: world.clock.advance(every))
    report = merge(world, engine)
    assert report.transactions == (1, 2, 3)
    assert rows(world) == 150


def test_a_killed_run_keeps_its_progress() -> None:
    world = filled("d=1", "d=2", "d=3")

    def killed(number: int) -> None:
        world.clock.advance(world.settings.merge.commit_every)
        if number == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        merge(world, CountingEngine(world, between=killed))
    assert len(snapshot(world).live) == 1 + 5 + 5
    assert rows(world) == 150
    merge(world)
    assert len(snapshot(world).live) == 3
    assert rows(world) == 150


def test_a_run_that_is_to_stop_keeps_its_progress_and_drops_what_is_not_committed() -> None:
    world = filled("d=1", "d=2", "d=3")
    interrupts = world.table.interrupts

    def asked(number: int) -> None:
        world.clock.advance(world.settings.merge.commit_every)
        if number == 2:  # its supervisor is gone, and the signal does not arrive
            interrupts.ask(StoppedError("enough", next_step="rest"))

    with pytest.raises(KeyboardInterrupt):
        merge(world, CountingEngine(world, between=asked))
    assert [header.partitions for header in history(world.table)] == [("d=1",)]
    assert orphans(world) == set()
    assert rows(world) == 150
    assert not is_interrupted(interrupts.strike)  # its cleaning up was not disturbed


def test_a_group_that_fails_is_named_and_the_others_go_on() -> None:
    world = filled("d=1", "d=2", "d=3")
    with pytest.raises(MergeFailedError, match=r"1 of 3 groups.*d=2.*is cut.*repair it") as caught:
        merge(world, CountingEngine(world, fail={"d=2": "part x is cut"}))
    report = caught.value.report
    assert (report.groups_done, report.failures[0].partition) == (2, "d=2")
    assert len(snapshot(world).partitions["d=2"]) == 5
    assert len(snapshot(world).partitions["d=3"]) == 1
    assert rows(world) == 150


def test_a_rival_that_took_some_parts_makes_the_run_plan_again() -> None:
    world = filled("d=1", "d=2")

    def rival(number: int) -> None:
        if number == 1 and snapshot(world).seq == 0:
            do_merge(world, [m.p for m in snapshot(world).partitions["d=2"]][:2])

    engine = CountingEngine(world, between=rival)
    report = merge(world, engine)
    assert report.replans == 1
    assert report.groups_done == 2
    assert rows(world) == 100
    assert len(snapshot(world).live) == 2
    assert orphans(world) == set()


def test_planning_again_is_bounded() -> None:
    world = filled(merge={"max_replans": 2})

    def rival(_: int) -> None:
        live = list(snapshot(world).live)
        do_merge(world, live[:2])
        put_append(world)
        put_append(world)

    with pytest.raises(CommitConflictError, match="3 times"):
        merge(world, CountingEngine(world, between=rival))
    assert orphans(world) == set()


def test_lost_rows_are_noticed_before_the_commit_and_nothing_is_left_behind() -> None:
    world = filled()
    with pytest.raises(RowCountMismatchError, match="50 rows were read, but 49 written"):
        merge(world, CountingEngine(world, lose_rows=1))
    assert snapshot(world).seq == 0
    assert orphans(world) == set()


def test_new_parts_begin_from_the_base_and_span_their_inputs_order() -> None:
    world = filled()
    do_merge(world, put_append(world, "d=9"))
    orders = [m.order()[0] for m in snapshot(world).partitions["d=1"]]
    merge(world)
    (new,) = snapshot(world).partitions["d=1"]
    assert new.q == 1
    assert new.order() == (min(orders), max(orders))


def test_the_report_of_a_run_sums_its_transactions_and_no_others() -> None:
    world = filled("d=1", "d=2", merge={"commit_every": "0s"})
    merge(world)
    do_merge(world, put_append(world))
    report = run_report(world.table, RUN)
    assert report.transactions == (1, 2)
    assert (report.counts.parts_in, report.counts.rows_out) == (10, 100)
    assert report.partitions == ("d=1", "d=2")
    assert run_report(world.table, RUN, since_seq=1).transactions == (2,)


def test_the_history_is_linear_and_newest_first() -> None:
    world = filled("d=1", "d=2", merge={"commit_every": "0s"})
    merge(world)
    assert [h.seq for h in history(world.table)] == [2, 1]
    assert [h.seq for h in history(world.table, newest=1)] == [2]


def test_the_history_names_the_spark_application() -> None:
    world = filled()
    merge(world)
    assert history(world.table)[0].run == RunIdentity("merge__t", "manual-1", 1, "", "app-1")


def test_progress_is_told() -> None:
    world = filled("d=1", "d=2")
    seen: list[Progress] = []
    run_merge(Work(world.table, RUN, lambda: CountingEngine(world), seen.append), MergeOptions())
    assert (seen[-1].groups_done, seen[-1].groups) == (2, 2)
    assert (seen[-1].parts_done, seen[-1].parts_in) == (10, 10)
    assert [(p.parts_merged, p.parts_done) for p in seen] == [(0, 0), (5, 0), (10, 0), (10, 10)]


def test_kernel_tasks_carry_schema_sort_order_and_where_parts_came_from() -> None:
    world = filled(sort_by=["ts", "v desc"], partition_by=["day(ts)"])
    engine = CountingEngine(world)
    merge(world, engine)
    (task,) = engine.tasks
    assert task.columns == (("ts", "TIMESTAMP"), ("v", "INTEGER"))
    assert [(k.column, k.descending) for k in task.sort_by] == [("ts", False), ("v", True)]
    assert task.stats_columns == ("ts", "v")
    assert task.metadata["firnline.replaces"].count(".parquet") == 5
    assert task.data_prefix == "t/_data/d=1/"
