"""Groups above ``merge.split_above``: planned as several tasks, and not merged again after that."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firnline.kernel.task import KernelResult
from firnline.log.records import Marker
from firnline.operations.groups import SPLIT_MARK, PlannedGroup
from firnline.operations.kernel_tasks import change_of
from firnline.operations.merge.plan import MergePlan, plan_merge
from firnline.operations.merge.splits import MOST_TASKS, slicing_columns
from firnline.parquet.part import WrittenPart
from firnline.settings.load import TableSettings
from tests.support.log_tables import put_append, snapshot
from tests.support.world import make_world

MIB = 2**20
SCHEMA = {"id": "BIGINT", "other": "BIGINT", "x": "DOUBLE", "t": "VARCHAR", "d": "INTEGER"}


def zorder(*columns: str) -> dict[str, Any]:
    return {"columns": list(columns), "method": "zorder"}


@dataclass
class Model:
    """A table of markers, whose groups become parts of the same bytes."""

    settings: dict[str, Any] = field(default_factory=dict)
    parts: dict[str, Marker] = field(default_factory=dict)
    count: int = 0

    def __post_init__(self) -> None:
        merge = {"target_size": "64MiB", "split_above": "16MiB", "finish_after": None}
        given = {"sort_by": ["id"], **self.settings}
        given["merge"] = {**merge, **given.get("merge", {})}
        self.world = make_world(partition_by=["d"], **given)
        put_append(self.world, "d=1", schema=SCHEMA)
        self.state = snapshot(self.world)

    def name(self) -> str:
        self.count += 1
        return f"t/_data/d=1/{self.count:06d}.parquet"

    def append(self, *sizes: int) -> None:
        for size in sizes:
            marker = Marker(p=self.name(), b=size, t=self.count, n=size, q=0)
            self.parts[marker.p] = marker

    def plan(self, **options: Any) -> MergePlan:
        state = replace(self.state, parts=self.parts)
        return plan_merge(state, self.world.settings, 10**6, **options)

    def apply(self, group: PlannedGroup) -> list[Marker]:
        """A part for each slice."""
        written = tuple(
            WrittenPart(
                key=self.name(),
                partition="d=1",
                bytes=group.bytes // group.slices,
                rows=group.bytes // group.slices,
                stats={},
            )
            for _ in range(group.slices)
        )
        change = change_of(self.state, [(group, KernelResult(group=0, parts=written))])
        for key in change.replaces:
            del self.parts[key]
        self.parts |= {m.p: m for m in change.adds}
        return list(change.adds)


def test_a_group_above_the_limit_is_as_many_tasks_as_it_has_shares_of_it() -> None:
    model = Model()
    model.append(*[10 * MIB] * 5)
    plan = model.plan()
    (group,) = plan.groups
    assert (group.slices, group.sliced_by, group.outputs) == (4, ("id",), 4)
    assert (plan.tasks, plan.parts_out) == (4, 4)
    assert plan.to_json()["groups"][0]["tasks"] == 4


def test_a_group_at_the_limit_is_one_task() -> None:
    model = Model()
    model.append(*[4 * MIB] * 4)
    (group,) = model.plan().groups
    assert (group.slices, group.sliced_by, group.outputs) == (1, (), 1)


def test_by_default_a_sorted_group_is_one_task_and_a_clustered_one_is_two_targets_each() -> None:
    model = Model({"merge": {"split_above": None}})
    model.append(*[10 * MIB] * 6)
    assert [group.slices for group in model.plan().groups] == [1]
    clustered = Model({"cluster_by": ["id"], "merge": {"split_above": None}})
    clustered.append(*[40 * MIB] * 10)
    (group,) = clustered.plan().groups
    assert (group.slices, group.outputs) == (4, 6)


def test_no_group_is_more_tasks_than_can_be_kept_apart() -> None:
    model = Model({"merge": {"target_size": "4GiB", "split_above": "1MiB"}})
    model.append(*[100 * MIB] * 5)
    assert model.plan().groups[0].slices == MOST_TASKS


@given(
    st.lists(st.integers(1, 70 * MIB), max_size=20),
    st.sampled_from([{}, {"primary_key": ["id"]}]),
    st.booleans(),
)
def test_after_a_run_there_is_nothing_left_to_do(
    sizes: list[int], settings: dict[str, Any], full: bool
) -> None:
    """The parts of a split group count as the one that they would have been."""
    model = Model(settings)
    model.append(*sizes)
    before = sum(sizes)
    for group in model.plan(full=full).groups:
        model.apply(group)
    assert model.plan(full=full).nothing_to_do
    assert sum(m.b for m in model.parts.values()) > before - 64 * len(sizes) - 64


def test_a_split_group_is_merged_as_one_once_enough_has_come() -> None:
    model = Model()
    model.append(*[5 * MIB] * 4)
    (group,) = model.plan().groups
    made = model.apply(group)
    assert len(made) == 2
    assert {m.c for m in made} == {f"{SPLIT_MARK}-000005"}
    model.append(*[5 * MIB] * 2)
    assert model.plan().nothing_to_do  # three of about its size: the split group and two more
    model.append(5 * MIB)
    (group,) = model.plan().groups
    assert len(group.parts) == 5
    assert {m.c for m in model.apply(group)} == {f"{SPLIT_MARK}-000010"}


def test_a_full_split_group_is_left_alone_with_the_reason_of_a_full_part() -> None:
    model = Model()
    model.append(*[13 * MIB] * 4)
    (group,) = model.plan().groups
    model.apply(group)
    assert model.plan().reasons == {"is large enough (3/4 of target_size)": 4}


def test_what_is_merged_by_one_task_belongs_to_no_split_group() -> None:
    model = Model()
    model.append(*[10 * MIB] * 2)
    parts = tuple(model.parts.values())
    group = PlannedGroup("d=1", parts, outputs=2, slices=2, sliced_by=("id",))
    one = WrittenPart(key=model.name(), partition="d=1", bytes=1, rows=1, stats={})
    change = change_of(model.state, [(group, KernelResult(group=0, parts=(one,)))])
    assert [m.c for m in change.adds] == [None]


@pytest.mark.parametrize(
    ("settings", "columns"),
    [
        ({"sort_by": ["t", "id"]}, ("t",)),
        ({"sort_by": ["id desc"]}, ("id",)),
        ({}, ()),
        ({"sort_by": ["x", "id"]}, ()),
        ({"sort_by": ["id"], "cluster_by": ["other", "t"]}, ("other",)),
        ({"sort_by": ["other"], "cluster_by": zorder("id", "t")}, ("id", "t")),
        ({"cluster_by": zorder("x", "t", "gone")}, ("t",)),
        ({"cluster_by": zorder("id", "t"), "merge": {"sql": "FROM source_files"}}, ()),
        ({"cluster_by": {"columns": ["id"], "method": "hash"}}, ()),
        ({"sort_by": ["id"], "primary_key": ["t", "id"]}, ("id",)),
        ({"sort_by": ["other"], "primary_key": ["id"]}, ()),
        ({"sort_by": ["id"], "merge": {"sql": "FROM source_files"}}, ()),
    ],
)
def test_a_group_is_cut_by_the_columns_of_its_order_that_keep_rows_right(
    settings: dict[str, Any], columns: tuple[str, ...]
) -> None:
    """By the first, or of a z-order by all.

    No bounds hold for NaN; rows of one key stay together; a query may look at all rows.
    """
    given = TableSettings.model_validate({"name": "t", "root": "memory://b/t", **settings})
    assert slicing_columns(given, SCHEMA) == columns
