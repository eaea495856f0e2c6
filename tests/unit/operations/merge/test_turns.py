"""Merges of one table beside each other: each in turns, in an order of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

import pytest

from firnline.commit.base import take_base
from firnline.kernel.engine import at_once
from firnline.log.txn_file import RunIdentity
from firnline.operations.groups import PlannedGroup
from firnline.operations.merge.plan import MergePlan, plan_merge
from firnline.operations.merge.run import MergeFailedError, MergeReport, run_merge
from firnline.operations.merge.turns import limited, next_turn, partitions_of
from firnline.operations.operation import Work
from firnline.operations.options import MergeOptions
from firnline.state.history import history
from tests.support.cleanups import check, keys_under
from tests.support.commit_costs import CHECK, FIRST_CHECK
from tests.support.engines import CountingEngine
from tests.support.log_tables import put_append, snapshot
from tests.support.world import World, make_world

DAYS = 12


def run(name: str, tries: int = 1) -> RunIdentity:
    return RunIdentity(dag_id="merge__t", run_id=name, try_number=tries)


def shared(days: int = DAYS, slots: int = 2, **merge: Any) -> World:
    """A table with as many partitions to merge, in each three parts of 10 rows."""
    policy = {"min_inputs": 2, "slots": slots, "commit_every": "0s", **merge}
    world = make_world(partition="d=.*", merge=policy)
    for day in range(days):
        for _ in range(3):
            put_append(world, f"d={day}")
    return world


def planned(world: World) -> MergePlan:
    return plan_merge(take_base(world.table).snapshot, world.table.settings, world.clock.now)


@dataclass
class Turns(CountingEngine):
    """Remembers the partitions of each turn, and has somebody act at the beginning of one."""

    turns: list[list[str]] = field(default_factory=list)
    acts: Callable[[int], None] = lambda _: None
    parallel: int = 1

    @property
    def at_once(self) -> int:
        return self.parallel

    @property
    def worked(self) -> list[str]:
        """The partitions of all turns."""
        return list(chain.from_iterable(self.turns))

    def run(self, tasks: Any) -> Any:
        self.turns.append([task.partition for task in tasks])
        self.acts(len(self.turns))
        yield from super().run(tasks)


def merge(world: World, engine: CountingEngine, name: str = "a", **options: Any) -> MergeReport:
    return run_merge(Work(world.table, run(name), lambda: engine), MergeOptions(**options))


def complete(world: World, days: int = DAYS) -> None:
    """Every row is live once, each partition one part, and no object is without a marker."""
    state = snapshot(world)
    assert sum(m.n or 0 for m in state.live.values()) == 30 * days
    assert [len(parts) for parts in state.partitions.values()] == [1] * days
    assert keys_under(world, "_data") == state.parts.keys(), "nothing is orphaned"
    check(world, state.live)


def test_a_turn_is_a_quarter_of_a_share_or_what_the_engine_works_on_at_once() -> None:
    plan = planned(shared(16))
    sizes = {
        (slots, many): len(next_turn(plan, run("a"), slots, many).groups)
        for slots, many in ((2, 1), (4, 1), (2, 5), (2, 99))
    }
    assert sizes == {(2, 1): 2, (4, 1): 1, (2, 5): 5, (2, 99): 16}


def test_a_group_in_slices_fills_the_slots_of_a_cluster_with_as_many_tasks() -> None:
    plan = planned(shared(16))
    sliced = replace(plan, groups=tuple(replace(group, slices=4) for group in plan.groups))
    sizes = [len(next_turn(sliced, run("a"), 2, many).groups) for many in (1, 8, 9, 99)]
    assert sizes == [2, 2, 3, 16]


def test_each_run_has_an_order_of_its_own_and_always_the_same() -> None:
    plan = planned(shared(40))
    turns = {name: partitions_of(next_turn(plan, run(name), 2, 1)) for name in "abcdef"}
    assert len(set(turns.values())) == 6
    assert turns["a"] == partitions_of(next_turn(plan, run("a"), 2, 1))
    retried = partitions_of(next_turn(plan, run("a", tries=2), 2, 1))
    assert retried != turns["a"], "a retry may run beside the try that was taken for dead"


@pytest.mark.long
@pytest.mark.parametrize(("slots", "most"), [(2, 0.15), (4, 0.25)])
def test_merges_that_begin_at_the_same_moment_do_little_of_the_work_twice(
    slots: int, most: float
) -> None:
    """In step, each turn of all of them on the same state; the runs are the same in every test."""
    plan = planned(shared(100))
    left = partitions_of(plan)
    todo = [left] * slots
    done = 0
    while left:
        turns = [
            partitions_of(next_turn(limited(plan, left & todo[i]), run(f"{i}"), slots, 1))
            for i in range(slots)
        ]
        done += sum(map(len, turns))
        todo = [had - turn for had, turn in zip(todo, turns, strict=True)]
        left = left.difference(*turns)
    assert 0 <= done / 100 - 1 <= most


def test_a_turn_has_whole_partitions() -> None:
    plan = planned(shared(1))
    (group,) = plan.groups
    two = PlannedGroup("d=0", group.parts[:1])
    halves = replace(plan, groups=(group, two), hidden=(two,))
    assert next_turn(halves, run("a"), 4, 1) == halves
    assert limited(halves, ()).nothing_to_do


def test_an_engine_that_does_not_say_how_much_it_works_on_at_once_works_on_one_group() -> None:
    world = make_world()
    assert at_once(CountingEngine(world)) == 1
    assert at_once(Turns(world, parallel=7)) == 7
    assert at_once(Turns(world, parallel=0)) == 1


def test_alone_a_run_does_all_of_its_plan_in_turns() -> None:
    world = shared()
    engine = Turns(world)
    report = merge(world, engine)
    assert (report.groups, report.groups_done, report.groups_lost) == (DAYS, DAYS, 0)
    assert sorted(engine.worked) == sorted(f"d={day}" for day in range(DAYS))
    assert [len(turn) for turn in engine.turns[:2]] == [2, 2]
    complete(world)


def test_with_one_slot_there_are_no_turns() -> None:
    world = shared(slots=1)
    engine = Turns(world)
    merge(world, engine)
    assert [len(turn) for turn in engine.turns] == [DAYS]


def test_what_another_merge_has_done_meanwhile_is_left_out() -> None:
    """It comes between two turns: of its work nothing is done again."""
    world = shared()
    other = Turns(world)

    def act(turn: int) -> None:
        if turn == 3:
            rest = tuple({f"d={day}" for day in range(DAYS)} - set(mine.worked))
            assert merge(world, other, "b", partitions=rest).groups_lost == 0

    mine = Turns(world, acts=act)
    report = merge(world, mine)
    assert len(mine.turns) == 3
    assert (report.groups_done, report.groups_lost) == (5, 0)
    assert sorted(mine.worked + other.worked) == sorted(f"d={day}" for day in range(DAYS))
    complete(world)


@pytest.mark.long
@pytest.mark.parametrize("when", [1, 2, 4])
def test_of_two_merges_that_have_the_same_partition_one_commits_and_the_other_deletes_its_parts(
    when: int,
) -> None:
    """The other one does everything while a turn of the first is under way."""
    world = shared(max_replans=0)

    def act(turn: int) -> None:
        if turn == when:
            assert merge(world, Turns(world), "b").groups_lost == 0

    engine = Turns(world, acts=act)
    report = merge(world, engine)
    assert report.groups_lost == len(engine.turns[-1]) == len(engine.turns[when - 1])
    assert (len(engine.turns), report.replans) == (when, 0), "nothing is left for another turn"
    assert {header.run.run_id for header in history(world.table, 99)} <= {"a", "b"}
    complete(world)


def test_a_run_works_on_no_partition_twice_whatever_is_appended_beside_it() -> None:
    world = shared(4)

    def act(turn: int) -> None:
        assert turn <= 4, "it goes on for as long as rows arrive"
        for day in range(5):
            put_append(world, f"d={day}")
            put_append(world, f"d={day}")

    engine = Turns(world, acts=act)
    merge(world, engine)
    assert sorted(chain.from_iterable(map(set, engine.turns))) == ["d=0", "d=1", "d=2", "d=3"]


def test_all_turns_together_read_no_more_than_max_bytes() -> None:
    world = shared()
    engine = Turns(world)
    report = merge(world, engine, max_bytes=1_000)
    assert (report.counts.bytes_in, report.groups_done) == (900, 3)


def test_a_group_that_fails_fails_the_run_at_its_end_and_is_tried_once() -> None:
    world = shared(4)
    engine = Turns(world, fail={"d=1": "no magic bytes"})
    with pytest.raises(MergeFailedError) as caught:
        merge(world, engine)
    assert (caught.value.report.groups_done, len(caught.value.report.failures)) == (3, 1)
    assert engine.worked.count("d=1") == 1


def test_a_turn_costs_three_listings_and_no_log_file_is_read_twice() -> None:
    """Beside what it merges: the runs of this table read their own log files, and nobody else's."""
    world = shared(8)
    before = world.store.counters.as_dict()
    engine = Turns(world)
    merge(world, engine)
    after = world.store.counters.as_dict()
    lists = after["list"] - before["list"]
    assert len(engine.turns) == 8
    assert (
        lists <= 2 * (len(engine.turns) + 1) + CHECK * len(engine.turns) + FIRST_CHECK - CHECK + 1
    )
