"""Tasks of groups: slices where footers or markers tell ranges apart, else one task."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec import structs

from firnline.kernel.task import KernelResult, KeyRange, Slice
from firnline.log.records import stats_json
from firnline.operations.groups import PlannedGroup
from firnline.operations.merge import slices
from firnline.operations.merge.slices import Gathering, GroupTasks, tasks_of
from firnline.parquet.footers import FooterFacts, RowGroupFacts
from firnline.parquet.part import WrittenPart
from tests.support.log_tables import part_key, put_append, snapshot
from tests.support.world import World, make_world

SCHEMA = {"id": "BIGINT", "d": "INTEGER"}


def group_of(world: World, spans: Sequence[tuple[int, int] | None], **changed: Any) -> PlannedGroup:
    """A group of parts with these bounds of ``id``, of 10 rows and 100 bytes each."""
    for _ in spans:
        put_append(world, "d=1", schema=SCHEMA)
    state = snapshot(world)
    d = {"d": (1, 1, 0)}
    parts = [
        marker if span is None else structs.replace(marker, s=stats_json({"id": (*span, 0), **d}))
        for marker, span in zip(state.partitions["d=1"], spans, strict=True)
    ]
    return PlannedGroup("d=1", tuple(parts), **{"slices": 2, "sliced_by": ("id",), **changed})


def found(world: World, group: PlannedGroup) -> GroupTasks:
    state = snapshot(world)
    state = replace(state, parts={**state.parts, **{m.p: m for m in group.parts}})
    (only,) = tasks_of(world.table, state, [group])
    return only


def make() -> World:
    return make_world(partition_by=["d"], sort_by=["id"])


def test_small_parts_are_cut_by_their_markers_without_a_request() -> None:
    world = make()
    group = group_of(world, [(0, 9), (10, 19), (20, 29), (30, 39)])
    before = world.store.counters.get
    state = snapshot(world)
    of_reading = world.store.counters.get - before
    work = found(world, group)
    assert world.store.counters.get - before == 2 * of_reading
    assert state.live.keys() == {m.p for m in group.parts}
    assert [t.slice for t in work.tasks] == [
        Slice(ranges=(KeyRange(column="id", low=low, high=high),))
        for low, high in ((None, "20"), ("20", None))
    ]
    assert [[s.key for s in t.inputs] for t in work.tasks] == [
        [m.p for m in group.parts[:2]],
        [m.p for m in group.parts[2:]],
    ]
    assert work.rows == 40


@pytest.mark.parametrize(("outputs", "made"), [(16, 4), (9, 4), (4, 2), (3, 2)])
def test_slices_leave_as_many_outputs_of_a_z_order_to_each_column(outputs: int, made: int) -> None:
    """Only ``id`` tells the parts apart, and it gets half of the bits of the outputs."""
    zorder = {"columns": ["d", "id"], "method": "zorder"}
    world = make_world(partition_by=["d"], cluster_by=zorder)
    spans = [(n * 10, n * 10 + 9) for n in range(16)]
    changes = {"slices": min(8, outputs), "outputs": outputs, "cluster": "0"}
    work = found(world, group_of(world, spans, sliced_by=("d", "id"), **changes))
    assert len(work.tasks) == made
    clusters = [task.cluster for task in work.tasks]
    assert [each.narrowed for each in clusters if each] == [(0, math.log2(made))] * made
    assert sum(each.outputs for each in clusters if each) == outputs


def test_a_group_with_a_part_that_cannot_be_read_is_one_task() -> None:
    """Its kernel says which part it is."""
    world = make()
    group = group_of(world, [(0, 9), None, (20, 29), (30, 39)])
    work = found(world, group)
    assert [task.slice for task in work.tasks] == [None]
    assert [source.key for source in work.tasks[0].inputs] == [m.p for m in group.parts]


def test_tasks_of_all_groups_are_numbered() -> None:
    world = make()
    split = group_of(world, [(0, 9), (10, 19)])
    whole = PlannedGroup("d=1", split.parts[:1])
    state = snapshot(world)
    state = replace(state, parts={**state.parts, **{m.p: m for m in split.parts}})
    made = list(tasks_of(world.table, state, [whole, split, whole]))
    assert [[task.group for task in each.tasks] for each in made] == [[0], [1, 2], [3]]


def test_bounds_of_a_column_that_a_part_has_by_another_name_count_for_nothing() -> None:
    """After a rename the footer may have bounds of another column of that name."""
    world = make()
    (marker,) = group_of(world, [None]).parts
    both = ((0, 9, 0), (5, 6, 0))
    facts = FooterFacts(key=marker.p, bytes=1, bounds=(RowGroupFacts(10, 100, both),))
    for made_of, bounds in (({}, both), ({"old": ("ID", ("old",))}, (None, (5, 6, 0)))):
        state: Any = SimpleNamespace(
            columns_of=lambda _, made=made_of: SimpleNamespace(made_of=made)
        )
        (group,) = slices._row_groups(state, marker, ("id", "d"), {marker.p: facts})
        assert group.bounds == bounds


def written(world: World) -> WrittenPart:
    return WrittenPart(key=part_key(world), partition="d=1", bytes=1, rows=20, stats={})


@pytest.mark.parametrize("rows", [19, 20, 21])
def test_a_group_is_complete_with_its_last_slice_and_only_with_all_of_its_rows(rows: int) -> None:
    world = make()
    work = found(world, group_of(world, [(0, 9), (10, 19), (20, 29), (30, 39)]))
    parts = [written(world), written(world)]
    with Gathering(world.table, [work]) as gathering:
        last = KernelResult(group=1, parts=(parts[1],), rows_in=rows)
        assert gathering.add(last) is None
        done = gathering.add(KernelResult(group=0, parts=(parts[0],), rows_in=20))
    assert done is not None
    group, whole = done
    assert group == work.group
    there = [part.key in world.store.objects for part in parts]
    if rows == 20:
        assert (whole.error, whole.parts, whole.rows_in) == (None, tuple(parts), 40)
        assert there == [True, True]
    else:
        assert whole.error_type == "RowCountMismatchError"
        assert there == [False, False]


def test_outputs_of_a_group_that_is_not_complete_go_with_the_run() -> None:
    world = make()
    work = found(world, group_of(world, [(0, 9), (10, 19)]))
    part = written(world)

    def stopped() -> None:
        with Gathering(world.table, [work]) as gathering:
            gathering.add(KernelResult(group=0, parts=(part,), rows_in=20))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stopped()
    assert part.key not in world.store.objects
