"""What rewrite, delete and erase share: a partition is done whole or not at all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import msgspec
import pytest

from firnline.commit.base import Base, take_base
from firnline.errors import CommitConflictError, RowCountMismatchError
from firnline.kernel.task import KernelResult, KernelTask
from firnline.log.records import Delete
from firnline.log.txn_file import RunIdentity
from firnline.operations.groups import PlannedGroup
from firnline.operations.kernel_tasks import RowWork, change_of, kernel_task
from firnline.operations.rewriting import PartitionResult, commit_or_discard, is_nothing, run_groups
from firnline.state.snapshot import Snapshot
from tests.support.engines import CountingEngine
from tests.support.log_tables import do_merge, put_append, snapshot
from tests.support.world import World, make_world

RUN = RunIdentity(run_id="r")
GONE = Delete(id="d-1", seq=0, t=0, where=msgspec.Raw(b'{"op":"=","column":"v","value":1}'))


@dataclass
class ChangingEngine(CountingEngine):
    """Counts rows and lets a test say what else became of them."""

    change: Callable[[KernelTask, KernelResult], KernelResult] = lambda _, result: result

    def _result(self, task: KernelTask) -> KernelResult:
        return self.change(task, super()._result(task))


def one_group_per_part(state: Snapshot) -> list[PlannedGroup]:
    return [PlannedGroup(name, (m,)) for name, parts in state.partitions.items() for m in parts]


def run(
    world: World, engine: CountingEngine, work: RowWork | None = None
) -> tuple[Base, list[PartitionResult]]:
    base = take_base(world.table)
    groups = one_group_per_part(base.snapshot)
    todo = [
        (g, kernel_task(world.table, base.snapshot, n, g, work or RowWork(op="rewrite")))
        for n, g in enumerate(groups)
    ]
    return base, [found for found in run_groups(world.table, engine, todo) if found is not None]


def filled(*partitions: str, parts: int = 2) -> World:
    world = make_world()
    for partition in partitions:
        for _ in range(parts):
            put_append(world, partition)
    return world


def orphans(world: World) -> set[str]:
    parts = {k for k in world.store.objects if "/_data/" in k}
    return parts - set(snapshot(world).parts)


def test_a_partition_comes_back_when_all_of_its_groups_are_done() -> None:
    world = filled("d=1", "d=2")
    base, results = run(world, CountingEngine(world))
    assert [(r.partition, len(r.done)) for r in results] == [("d=1", 2), ("d=2", 2)]
    for result in results:
        change = change_of(base.snapshot, result.done, op="rewrite")
        committed = commit_or_discard(world.table, base, change, RUN, result.done)
        assert committed.header.op == "rewrite"
        assert committed.header.partitions == (result.partition,)
    assert orphans(world) == set()
    assert sum(m.n or 0 for m in snapshot(world).live.values()) == 40


def test_a_group_that_fails_takes_the_outputs_of_its_partition_with_it() -> None:
    world = filled("d=1", "d=2")

    def second_fails(task: KernelTask, result: KernelResult) -> KernelResult:
        if task.group != 1:
            return result
        for part in result.parts:
            del world.store.objects[part.key]
        return KernelResult(
            group=1, error="broken", error_type="PartUnreadableError", error_next_step="repair it"
        )

    _, results = run(world, ChangingEngine(world, change=second_fails))
    failed, whole = sorted(results, key=lambda r: len(r.done))
    assert (failed.partition, failed.done) == ("d=1", ())
    assert [f.message for f in failed.failures] == ["broken; repair it"]
    assert orphans(world) == {p.key for _, r in whole.done for p in r.parts}
    assert len(whole.done) == 2


def test_an_input_that_stays_is_not_replaced_and_its_rows_are_in_no_count() -> None:
    world = filled("d=1", parts=3)
    base = take_base(world.table)
    parts = tuple(base.snapshot.partitions["d=1"])
    group = PlannedGroup("d=1", parts)

    def first_stays(task: KernelTask, result: KernelResult) -> KernelResult:
        part = msgspec.structs.replace(result.parts[0], rows=15)
        return msgspec.structs.replace(
            result, parts=(part,), rows_in=20, rows_deleted=5, unchanged=(task.inputs[0].key,)
        )

    work = RowWork(op="delete", hides=(GONE,), only_touched=True)
    task = kernel_task(world.table, base.snapshot, 0, group, work)
    assert len({i.where_hidden for i in task.inputs}) == 1
    assert "v" in str(task.inputs[0].where_hidden)
    engine = ChangingEngine(world, change=first_stays)
    (found,) = [r for r in run_groups(world.table, engine, [(group, task)]) if r is not None]
    change = change_of(base.snapshot, found.done, op="delete", deletes=(GONE,))
    assert change.replaces == (parts[1].p, parts[2].p)
    assert change.adds[0].o == (parts[1].order()[0], parts[2].order()[1])
    assert (change.adds[0].q, change.adds[0].d) == (base.seq, ("d-1",))
    assert (change.counts.parts_in, change.counts.rows_in) == (2, 20)
    commit_or_discard(world.table, base, change, RUN, found.done)
    state = snapshot(world)
    new = state.parts[change.adds[0].p]
    assert state.pending_deletes(new, "d=1") == []
    assert [d.id for d in state.pending_deletes(state.parts[parts[0].p], "d=1")] == ["d-1"]


def test_nothing_touched_is_nothing_to_commit() -> None:
    world = filled("d=1")

    def all_stay(task: KernelTask, result: KernelResult) -> KernelResult:
        return KernelResult(group=task.group, unchanged=tuple(i.key for i in task.inputs))

    base, (found,) = run(world, ChangingEngine(world, change=all_stay))
    change = change_of(base.snapshot, found.done, op="rewrite")
    assert is_nothing(change)
    assert change.partitions == ()
    assert not is_nothing(change_of(base.snapshot, found.done, op="delete", deletes=(GONE,)))


def test_a_lost_row_is_noticed_before_the_commit_and_leaves_no_object() -> None:
    world = filled("d=1")
    base, (found,) = run(world, CountingEngine(world, lose_rows=1))
    change = change_of(base.snapshot, found.done, op="rewrite")
    with pytest.raises(RowCountMismatchError):
        commit_or_discard(world.table, base, change, RUN, found.done)
    assert orphans(world) == set()


def test_a_rival_wins_and_the_outputs_go() -> None:
    world = filled("d=1")
    base, (found,) = run(world, CountingEngine(world))
    do_merge(world, [m.p for m in base.snapshot.partitions["d=1"]])
    change = change_of(base.snapshot, found.done, op="rewrite")
    with pytest.raises(CommitConflictError):
        commit_or_discard(world.table, base, change, RUN, found.done)
    assert orphans(world) == set()


def test_leaving_early_deletes_the_outputs_of_partitions_that_are_not_complete() -> None:
    world = filled("d=1", "d=2", parts=3)
    base = take_base(world.table)
    groups = one_group_per_part(base.snapshot)
    order = [groups[i] for i in (0, 1, 3, 2, 4, 5)]
    todo = [
        (g, kernel_task(world.table, base.snapshot, n, g, RowWork(op="x")))
        for n, g in enumerate(order)
    ]
    running = run_groups(world.table, CountingEngine(world), todo)
    first = next(r for r in running if r is not None)
    assert len(orphans(world)) == 4
    running.close()
    assert orphans(world) == {p.key for _, r in first.done for p in r.parts}
