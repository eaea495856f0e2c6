"""The plan of a merge: bounded, explained, and empty once it was carried out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firnline.commit.base import take_base
from firnline.commit.transaction import commit
from firnline.errors import UsageError
from firnline.log.txn_file import RunIdentity
from firnline.operations.merge.plan import MergePlan, plan_merge
from firnline.state.snapshot import Snapshot
from tests.support.log_tables import do_merge, merge_change, put_append, snapshot
from tests.support.world import World, make_world

MIB = 1024 * 1024


def plan(world: World, **options: object) -> MergePlan:
    return plan_merge(snapshot(world), world.settings, world.clock.now, **options)  # type: ignore[arg-type]  # passed through


def world_of(sizes: list[int], *, primary_key: Sequence[str] = (), **merge: object) -> World:
    world = make_world(primary_key=primary_key, merge={"target_size": "64MiB", **merge})
    for size in sizes:
        put_append(world, size=size)
    return world


def test_small_parts_of_a_partition_become_one_group() -> None:
    world = world_of([MIB] * 5)
    put_append(world, "d=2", size=MIB)
    made = plan(world)
    assert [(g.partition, len(g.parts)) for g in made.groups] == [("d=1", 5)]
    assert made.reasons == {
        "waits until 4 parts of about its size are there, or no append for 2d": 1
    }


def test_every_live_part_is_either_in_a_group_or_has_a_reason() -> None:
    world = world_of([MIB, 50 * MIB, 20 * MIB, MIB, MIB, MIB, 3 * MIB])
    made = plan(world)
    live = snapshot(world).live
    left = [m.b for m in live.values() if m.p not in {m.p for g in made.groups for m in g.parts}]
    assert made.parts_in + len(left) == len(live)
    assert sum(each.parts for each in made.left_alone) == len(left)
    assert sum(each.bytes for each in made.left_alone) == sum(left)


def test_a_large_part_says_why_it_is_left_alone() -> None:
    assert plan(world_of([50 * MIB])).reasons == {"is large enough (3/4 of target_size)": 1}


def test_parts_of_a_group_stand_in_insertion_order() -> None:
    world = world_of([4 * MIB, 3 * MIB, 2 * MIB, MIB])
    (group,) = plan(world).groups
    orders = [m.order() for m in group.parts]
    assert orders == sorted(orders)


@given(st.lists(st.integers(1, 70 * MIB), max_size=25), st.integers(1, 200 * MIB))
def test_a_plan_keeps_to_its_bounds(sizes: list[int], max_bytes: int) -> None:
    world = world_of(sizes)
    made = plan(world, max_bytes=max_bytes)
    assert made.bytes_in <= max_bytes
    assert all(g.bytes <= 64 * MIB for g in made.groups)
    assert all(len(g.parts) >= 2 for g in made.groups)
    keys = [m.p for g in made.groups for m in g.parts]
    assert len(keys) == len(set(keys))


@given(st.lists(st.integers(1, 70 * MIB), max_size=25))
def test_after_a_run_there_is_nothing_left_to_do(sizes: list[int]) -> None:
    world = world_of(sizes)
    carry_out(world, plan(world))
    assert plan(world).nothing_to_do


@pytest.mark.long
@given(st.lists(st.integers(1, 70 * MIB), max_size=20))
def test_with_a_primary_key_runs_come_to_an_end_as_well(sizes: list[int]) -> None:
    world = world_of(sizes, primary_key=["v"])
    rounds = 0
    while not (made := plan(world)).nothing_to_do:
        carry_out(world, made)
        rounds += 1
    # What one round leaves below full can be worth another with its neighbours.
    assert rounds <= 3


def carry_out(world: World, made: MergePlan) -> None:
    """Replace every group by one part of the sum of its sizes."""
    for group in made.groups:
        base = take_base(world.table)
        change = merge_change(world, [m.p for m in group.parts], base)
        adds = (msgspec.structs.replace(change.adds[0], b=group.bytes),)
        commit(world.table, base, replace(change, adds=adds), RunIdentity())


def test_unsettled_parts_wait_unless_there_are_too_many() -> None:
    world = world_of([MIB] * 5, settle="1h", settle_max_parts=5)
    assert plan(world).reasons == {"is younger than settle": 5}
    put_append(world, size=MIB)
    assert plan(world).parts_in == 6
    world.clock.advance(3_600_001)
    assert plan(world).parts_in == 6


def test_globs_choose_partitions_and_a_glob_without_any_is_an_error() -> None:
    world = world_of([MIB] * 4)
    for _ in range(4):
        put_append(world, "d=2", size=MIB)
    assert [g.partition for g in plan(world, partitions=["d=2"]).groups] == ["d=2"]
    assert len(plan(world, partitions=["d=*"]).groups) == 2
    with pytest.raises(UsageError, match=r"d=9.*d=1, d=2"):
        plan(world, partitions=["d=9"])


@pytest.mark.parametrize(
    ("order", "first"), [("fragmented", "d=2"), ("recent", "d=3"), ("oldest", "d=1")]
)
def test_the_order_says_which_groups_come_first(order: str, first: str) -> None:
    world = make_world(merge={"target_size": "64MiB", "order": order})
    for partition, count, size in [("d=1", 4, 2 * MIB), ("d=2", 9, MIB), ("d=3", 4, 3 * MIB)]:
        for _ in range(count):
            put_append(world, partition, size=size)
    assert plan(world).groups[0].partition == first


def test_with_a_primary_key_groups_are_contiguous_in_insertion_order() -> None:
    world = make_world(primary_key=["v"], merge={"target_size": "64MiB"})
    for size in [MIB] * 4 + [60 * MIB] + [MIB] * 4:
        put_append(world, size=size)
    groups = plan(world).groups
    assert [len(g.parts) for g in groups] == [4, 4]
    spans = sorted((g.parts[0].order()[0], g.parts[-1].order()[1]) for g in groups)
    assert spans[0][1] < spans[1][0]


def test_a_sort_column_that_the_table_does_not_have_is_an_error() -> None:
    world = make_world(sort_by=["nope"])
    put_append(world)
    with pytest.raises(UsageError, match=r"nope.*columns are ts, v"):
        plan(world)


def test_requests_are_one_get_per_part_and_a_few() -> None:
    world = world_of([MIB] * 7)
    assert plan(world).requests == 7 + 1 + 10
    do_merge(world, list(snapshot(world).live))
    assert plan(world).requests == 0


def test_a_plan_is_pure() -> None:
    world = world_of([MIB] * 7)
    state: Snapshot = snapshot(world)
    before = dict(world.store.objects)
    one = plan_merge(state, world.settings, world.clock.now)
    assert one == plan_merge(state, world.settings, world.clock.now)
    assert world.store.objects == before
    assert one.to_json()["parts_in"] == 7
