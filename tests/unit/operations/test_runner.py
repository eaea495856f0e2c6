"""A run takes a base, plans, acts, and plans again after a conflict; it costs what it cost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from firnline.commit.base import Base
from firnline.errors import (
    CommitConflictError,
    FirnlineError,
    KernelError,
    PartUnreadableError,
    ScratchFullError,
)
from firnline.kernel.task import KernelResult, KernelTask
from firnline.log.txn_file import RunIdentity
from firnline.operations.runner import Failure, RunMetrics, Runner, what_helps
from tests.support.log_tables import put_append
from tests.support.world import make_world

RUN = RunIdentity(run_id="r")
RIVAL = CommitConflictError("the columns changed", next_step="run it again")


class Cluster:
    """Counts how often it is started."""

    started = 0
    application_id = "app-1"

    def __call__(self) -> Cluster:
        self.started += 1
        return self

    def run(self, tasks: Sequence[KernelTask]) -> Iterator[KernelResult | None]:
        raise NotImplementedError


def test_only_the_requests_and_the_time_of_the_run_count() -> None:
    world = make_world()
    world.store.put_new("events/before", b"12")
    metrics = RunMetrics(world.table)
    world.store.put_new("events/within", b"123")
    world.clock.advance(1_500)
    assert (metrics.requests["put"], metrics.requests["bytes_out"]) == (1, 3)
    assert metrics.requests["get"] == 0
    assert metrics.seconds == 1.5


def test_a_run_plans_again_as_often_as_the_settings_allow() -> None:
    world = make_world()
    runner = Runner(world.table, RUN)
    for _ in range(world.table.settings.merge.max_replans):
        runner.plan_again()
    with pytest.raises(CommitConflictError, match=r"rivals took parts of .* away 4 times"):
        runner.plan_again()
    with pytest.raises(CommitConflictError, match="the columns changed"):
        runner.plan_again(RIVAL)


def test_after_a_conflict_the_plan_is_made_on_the_newest_base() -> None:
    world = make_world()
    put_append(world)
    runner = Runner(world.table, RUN)
    acted: list[int] = []

    def act(_base: Base, parts: int) -> str | None:
        acted.append(parts)
        put_append(world)
        if len(acted) == 1:
            return None
        if len(acted) == 2:
            raise RIVAL
        return "done"

    found = runner.run(lambda base: len(base.snapshot.live), act, ends=lambda _: False)
    assert found == (acted[-1], "done")
    assert acted == [1, 2, 3]
    assert runner.replans == 2


def test_a_plan_with_nothing_to_do_costs_neither_a_probe_nor_an_act() -> None:
    world = make_world()
    put_append(world)
    runner = Runner(world.table, RUN)

    def act(_base: Base, _plan: str) -> str:
        raise AssertionError

    assert runner.run(lambda _: "empty", act, ends=lambda plan: plan == "empty") == ("empty", None)
    assert runner.requests["put"] == 0


def test_the_engine_starts_when_it_is_first_asked_for_and_the_history_names_it() -> None:
    cluster = Cluster()
    runner = Runner(make_world().table, RUN, cluster)
    assert (cluster.started, runner.identity) == (0, RUN)
    assert runner.engine is runner.engine is cluster
    assert cluster.started == 1
    assert (runner.identity.run_id, runner.identity.application_id) == ("r", "app-1")


@pytest.mark.parametrize(("locking", "puts"), [(None, 0), ("fenced", 2)])
def test_the_store_is_probed_for_the_locking_that_will_be_in_force(
    locking: str | None, puts: int
) -> None:
    world = make_world(locking="pool-only")
    runner = Runner(world.table, RUN, locking=locking)
    runner.probe()
    assert runner.requests["put"] == puts


def failed(*kinds: type[FirnlineError]) -> list[Failure]:
    """Failures of these kinds, one each."""
    return [Failure(partition="", error=k.__name__, message="a; b", key=None) for k in kinds]


@pytest.mark.parametrize(
    "kinds", [[ScratchFullError], [KernelError], [PartUnreadableError, ScratchFullError]]
)
def test_nobody_is_told_to_touch_parts_where_something_else_was_at_fault(
    kinds: list[type[FirnlineError]],
) -> None:
    assert what_helps(failed(*kinds)) == "do what each reason says and run it again"


def test_parts_that_do_not_read_are_to_be_restored() -> None:
    step = what_helps(failed(PartUnreadableError, PartUnreadableError), " and erase again")
    assert step == "repair or restore the named parts and erase again"
