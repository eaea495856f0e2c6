from __future__ import annotations

from pathlib import Path

from firnline.log.txn_file import RunIdentity, TxnHeader
from firnline.operations.operation import Work
from firnline.operations.options import DropOptions, RestoreOptions
from firnline.operations.restore.run import preview, run_restore
from firnline.operations.restore.undone import Undone, goal, undone, why
from firnline.state.history import history
from tests.support.histories import filled
from tests.support.world import World


def header(seq: int, op: str = "drop", *partitions: str, to: int | None = None) -> TxnHeader:
    reason = "" if to is None else why(to)
    return TxnHeader(
        seq=seq, txn="x", op=op, base=seq - 1, t=seq, log="", partitions=partitions, why=reason
    )


def restore(seq: int, to: int, *partitions: str) -> TxnHeader:
    return header(seq, "restore", *partitions, to=to)


def newest_first(*headers: TxnHeader) -> dict[int, Undone]:
    return undone(sorted(headers, key=lambda each: -each.seq))


def test_a_restore_undoes_what_came_after_its_goal_in_its_partitions() -> None:
    found = newest_first(
        header(1, "merge", "a"),
        header(2, "drop", "a"),
        header(3, "drop", "b"),
        header(4, "drop", "a", "b"),
        header(5, "cleanup"),
        restore(6, 1, "a"),
    )
    assert found == {2: Undone(6, partly=False), 4: Undone(6, partly=True)}


def test_two_restores_of_one_partition_each_undo_the_whole() -> None:
    found = newest_first(
        header(1, "drop", "a", "b"), restore(2, 0, "a"), header(3, "merge", "c"), restore(4, 0, "b")
    )
    assert found == {1: Undone(4, partly=False)}


def test_what_an_undone_restore_undid_is_in_force_again() -> None:
    found = newest_first(header(1, "drop", "a"), restore(2, 0, "a"), restore(3, 1, "a"))
    assert found == {2: Undone(3, partly=False)}
    partly = newest_first(header(1, "drop", "a", "b"), restore(2, 0, "a", "b"), restore(3, 1, "a"))
    assert partly == {1: Undone(2, partly=True), 2: Undone(3, partly=True)}


def test_a_delete_that_names_no_partition_is_undone_where_the_restore_was() -> None:
    found = newest_first(header(1, "delete"), restore(2, 0, "a"))
    assert found == {1: Undone(2, partly=True)}


def test_only_a_restore_has_a_goal() -> None:
    assert goal(restore(9, 7, "a")) == 7
    assert goal(header(9, "clone", to=7)) is None


def test_the_history_tells_what_the_plan_of_the_restore_said(tmp_path: Path) -> None:
    world: World = filled(4)
    from firnline.operations.drop.run import run_drop

    for day in ("day=0", "day=1"):
        world.clock.advance(10)
        run_drop(Work(world.table, RunIdentity(run_id="r")), DropOptions(partitions=(day,)))
    world.clock.advance(10)
    options = RestoreOptions(to=1)
    plan = preview(world.table, options)
    report = run_restore(Work(world.table, RunIdentity(run_id="r")), options)
    assert plan.undone == (2,)
    assert undone(history(world.table)) == {2: Undone(report.transaction or 0, partly=False)}
