"""The plan of a clustered table: overlapping runs meet, what is in order stays, and it ends."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firnline.errors import UsageError
from firnline.log.records import NO_STATS, Marker, stats_json
from firnline.operations.merge.clusters import IN_ORDER, LARGE, outputs_of
from firnline.operations.merge.plan import MergePlan, plan_merge
from tests.support.effort import examples
from tests.support.log_tables import put_append, snapshot
from tests.support.world import make_world

MIB = 2**20
TARGET = 16
"""Rows of a full part; each is a MiB."""
RUN = 8 * TARGET


@dataclass
class Model:
    """A table whose parts are lists of keys."""

    method: str = "range"
    target: int = TARGET
    parts: dict[str, tuple[Marker, list[int]]] = field(default_factory=dict)
    written: int = 0
    """Rows that merges wrote."""
    count: int = 0

    def __post_init__(self) -> None:
        columns = ["v", "w"] if self.method == "zorder" else ["v"]
        cluster = {"columns": columns, "method": self.method}
        merge = {"target_size": f"{self.target}MiB", "finish_after": None}
        self.world = make_world(partition_by=["d"], cluster_by=cluster, merge=merge)
        put_append(self.world, "d=1", schema={"v": "INTEGER", "w": "INTEGER", "d": "INTEGER"})
        self.state = snapshot(self.world)

    def append(self, keys: Sequence[int], run: str | None = None, *, stats: bool = True) -> str:
        self.count += 1
        name = f"t/_data/d=1/{self.count:06d}.parquet"
        ordered = sorted(keys)
        known = stats_json({"v": (ordered[0], ordered[-1], 0)}) if stats else NO_STATS
        marker = Marker(p=name, b=len(keys) * MIB, t=self.count, n=len(keys), q=0, s=known, c=run)
        self.parts[name] = (marker, ordered)
        return name

    def plan(self) -> MergePlan:
        state = replace(self.state, parts={p: marker for p, (marker, _) in self.parts.items()})
        return plan_merge(state, self.world.settings, self.world.clock.now)

    def carry_out(self, plan: MergePlan) -> None:
        for group in plan.groups:
            keys = sorted(key for m in group.parts for key in self.parts[m.p][1])
            runs = {m.c for m in group.parts}
            run = runs.pop() if len(runs) == 1 else None
            for marker in group.parts:
                del self.parts[marker.p]
            run = run or f"{group.cluster}-{self.count}"
            size = -(-len(keys) // group.outputs)
            for start in range(0, len(keys), size):
                self.append(keys[start : start + size], run)
            self.written += len(keys)

    def depth(self) -> int:
        """Parts, at most, in which one key may be."""
        spans = [(keys[0], keys[-1]) for _, keys in self.parts.values()]
        return max(sum(low <= at <= high for low, high in spans) for at, _ in spans)


def test_runs_of_about_one_size_are_merged_into_parts_of_the_target() -> None:
    model = Model()
    for first in range(8):
        model.append(range(first, 64 * 8, 8 * 8))
    (group,) = model.plan().groups
    assert (len(group.parts), group.outputs) == (8, 4)
    model.carry_out(model.plan())
    assert model.depth() == 1
    assert model.plan().nothing_to_do


def test_fewer_runs_wait() -> None:
    model = Model()
    for _ in range(3):
        model.append(range(8))
    assert model.plan().reasons == {"waits until 4 runs of about its size are there": 3}


def test_what_overlaps_nothing_stays_and_nothing_comes_to_lie_across_it() -> None:
    model = Model()
    model.append(range(100, 116))  # full, and alone in its interval
    for at in (0, 8, 200, 208):
        model.append(range(at, at + 10))
    plan = model.plan()
    assert plan.reasons == {IN_ORDER: 1}
    spans = sorted((min(k), max(k)) for g in plan.groups for k in [keys_of(model, g.parts)])
    assert spans == [(0, 17), (200, 217)]
    model.carry_out(plan)
    assert model.plan().nothing_to_do
    assert model.depth() == 1


def keys_of(model: Model, parts: Sequence[Marker]) -> list[int]:
    return [key for m in parts for key in model.parts[m.p][1]]


def test_without_statistics_nothing_is_spared() -> None:
    model = Model()
    for at in range(4):
        model.append(range(at * 100, at * 100 + 16), stats=at != 2)
    (group,) = model.plan().groups
    assert len(group.parts) == 4


def test_a_run_that_is_large_enough_stays() -> None:
    model = Model()
    for at in range(8):
        model.append(range(at * 16, at * 16 + 16), f"{mark(model)}-a")
    for _ in range(4):
        model.append(range(128))
    plan = model.plan()
    assert plan.reasons == {LARGE: 8 + 4}
    assert plan.nothing_to_do


def mark(model: Model) -> str:
    assert model.world.settings.cluster_by is not None
    return model.world.settings.cluster_by.mark


def test_what_was_clustered_by_other_columns_is_clustered_again() -> None:
    model = Model()
    for _ in range(4):
        model.append(range(0, 64, 4), "deadbeef-a")
    (group,) = model.plan().groups
    assert len(group.parts) == 4


def test_parts_of_one_run_are_one() -> None:
    model = Model("hash")
    for at in range(4):
        model.append(range(at * 16, at * 16 + 16), f"{mark(model)}-a")
    assert model.plan().nothing_to_do


@given(st.integers(1, 10_000), st.integers(1, 100))
def test_outputs_are_near_the_target(size: int, target: int) -> None:
    count = outputs_of(size, target)
    assert count == 1 or 0.6 * target <= size / count <= 1.6 * target + 1


def test_a_column_without_order_is_refused() -> None:
    world = make_world(cluster_by=["v"])
    put_append(world, schema={"v": "INTEGER[]"})
    with pytest.raises(UsageError, match="cannot be clustered by 'v'"):
        plan_merge(snapshot(world), world.settings, world.clock.now)


def test_a_column_that_is_not_there_is_named() -> None:
    world = make_world(cluster_by=["nobody"])
    put_append(world)
    with pytest.raises(UsageError, match="no column 'nobody'"):
        plan_merge(snapshot(world), world.settings, world.clock.now)


arrivals = st.lists(st.lists(st.integers(0, 500), min_size=1, max_size=30), min_size=1, max_size=40)


@examples(25, 1_000)
@given(arrivals, st.sampled_from(["range", "zorder", "hash"]), st.integers(1, 9))
def test_after_a_run_there_is_nothing_left_to_do_and_no_row_is_lost(
    batches: list[list[int]], method: str, every: int
) -> None:
    model = Model(method)
    for number, batch in enumerate(batches):
        model.append(batch)
        if number % every == 0:
            model.carry_out(model.plan())
            assert model.plan().nothing_to_do
    rows = Counter(key for _, keys in model.parts.values() for key in keys)
    assert rows == Counter(key for batch in batches for key in batch)


def uniform(chance: random.Random, _: int) -> list[int]:
    return [chance.randrange(10**6) for _ in range(chance.randint(1, 6))]


def in_time_and_late(chance: random.Random, number: int) -> list[int]:
    late = 10**5 if chance.random() < 0.05 else 300
    return [max(0, number * 100 - chance.randrange(late)) for _ in range(chance.randint(1, 6))]


@pytest.mark.long
@pytest.mark.parametrize("method", ["range", "hash"])
@pytest.mark.parametrize("arrive", [uniform, in_time_and_late])
def test_a_row_is_rewritten_at_most_a_logarithm_of_times(arrive: Any, method: str) -> None:
    chance, model, rows = random.Random(6), Model(method, target=64), 0
    for number in range(1_500):
        keys = arrive(chance, number)
        model.append(keys)
        rows += len(keys)
        if number % 4 == 3:
            model.carry_out(model.plan())
    run, floor = 8 * 64, 1
    assert model.written / rows <= math.log(run / floor, 1.5)
    assert model.written / rows <= 6  # in fact about log4
    runs = {marker.c or name for name, (marker, _) in model.parts.items()}
    assert len(runs) <= rows / (run * 3 / 4) + 3 * math.log(run / floor, 4) + 4
