"""A group merged by several tasks: all of its rows in one transaction, or nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from msgspec import structs

from firnline.appends.append import Appender
from firnline.clock import SystemClock
from firnline.errors import KernelError
from firnline.kernel import task as kernel_task
from firnline.kernel.local import LocalEngine
from firnline.kernel.task import KernelResult, KernelTask
from firnline.log.records import Marker
from firnline.log.txn_file import RunIdentity
from firnline.operations import kernel_tasks
from firnline.operations.delete.run import run_delete
from firnline.operations.merge import clusters, cutting, splits
from firnline.operations.merge.run import MergeFailedError, MergeReport, preview, run_merge
from firnline.operations.operation import Work
from firnline.operations.options import DeleteOptions, MergeOptions, RebuildOptions, VerifyOptions
from firnline.operations.rebuild.run import run_rebuild
from firnline.operations.verify.run import run_verify
from tests.support.cleanups import keys_under
from tests.support.log_tables import snapshot
from tests.support.reading import visible_ids
from tests.support.world import World, make_world

RUN = RunIdentity(run_id="r")
ROWS = 16_384


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of a few row groups of 2,048 rows count as large; a group is three tasks.

    Those of a clustered table have six outputs.
    """
    monkeypatch.setattr(clusters, "outputs_of", lambda *_: 6)
    monkeypatch.setattr(cutting, "_SMALL_BYTES", 0)
    monkeypatch.setattr(splits, "slices_of", lambda _, parts: 3 if len(parts) > 1 else 1)


ORDERS: dict[str, dict[str, Any]] = {
    "sorted": {},
    "zorder": {"sort_by": [], "cluster_by": {"columns": ["other", "id"], "method": "zorder"}},
}


@pytest.fixture(params=list(ORDERS))
def order(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Settings by which a group is sliced: by ``id`` in both, of which alone row groups tell."""
    return ORDERS[str(request.param)]


def world_of(appends: int = 4, **settings: Any) -> World:
    """Parts that all hold the same range of ids, in order, each in eight row groups."""
    given = {"sort_by": ["id"], "merge": {"row_group_rows": 2_048}, **settings}
    world = make_world(partition_by=["d"], **given)
    for number in range(appends):
        world.clock.advance(10)
        ids = pa.array(range(number, ROWS * appends, appends), pa.int64())
        other = pa.array([at * 7 % 100 if at % 9 else None for at in range(len(ids))], pa.int64())
        table = pa.table({"id": ids, "d": pa.array([1] * len(ids), pa.int64()), "other": other})
        Appender(world.table).append(table)
    return world


class Recorded:
    """An engine that runs tasks in this process, and keeps them."""

    application_id = ""

    def __init__(self, world: World, scratch: Path) -> None:
        self.tasks: list[KernelTask] = []
        self._inner = LocalEngine(lambda: world.table.store, scratch, world.ids, SystemClock())

    def run(self, tasks: Sequence[KernelTask]) -> Iterator[KernelResult | None]:
        self.tasks += tasks
        yield from self._inner.run(self.changed(tasks))

    def changed(self, tasks: Sequence[KernelTask]) -> Sequence[KernelTask]:
        return tasks


def merge(world: World, scratch: Path) -> tuple[MergeReport, list[KernelTask]]:
    engine = Recorded(world, scratch)
    return run_merge(Work(world.table, RUN, lambda: engine), MergeOptions()), engine.tasks


def live(world: World) -> list[Marker]:
    found = snapshot(world).live.values()
    return sorted(found, key=lambda m: m.stats()["id"][0])  # type: ignore[arg-type, return-value]  # all of them numbers


def objects(world: World) -> set[str]:
    return set(keys_under(world, "_data"))


def test_the_outputs_of_a_group_hold_its_rows_in_ranges_that_do_not_overlap(
    tmp_path: Path,
) -> None:
    world = world_of()
    before = visible_ids(world.table)
    plan = preview(world.table, MergeOptions())
    report, tasks = merge(world, tmp_path)
    assert plan.tasks == report.tasks == len(tasks) == 3
    assert (report.groups, report.groups_done, len(report.transactions)) == (1, 1, 1)
    assert (report.counts.parts_in, report.counts.parts_out) == (4, 3)
    assert report.counts.rows_in == report.counts.rows_out == 4 * ROWS
    bounds = [m.stats()["id"][:2] for m in live(world)]
    assert (bounds[0][0], bounds[-1][1]) == (0, 4 * ROWS - 1)
    assert all(before_[1] < after[0] for before_, after in pairwise(bounds))  # type: ignore[operator]
    assert visible_ids(world.table) == before
    assert len({m.c for m in live(world)} - {None}) == 1
    assert preview(world.table, MergeOptions()).nothing_to_do
    assert not run_verify(Work(world.table), VerifyOptions()).findings


def test_the_slices_of_a_clustered_group_are_one_run(tmp_path: Path) -> None:
    """Each makes its share of the outputs."""
    world = world_of(cluster_by=["id"], sort_by=[])
    before = visible_ids(world.table)
    report, tasks = merge(world, tmp_path)
    assert [task.cluster.outputs for task in tasks if task.cluster is not None] == [2, 2, 2]
    assert (report.tasks, report.counts.parts_out, len(report.transactions)) == (3, 6, 1)
    bounds = [m.stats()["id"][:2] for m in live(world)]
    assert all(one[1] < other[0] for one, other in pairwise(bounds))  # type: ignore[operator]
    assert len({m.c for m in live(world)}) == 1
    assert visible_ids(world.table) == before
    assert preview(world.table, MergeOptions()).nothing_to_do


def test_the_slices_of_a_z_order_are_one_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By boxes of both columns, where parts tell them apart; nulls are above every value."""
    monkeypatch.setattr(splits, "slices_of", lambda *_: 4)
    world = make_world(partition_by=["d"], merge={"row_group_rows": 2_048}, **ORDERS["zorder"])
    for number in range(8):
        world.clock.advance(10)
        ids = range(number % 2 * 1_000, number % 2 * 1_000 + 500)
        others = [None if i % 50 == 49 and number > 3 else number // 4 * 100 + i % 50 for i in ids]
        columns = {"id": list(ids), "other": others, "d": [1] * len(ids)}
        Appender(world.table).append(pa.table(columns))
    before = visible_ids(world.table)
    report, tasks = merge(world, tmp_path)
    assert [len(task.slice.ranges) for task in tasks if task.slice is not None] == [2] * 4
    assert [task.cluster.narrowed for task in tasks if task.cluster is not None] == [(1, 1)] * 4
    assert [len(task.inputs) for task in tasks] == [2] * 4
    assert (report.tasks, report.counts.parts_out, len(report.transactions)) == (4, 6, 1)
    assert report.counts.rows_in == report.counts.rows_out == 8 * 500
    assert len({m.c for m in live(world)}) == 1
    assert visible_ids(world.table) == before
    assert preview(world.table, MergeOptions()).nothing_to_do
    assert not run_verify(Work(world.table), VerifyOptions()).findings


def test_a_z_order_is_sliced_by_the_columns_that_have_bounds(tmp_path: Path) -> None:
    """NaN is above every number, and no footer tells of it."""
    zorder = {"columns": ["x", "id"], "method": "zorder"}
    world = make_world(cluster_by=zorder, merge={"row_group_rows": 2_048})
    for number in range(4):
        world.clock.advance(10)
        ids = range(number, ROWS * 4, 4)
        x = [float("nan") if i % 3 else i / 2 for i in ids]
        Appender(world.table).append(pa.table({"id": list(ids), "x": x}))
    before = visible_ids(world.table)
    _, tasks = merge(world, tmp_path)
    assert [{r.column for r in task.slice.ranges} for task in tasks if task.slice] == [{"id"}] * 3
    assert all(task.cluster.narrowed[0] == 0 for task in tasks if task.cluster is not None)
    assert visible_ids(world.table) == before


def test_each_task_reads_the_row_groups_that_it_needs(
    tmp_path: Path, order: dict[str, Any]
) -> None:
    world = world_of(**order)
    _, tasks = merge(world, tmp_path)
    read = [[source.row_groups for source in task.inputs] for task in tasks]
    assert all(groups is not None for each in read for groups in each)
    counts = [sum(len(groups or ()) for groups in each) for each in read]
    assert sum(counts) <= 32 + 2 * 4  # two cuts through four parts


def test_a_group_whose_row_groups_all_hold_the_whole_range_is_one_task(
    tmp_path: Path, order: dict[str, Any]
) -> None:
    world = world_of(**order, merge={"row_group_rows": 1_048_576})
    report, tasks = merge(world, tmp_path)
    assert [task.slice for task in tasks] == [None]
    assert report.counts.parts_out == (6 if "cluster_by" in order else 1)


def test_pending_deletes_are_applied_in_every_slice(tmp_path: Path, order: dict[str, Any]) -> None:
    world = world_of(**order)
    before = visible_ids(world.table)
    options = DeleteOptions(where="id < 20000 AND id >= 10000", mode="lazy")
    run_delete(Work(world.table, RUN, lambda: Recorded(world, tmp_path)), options)
    report, tasks = merge(world, tmp_path)
    assert len(tasks) == 3
    assert report.counts.rows_deleted == 10_000
    assert visible_ids(world.table) == {n: c for n, c in before.items() if not 10_000 <= n < 20_000}


@pytest.mark.parametrize("proof", ["rows", "counts"])
def test_a_slice_of_which_every_row_is_deleted_proves_that_they_went(
    tmp_path: Path, proof: str
) -> None:
    world = world_of(2, merge={"row_group_rows": 2_048, "proof": proof})
    before = visible_ids(world.table)
    options = DeleteOptions(where="id < 15000", mode="lazy")
    run_delete(Work(world.table, RUN, lambda: Recorded(world, tmp_path)), options)
    report, tasks = merge(world, tmp_path)
    assert len(tasks) == 3
    assert (report.counts.rows_deleted, report.counts.parts_out) == (15_000, 2)
    assert visible_ids(world.table) == {n: c for n, c in before.items() if n >= 15_000}
    assert all(marker.g for marker in live(world)) == (proof == "rows")


def test_keys_keep_their_newest_row_in_every_slice(tmp_path: Path) -> None:
    world = world_of(primary_key=["id"], appends=2)
    for _ in range(2):
        world.clock.advance(10)
        ids = pa.array(range(0, ROWS * 2, 2), pa.int64())
        Appender(world.table).append(pa.table({"id": ids, "d": pa.array([1] * ROWS, pa.int64())}))
    report, tasks = merge(world, tmp_path)
    assert len(tasks) == 3
    assert report.counts.rows_deduplicated == 2 * ROWS
    assert set(visible_ids(world.table).values()) == {1}


def test_a_row_group_that_no_slice_reads_is_found_before_the_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, order: dict[str, Any]
) -> None:
    """A planted fault: statistics that are wrong would look the same."""
    real = cutting._Chunk.halves

    def without_one(self: cutting._Chunk, cut: Any) -> Any:
        lost = (self.part, self.number) == (2, 1)
        return (None, None) if lost else real(self, cut)

    monkeypatch.setattr(cutting._Chunk, "halves", without_one)
    world = world_of(**order)
    before, there = visible_ids(world.table), objects(world)
    with pytest.raises(MergeFailedError) as failed:
        merge(world, tmp_path)
    (failure,) = failed.value.report.failures
    assert failure.error == "RowCountMismatchError"
    assert f"read {4 * ROWS - 2_048} rows, and the parts have {4 * ROWS}" in failure.message
    assert objects(world) == there
    assert visible_ids(world.table) == before
    assert not failed.value.report.transactions


class Failing(Recorded):
    """The second slice of a group names a part that is not there."""

    def changed(self, tasks: Sequence[KernelTask]) -> Sequence[KernelTask]:
        from msgspec.structs import replace

        bad = replace(tasks[1].inputs[0], key=tasks[1].inputs[0].key + "x")
        return [tasks[0], replace(tasks[1], inputs=(bad, *tasks[1].inputs[1:])), *tasks[2:]]


def test_where_one_slice_fails_nothing_of_its_group_stays(
    tmp_path: Path, order: dict[str, Any]
) -> None:
    world = world_of(**order)
    before, there = visible_ids(world.table), objects(world)
    with pytest.raises(MergeFailedError) as failed:
        run_merge(Work(world.table, RUN, lambda: Failing(world, tmp_path)), MergeOptions())
    assert [failure.error for failure in failed.value.report.failures] == ["PartGoneError"]
    assert objects(world) == there
    assert visible_ids(world.table) == before


class Killed(Recorded):
    """Dies after two of three slices."""

    def run(self, tasks: Sequence[KernelTask]) -> Iterator[KernelResult | None]:
        ended = 0
        for result in super().run(tasks):
            ended += result is not None
            if ended == 3:
                raise KernelError("killed", next_step="run it again")
            yield result


def test_outputs_of_a_run_that_ends_before_its_last_slice_are_deleted(tmp_path: Path) -> None:
    world = world_of()
    there = objects(world)
    with pytest.raises(KernelError, match="killed"):
        run_merge(Work(world.table, RUN, lambda: Killed(world, tmp_path)), MergeOptions())
    # The third output is of a task that nobody has heard of: the orphan sweep deletes it.
    assert len(objects(world) - there) == 1


def test_a_rebuild_takes_no_slices_whose_run_never_committed_for_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As kill -9 leaves them: some outputs of a group, or all of them, and no transaction."""
    from firnline.commit.outputs import Outputs

    world = world_of()
    options = DeleteOptions(where="id = 7", mode="lazy")
    run_delete(Work(world.table, RUN, lambda: Recorded(world, tmp_path)), options)
    before, there = visible_ids(world.table), objects(world)
    with monkeypatch.context() as patch:
        patch.setattr(Outputs, "delete", lambda *_: None)
        with pytest.raises(KernelError, match="killed"):
            run_merge(Work(world.table, RUN, lambda: Killed(world, tmp_path)), MergeOptions())
    assert len(objects(world) - there) >= 2
    for key in keys_under(world, "_log"):
        del world.store.objects[key]
    run_rebuild(Work(world.table, RUN), RebuildOptions())
    assert visible_ids(world.table) == before


def test_a_rebuild_knows_all_slices_of_a_run_that_committed(
    tmp_path: Path, order: dict[str, Any]
) -> None:
    world = world_of(**order)
    before = visible_ids(world.table)
    merge(world, tmp_path)
    for key in keys_under(world, "_log"):
        del world.store.objects[key]
    run_rebuild(Work(world.table, RUN), RebuildOptions())
    assert visible_ids(world.table) == before
    assert len(live(world)) == (6 if order else 3)


class _Tampered(Recorded):
    """One of the tasks reports another digest than its rows have."""

    def run(self, tasks: Sequence[KernelTask]) -> Iterator[KernelResult | None]:
        results = (each for each in super().run(tasks) if each is not None)
        for number, result in enumerate(results):
            if number == 1:
                assert result.digest is not None, "each part states the digest of its rows"
                yield structs.replace(result, digest=f"r1:{7:032x}")
            else:
                yield result


def test_slices_that_do_not_add_up_to_their_parts_are_not_committed(
    tmp_path: Path, order: dict[str, Any]
) -> None:
    world = world_of(**order)
    before, there = visible_ids(world.table), objects(world)
    engine = _Tampered(world, tmp_path)
    with pytest.raises(MergeFailedError, match="3 slices of a group of 4 parts failed their proof"):
        run_merge(Work(world.table, RUN, lambda: engine), MergeOptions())
    assert visible_ids(world.table) == before
    assert objects(world) == there


def test_slices_of_parts_without_digests_prove_their_own_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = world_of()
    before = visible_ids(world.table)
    monkeypatch.setattr(kernel_tasks, "digest_of", lambda *_: None)
    _, tasks = merge(world, tmp_path)
    assert len(tasks) == 3
    assert not any(source.digest for task in tasks for source in task.inputs)
    assert visible_ids(world.table) == before
    assert all(marker.g for marker in live(world))


def test_slices_of_columns_without_digests_are_only_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As of a table whose parts stated digests before it got a column of such a type.
    monkeypatch.setattr(kernel_task, "_has_digests", lambda kind: kind != "BIGINT")
    world = world_of()
    before = visible_ids(world.table)
    _, tasks = merge(world, tmp_path)
    assert len(tasks) == 3
    assert visible_ids(world.table) == before
    assert len(live(world)) == 3
    assert not any(marker.g for marker in live(world))
