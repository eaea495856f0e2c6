"""Slices by statistics: each reads every row group that has a row of it, and little else."""

from __future__ import annotations

import datetime
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firnline.operations.merge import cutting
from firnline.operations.merge.cutting import (
    PartGroups,
    SlicePlan,
    cut_into_slices,
    share_outputs,
)
from firnline.parquet.footers import RowGroupFacts
from firnline.parquet.stats import from_table
from firnline.types.values import bound_key, canonical
from tests.support.effort import examples

MIB = 2**20
KINDS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "BIGINT": (pa.int64(), st.integers(-5, 5)),
    "VARCHAR": (pa.string(), st.text("ab\U0010ffff", max_size=3).map(lambda t: t * 30)),
    "DATE": (pa.date32(), st.dates()),
    "TIMESTAMP_NS": (pa.timestamp("ns"), st.integers(-(10**6), 10**6)),
}


def part(*bounds: Any, size: int = 10 * MIB, rows: int = 100) -> PartGroups:
    """A part with a row group for each (low, high), (low, high, nulls) or None."""
    groups = [
        RowGroupFacts(rows, size, each if each is None or len(each) == 3 else (*each, 0))
        for each in bounds
    ]
    return PartGroups(size * len(groups), tuple(groups))


def sorted_parts(parts: int, groups: int) -> list[PartGroups]:
    """Parts over one range, each of many row groups in order."""
    return [part(*((n * 100 + at, n * 100 + 99) for n in range(groups))) for at in range(parts)]


def read_by(plans: tuple[SlicePlan, ...], place: int, number: int) -> list[int]:
    """The slices that read a row group."""
    return [
        index
        for index, plan in enumerate(plans)
        for each in plan.reads
        if each.part == place and (each.row_groups is None or number in each.row_groups)
    ]


@pytest.mark.long
@examples(60, 2_000)
@given(data=st.data(), kind=st.sampled_from(sorted(KINDS)), most=st.integers(2, 5))
def test_a_row_group_is_read_by_every_slice_that_has_a_row_of_it(
    data: st.DataObject, kind: str, most: int
) -> None:
    """With nulls, equal values on both sides of a cut, and texts that statistics cut short."""
    arrow, values = KINDS[kind]
    drawn = data.draw(
        st.lists(
            st.lists(st.lists(st.none() | values, min_size=1, max_size=4), max_size=4),
            min_size=1,
            max_size=3,
        )
    )
    parts = [
        PartGroups(
            2 * MIB * len(groups),
            tuple(
                RowGroupFacts(len(rows), 2 * MIB, _bounds(pa.array(rows, arrow))) for rows in groups
            ),
        )
        for groups in drawn
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cutting, "MOST_READS", 1e9)
        plans = cut_into_slices(parts, kind, most)
    if not plans:
        return
    key = bound_key(kind)
    assert key is not None
    cuts = [plan.high for plan in plans[:-1]]
    assert cuts == [plan.low for plan in plans[1:]]
    assert (plans[0].low, plans[-1].high) == (None, None)
    keys = [key(cut) for cut in cuts]
    assert keys == sorted(set(keys))
    for place, groups in enumerate(drawn):
        for number, rows in enumerate(groups):
            reads = read_by(plans, place, number)
            for value in pa.array(rows, arrow):
                at = len(keys)
                if value.is_valid:
                    exact = _key(kind, value)
                    at = sum(one <= exact for one in keys)
                assert at in reads


def _bounds(values: pa.Array) -> Any:
    return from_table(pa.table({"a": values}), ["a"]).get("a")


def _key(kind: str, value: pa.Scalar) -> Any:
    key = bound_key(kind)
    assert key is not None
    if kind == "TIMESTAMP_NS":
        return value.value
    return key(canonical(kind, value.as_py()))


def test_sorted_inputs_of_many_row_groups_are_cut_into_equal_shares() -> None:
    plans = cut_into_slices(sorted_parts(10, 20), "BIGINT", 4)
    assert [plan.low for plan in plans] == [None, 500, 1000, 1500]
    assert [round(plan.share, 2) for plan in plans] == [0.25] * 4
    total = 200 * 10 * MIB
    # Each reads its share and, of the parts that are cut, a row group on either side.
    assert all(plan.bytes <= total / 4 + 10 * 10 * MIB for plan in plans)


def test_parts_that_lie_apart_are_not_read_by_the_slices_beside_them() -> None:
    apart = [part((n * 10, n * 10 + 9)) for n in range(8)]
    plans = cut_into_slices(apart, "BIGINT", 4)
    assert [[each.part for each in plan.reads] for plan in plans] == [
        [0, 1],
        [2, 3],
        [4, 5],
        [6, 7],
    ]
    assert all(each.row_groups is None for plan in plans for each in plan.reads)


def test_inputs_whose_row_groups_all_hold_the_whole_range_are_not_cut() -> None:
    assert cut_into_slices([part((n, 1_000 - n)) for n in range(50)], "BIGINT", 4) == ()


@pytest.mark.parametrize(
    "bounds", [None, (None, None, 100), ("x", "y"), (9, 1), (1, 2), (None, None, 5)]
)
def test_a_group_without_usable_bounds_is_one_task(bounds: Any) -> None:
    assert cut_into_slices([part(bounds)] * 8, "BIGINT", 4) == ()


def test_fewer_slices_are_made_where_more_would_read_too_much() -> None:
    across = [
        part(*((n * 100 + at * 9, n * 100 + at * 9 + 99) for n in range(8))) for at in range(10)
    ]
    plans = cut_into_slices(across, "BIGINT", 8)
    assert 1 < len(plans) < 8
    share = 80 * 10 * MIB / len(plans)
    assert max(plan.bytes for plan in plans) <= cutting.MOST_READS * share


def test_a_row_group_without_bounds_is_read_by_every_slice() -> None:
    parts = [*sorted_parts(10, 20), part(None)]
    plans = cut_into_slices(parts, "BIGINT", 2)
    assert read_by(plans, 10, 0) == [0, 1]


def test_nulls_are_in_the_last_slice() -> None:
    parts = [*sorted_parts(10, 20), part((0, 5, 3), (None, None, 100))]
    plans = cut_into_slices(parts, "BIGINT", 2)
    assert (read_by(plans, 10, 0), read_by(plans, 10, 1)) == ([0, 1], [1])


def test_a_text_without_an_upper_bound_is_read_to_the_end() -> None:
    parts = [part(*((f"{n:02d}", f"{n:02d}z") for n in range(20))), part(("00", None, 0))]
    plans = cut_into_slices(parts, "VARCHAR", 2)
    assert read_by(plans, 1, 0) == [0, 1]


def test_a_small_part_is_read_with_one_get_by_each_slice_that_needs_some_of_it() -> None:
    small = PartGroups(1_000, part((0, 1), (1_990, 1_999), size=500).row_groups)
    plans = cut_into_slices([*sorted_parts(10, 20), small], "BIGINT", 2)
    found = [each for plan in plans for each in plan.reads if each.part == 10]
    assert [each.row_groups for each in found] == [None, None]


def test_the_outputs_of_a_group_are_shared_by_rows() -> None:
    plans = [
        SlicePlan(low=None, high=None, share=share, reads=()) for share in (0.1, 0.2, 0.35, 0.35)
    ]
    assert share_outputs(plans, 8) == [1, 2, 3, 2]
    assert share_outputs(plans, 4) == [1, 1, 1, 1]


def test_cut_points_are_values_in_the_form_of_the_log() -> None:
    day = datetime.date(2026, 1, 1)
    days = [(day + datetime.timedelta(n)).isoformat() for n in range(8)]
    plans = cut_into_slices([part((one, one)) for one in days], "DATE", 2)
    assert [(before.high, after.low) for before, after in pairwise(plans)] == [
        ("2026-01-05", "2026-01-05")
    ]
