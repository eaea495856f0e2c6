"""Finished partitions: without an append for ``finish_after`` they have the fewest parts, once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firnline.commit.base import take_base
from firnline.commit.transaction import Change, commit
from firnline.log.records import Marker
from firnline.log.txn_file import Counts, RunIdentity
from firnline.operations.merge.finishing import FEWEST
from firnline.operations.merge.plan import MergePlan, plan_merge
from tests.support.effort import examples
from tests.support.log_tables import merge_change, part_key, put_append, snapshot
from tests.support.world import World, make_world

MIB = 2**20
HOUR, DAY = 3_600_000, 86_400_000
TARGET = 64
WAITS = "waits until 4 parts of about its size are there, or no append for 2d"


def plan(world: World, **options: object) -> MergePlan:
    return plan_merge(snapshot(world), world.settings, world.clock.now, **options)  # type: ignore[arg-type]  # passed through


def world_of(sizes: list[int], *, primary_key: Sequence[str] = (), **merge: object) -> World:
    rules = {"target_size": f"{TARGET}MiB", "finish_after": "2d", **merge}
    world = make_world(primary_key=primary_key, merge=rules)
    for size in sizes:
        put_append(world, size=size * MIB)
    return world


def carry_out(world: World, made: MergePlan) -> int:
    """Replace every group by one part of the sum of its sizes and rows; return the bytes."""
    for group in made.groups:
        base = take_base(world.table)
        change = merge_change(world, [m.p for m in group.parts], base)
        adds = (msgspec.structs.replace(change.adds[0], b=group.bytes),)
        commit(world.table, base, replace(change, adds=adds), RunIdentity())
    return made.bytes_in


def sizes(world: World) -> list[int]:
    parts = sorted(snapshot(world).live.values(), key=lambda m: m.order())
    return [m.b // MIB for m in parts]


def test_a_partition_that_gets_no_more_appends_is_brought_to_one_part_once() -> None:
    world = world_of([9, 1, 2])
    world.clock.advance(2 * DAY - 1)
    assert plan(world).reasons == {WAITS: 3}
    world.clock.advance(1)
    made = plan(world)
    assert [len(g.parts) for g in made.groups] == [3]
    assert made.next_due is None
    carry_out(world, made)
    for _ in range(3):
        again = plan(world)
        assert (again.groups, again.reasons, again.next_due) == ((), {FEWEST: 1}, None)
        world.clock.advance(30 * DAY)


def test_only_the_finished_partitions_are_brought_to_the_fewest_parts() -> None:
    world = world_of([3, 2])
    world.clock.advance(2 * DAY)
    put_append(world, "d=2", size=MIB)
    put_append(world, "d=2", size=MIB)
    made = plan(world)
    assert [(g.partition, len(g.parts)) for g in made.groups] == [("d=1", 2)]
    assert made.reasons == {WAITS: 2}
    assert made.next_due == world.clock.now + 2 * DAY


def test_late_rows_start_the_time_anew_and_merges_do_not() -> None:
    world = world_of([1] * 4)
    world.clock.advance(DAY)
    carry_out(world, plan(world))
    world.clock.advance(DAY // 2)
    put_append(world, size=MIB)
    world.clock.advance(2 * DAY - 1)
    assert plan(world).nothing_to_do
    assert plan(world).next_due == world.clock.now + 1
    world.clock.advance(1)
    carry_out(world, plan(world))
    assert sizes(world) == [5]


def test_rows_after_the_finish_wait_for_as_long_as_the_partition_was_old() -> None:
    world = world_of([9, 1])
    began = min(m.t for m in snapshot(world).live.values())
    world.clock.advance(2 * DAY)
    carry_out(world, plan(world))
    world.clock.advance(8 * DAY)
    put_append(world, size=MIB)
    age = world.clock.now - began
    world.clock.advance(2 * DAY)
    made = plan(world)
    assert made.nothing_to_do
    assert made.next_due == began + 2 * age
    world.clock.now = began + 2 * age - 1
    assert plan(world).nothing_to_do
    world.clock.advance(1)
    carry_out(world, plan(world))
    assert sizes(world) == [11]


@pytest.mark.long
@examples(20, 500)
@given(st.lists(st.integers(1, 20 * 24), min_size=1, max_size=25))
def test_rows_that_trickle_in_cost_a_logarithm_of_rewrites(gaps: list[int]) -> None:
    world = world_of([30, 20])
    began, written = world.clock.now, 0
    for gap in gaps:
        until = world.clock.now + gap * HOUR
        while world.clock.now < until:
            made = plan(world)
            written += carry_out(world, made) >= 30 * MIB
            world.clock.now = min(until, until if made.next_due is None else made.next_due)
        put_append(world, size=1)
    age = (world.clock.now - began) / (2 * DAY)
    assert written <= 2 + math.log2(max(age, 1))


def test_without_finish_after_small_parts_wait_for_ever() -> None:
    world = world_of([3, 2], finish_after=None)
    world.clock.advance(3650 * DAY)
    made = plan(world)
    assert made.reasons == {"waits until 4 parts of about its size are there": 2}
    assert made.next_due is None


def test_a_full_part_takes_in_what_is_left_if_both_fit() -> None:
    world = world_of([50, 3, 2])
    world.clock.advance(2 * DAY)
    carry_out(world, plan(world))
    assert sizes(world) == [55]
    full = world_of([62, 3, 2])
    full.clock.advance(2 * DAY)
    carry_out(full, plan(full))
    assert sizes(full) == [62, 5]


@given(st.lists(st.integers(1, 80), max_size=30))
def test_no_two_parts_of_a_finished_partition_fit_together_and_then_nothing_is_due(
    parts: list[int],
) -> None:
    world = world_of(parts)
    world.clock.advance(2 * DAY)
    made = plan(world)
    assert all(g.bytes <= TARGET * MIB and len(g.parts) > 1 for g in made.groups)
    carry_out(world, made)
    left = sorted(sizes(world))
    assert sum(left[:2]) > TARGET or len(left) < 2
    after = plan(world)
    assert after.nothing_to_do
    assert set(after.reasons) <= {FEWEST}


@pytest.mark.long
@given(st.lists(st.integers(1, 80), max_size=30))
def test_with_a_primary_key_no_two_neighbours_fit_together(parts: list[int]) -> None:
    world = world_of(parts, primary_key=["v"])
    world.clock.advance(2 * DAY)
    carry_out(world, plan(world))
    assert all(a + b > TARGET for a, b in pairwise(sizes(world)))
    assert plan(world).nothing_to_do


def test_parts_of_one_append_of_a_primary_key_are_not_put_into_one_beyond_the_target() -> None:
    world = make_world(primary_key=["v"], merge={"target_size": "64MiB", "finish_after": "2d"})
    base = take_base(world.table)
    at = world.clock.now
    adds = tuple(Marker(p=part_key(world), b=60 * MIB, t=0, n=1, q=0, o=(at, at)) for _ in range(3))
    counts = Counts(parts_out=3, rows_out=3, rows_added=3)
    change = Change(op="merge", replaces=(), adds=adds, counts=counts)
    commit(world.table, base, change, RunIdentity())
    world.clock.advance(2 * DAY)
    assert plan(world).reasons == {FEWEST: 3}


def test_a_full_merge_waits_neither_for_parts_nor_for_time_but_keeps_to_its_bytes() -> None:
    world = world_of([9, 1], settle="1h")
    put_append(world, "d=2", size=MIB)
    put_append(world, "d=2", size=MIB)
    assert plan(world).nothing_to_do
    assert plan(world).next_due is not None
    assert {g.partition for g in plan(world, full=True).groups} == {"d=1", "d=2"}
    assert {g.partition for g in plan(world, full=True, partitions=["d=1"]).groups} == {"d=1"}
    bounded = plan(world, full=True, max_bytes=5 * MIB)
    assert [g.partition for g in bounded.groups] == ["d=2"]
    carry_out(world, plan(world, full=True))
    assert plan(world, full=True).reasons == {FEWEST: 2}


def test_what_is_not_settled_is_planned_when_it_is() -> None:
    world = world_of([1] * 4, settle="1h", finish_after=None)
    made = plan(world)
    assert made.next_due == min(m.t for m in snapshot(world).live.values()) + HOUR
    world.clock.now = made.next_due or 0
    assert plan(world).reasons == {"is younger than settle": 3, WAITS.partition(",")[0]: 1}


def test_a_part_that_could_not_be_read_stays_while_the_others_are_finished() -> None:
    world = world_of([3, 2, 1])
    world.clock.advance(2 * DAY)
    bad = next(iter(snapshot(world).live))
    made = plan(world, excluded=frozenset({bad}))
    assert bad not in {m.p for g in made.groups for m in g.parts}
    assert made.parts_in == 2
    assert made.reasons == {"could not be read earlier in this run": 1}


def test_a_part_is_full_by_its_rows_too() -> None:
    world = make_world(merge={"target_size": "64MiB", "target_rows": 10_000, "finish_after": None})
    for rows in [9_000, *[2_000] * 12]:
        put_append(world, size=MIB, rows=rows)
    made = plan(world)
    assert [sum(m.n or 0 for m in g.parts) for g in made.groups] == [10_000, 10_000]
    assert made.reasons == {
        "is large enough (3/4 of target_size)": 1,
        "waits until 4 parts of about its size are there": 2,
    }


@pytest.mark.parametrize(("size", "rows"), [("64MiB", 10**9), ("10GiB", 4_096)])
def test_whichever_bound_is_reached_first_counts(size: str, rows: int) -> None:
    world = make_world(merge={"target_size": size, "target_rows": rows, "finish_after": None})
    for _ in range(8):
        put_append(world, size=16 * MIB, rows=1_024)
    assert [len(g.parts) for g in plan(world).groups] == [4, 4]


@pytest.mark.parametrize("method", ["range", "hash"])
def test_a_finished_clustered_partition_has_one_run(method: str) -> None:
    cluster = {"columns": ["v"], "method": method}
    world = make_world(
        partition_by=["d"],
        cluster_by=cluster,
        merge={"target_size": "16MiB", "finish_after": "2d"},
    )
    for _ in range(3):
        put_append(world, size=9 * MIB, schema={"v": "INTEGER", "d": "INTEGER"})
    assert plan(world).nothing_to_do
    assert plan(world).next_due == world.clock.now + 2 * DAY
    world.clock.advance(2 * DAY)
    (group,) = plan(world).groups
    assert (len(group.parts), group.outputs) == (3, 2)
    base = take_base(world.table)
    change = merge_change(world, [m.p for m in group.parts], base)
    run = f"{group.cluster}-x"
    adds = tuple(
        msgspec.structs.replace(change.adds[0], p=part_key(world), b=13 * MIB, n=15, c=run)
        for _ in range(2)
    )
    counts = msgspec.structs.replace(change.counts, parts_out=2)
    commit(world.table, base, replace(change, adds=adds, counts=counts), RunIdentity())
    assert plan(world).reasons == {FEWEST: 2}
    assert plan(world).next_due is None
