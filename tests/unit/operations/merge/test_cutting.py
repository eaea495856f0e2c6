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
    """A part with a row group for each (low, high), (low, high, nulls) or None of one column."""
    return boxes(*((each,) for each in bounds), size=size, rows=rows)


def boxes(*bounds: tuple[Any, ...], size: int = 10 * MIB, rows: int = 100) -> PartGroups:
    """A part with a row group for each tuple of such bounds of several columns."""
    groups = [
        RowGroupFacts(
            rows,
            size,
            tuple(one if one is None or len(one) == 3 else (*one, 0) for one in each),
        )
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


Rows = list[tuple[Any, ...]]


@st.composite
def row_groups(draw: st.DrawFn, kinds: list[str]) -> list[list[Rows]]:
    """One to three parts of up to four row groups, whose rows have a value of each kind or none."""
    row = st.tuples(*(st.none() | KINDS[kind][1] for kind in kinds))
    of_part = st.lists(st.lists(row, min_size=1, max_size=4), max_size=4)
    return draw(st.lists(of_part, min_size=1, max_size=3))


@pytest.mark.long
@examples(60, 2_000)
@given(
    data=st.data(),
    kinds=st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=3),
    most=st.integers(2, 6),
    halvings=st.none() | st.integers(1, 2),
)
def test_every_row_is_in_one_slice_which_reads_its_row_group(
    data: st.DataObject, kinds: list[str], most: int, halvings: int | None
) -> None:
    """With nulls, equal values on both sides of a cut, and texts that statistics cut short."""
    drawn = data.draw(row_groups(kinds))
    parts = [
        PartGroups(
            2 * MIB * len(groups),
            tuple(RowGroupFacts(len(rows), 2 * MIB, _all_bounds(kinds, rows)) for rows in groups),
        )
        for groups in drawn
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cutting, "MOST_READS", 1e9)
        plans = cut_into_slices(parts, kinds, most, halvings)
    assert len(plans) != 1
    assert len(plans) <= most
    for place, groups in enumerate(drawn):
        for number, rows in enumerate(groups):
            for row in rows:
                inside = [at for at, plan in enumerate(plans) if _is_in(plan, kinds, row)]
                assert len(inside) == bool(plans)
                assert set(inside) <= set(read_by(plans, place, number))


def _all_bounds(kinds: list[str], rows: Rows) -> tuple[Any, ...]:
    columns = zip(kinds, zip(*rows, strict=True), strict=True)
    return tuple(_bounds(pa.array(values, KINDS[kind][0])) for kind, values in columns)


def _is_in(plan: SlicePlan, kinds: list[str], row: tuple[Any, ...]) -> bool:
    """Return True if a row is in all ranges of a slice; nulls are at the end of each column."""
    for kind, value, low, high in zip(kinds, row, plan.low, plan.high, strict=True):
        key = bound_key(kind)
        assert key is not None
        if value is None:
            if high is not None:
                return False
            continue
        exact = _key(kind, pa.scalar(value, KINDS[kind][0]))
        if (low is not None and exact < key(low)) or (high is not None and exact >= key(high)):
            return False
    return True


def _bounds(values: pa.Array) -> Any:
    return from_table(pa.table({"a": values}), ["a"]).get("a")


def _key(kind: str, value: pa.Scalar) -> Any:
    key = bound_key(kind)
    assert key is not None
    if kind == "TIMESTAMP_NS":
        return value.value
    return key(canonical(kind, value.as_py()))


def test_sorted_inputs_of_many_row_groups_are_cut_into_equal_shares() -> None:
    plans = cut_into_slices(sorted_parts(10, 20), ("BIGINT",), 4)
    assert [plan.low for plan in plans] == [(None,), (500,), (1000,), (1500,)]
    assert [round(plan.share, 2) for plan in plans] == [0.25] * 4
    total = 200 * 10 * MIB
    # Each reads its share and, of the parts that are cut, a row group on either side.
    assert all(plan.bytes <= total / 4 + 10 * 10 * MIB for plan in plans)


def test_parts_that_lie_apart_are_not_read_by_the_slices_beside_them() -> None:
    apart = [part((n * 10, n * 10 + 9)) for n in range(8)]
    plans = cut_into_slices(apart, ("BIGINT",), 4)
    assert [[each.part for each in plan.reads] for plan in plans] == [
        [0, 1],
        [2, 3],
        [4, 5],
        [6, 7],
    ]
    assert all(each.row_groups is None for plan in plans for each in plan.reads)


def test_inputs_whose_row_groups_all_hold_the_whole_range_are_not_cut() -> None:
    assert cut_into_slices([part((n, 1_000 - n)) for n in range(50)], ("BIGINT",), 4) == ()


@pytest.mark.parametrize(
    "bounds", [None, (None, None, 100), ("x", "y"), (9, 1), (1, 2), (None, None, 5)]
)
def test_a_group_without_usable_bounds_is_one_task(bounds: Any) -> None:
    assert cut_into_slices([part(bounds)] * 8, ("BIGINT",), 4) == ()


def test_fewer_slices_are_made_where_more_would_read_too_much() -> None:
    across = [
        part(*((n * 100 + at * 9, n * 100 + at * 9 + 99) for n in range(8))) for at in range(10)
    ]
    plans = cut_into_slices(across, ("BIGINT",), 8)
    assert 1 < len(plans) < 8
    share = 80 * 10 * MIB / len(plans)
    assert max(plan.bytes for plan in plans) <= cutting.MOST_READS * share


WHOLE = (0, 999)
TWO = ("BIGINT", "BIGINT")


def test_of_several_columns_each_cut_takes_the_one_by_which_least_is_read_twice() -> None:
    """Parts in the order of arrival, whatever its place, and parts that are boxes already."""
    for place in (0, 1):
        arrived = [boxes(_in_place(place, (n * 10, n * 10 + 9), WHOLE)) for n in range(8)]
        plans = cut_into_slices(arrived, TWO, 4)
        assert [len(plan.reads) for plan in plans] == [2] * 4
        assert [plan.low[1 - place] for plan in plans] == [None] * 4
        assert [plan.narrowed[place] for plan in plans] == [2.0] * 4
    quarters = [boxes(((a, a + 9), (b, b + 9))) for a in (0, 10) for b in (0, 10)]
    plans = cut_into_slices(quarters * 3, TWO, 4)
    assert [plan.low for plan in plans] == [(None, None), (None, 10), (10, None), (10, 10)]
    assert [plan.high for plan in plans] == [(10, 10), (10, None), (None, 10), (None, None)]
    assert [plan.narrowed for plan in plans] == [(1.0, 1.0)] * 4
    assert [plan.share for plan in plans] == [0.25] * 4
    assert all(len(plan.reads) == 3 for plan in plans)


def _in_place(place: int, one: Any, other: Any) -> tuple[Any, Any]:
    return (one, other) if place == 0 else (other, one)


def test_no_column_is_halved_more_often_than_allowed() -> None:
    """Slices by one column alone would leave nothing of the outputs to the others."""
    arrived = [boxes(((n * 10, n * 10 + 9), WHOLE)) for n in range(16)]
    for halvings, made in ((1, 2), (2, 4), (3, 8), (None, 8)):
        for wanted in (8, 7):
            plans = cut_into_slices(arrived, TWO, wanted, halvings)
            assert len(plans) == min(made, wanted)
            assert max(plan.narrowed[0] for plan in plans) <= (halvings or 3)


def test_row_groups_that_hold_the_whole_range_of_every_column_are_not_cut() -> None:
    for bounds in ((WHOLE, WHOLE), (None, None), (WHOLE, None)):
        parts = [boxes(bounds) for _ in range(50)]
        assert cut_into_slices(parts, TWO, 4) == ()


def test_a_column_without_bounds_leaves_the_others_to_cut_by() -> None:
    plans = cut_into_slices([boxes((None, (n, n))) for n in range(8)], TWO, 2)
    assert [plan.low for plan in plans] == [(None, None), (None, 4)]


def test_slices_of_many_nulls_are_balanced() -> None:
    """They are in the slice of the greatest values, which has fewer of the others for that."""
    nulls = part(*[(None, None, 100)] * 10)
    first, last = cut_into_slices([*sorted_parts(2, 10), nulls], ("BIGINT",), 2)
    assert (first.high, last.low) == ((701,), (701,))
    assert [round(plan.share, 1) for plan in (first, last)] == [0.5, 0.5]


def test_a_row_group_without_bounds_is_read_by_every_slice() -> None:
    parts = [*sorted_parts(10, 20), part(None)]
    plans = cut_into_slices(parts, ("BIGINT",), 2)
    assert read_by(plans, 10, 0) == [0, 1]


def test_a_row_group_that_ends_at_a_cut_point_is_read_on_both_sides() -> None:
    parts = [*sorted_parts(10, 20), part((900, 999), (900, 1_000), (1_000, 1_000))]
    first, last = cut_into_slices(parts, ("BIGINT",), 2)
    assert (first.high, last.low) == ((1_000,), (1_000,))
    assert [read_by((first, last), 10, number) for number in range(3)] == [[0], [0, 1], [1]]


def test_nulls_are_in_the_last_slice() -> None:
    parts = [*sorted_parts(10, 20), part((0, 5, 3), (None, None, 100))]
    plans = cut_into_slices(parts, ("BIGINT",), 2)
    assert (read_by(plans, 10, 0), read_by(plans, 10, 1)) == ([0, 1], [1])


def test_a_text_without_an_upper_bound_is_read_to_the_end() -> None:
    parts = [part(*((f"{n:02d}", f"{n:02d}z") for n in range(20))), part(("00", None, 0))]
    plans = cut_into_slices(parts, ("VARCHAR",), 2)
    assert read_by(plans, 1, 0) == [0, 1]


def test_a_small_part_is_read_with_one_get_by_each_slice_that_needs_some_of_it() -> None:
    small = PartGroups(1_000, part((0, 1), (1_990, 1_999), size=500).row_groups)
    plans = cut_into_slices([*sorted_parts(10, 20), small], ("BIGINT",), 2)
    found = [each for plan in plans for each in plan.reads if each.part == 10]
    assert [each.row_groups for each in found] == [None, None]


def test_the_outputs_of_a_group_are_shared_by_rows() -> None:
    plans = [
        SlicePlan(low=(), high=(), share=share, reads=(), narrowed=())
        for share in (0.1, 0.2, 0.35, 0.35)
    ]
    assert share_outputs(plans, 8) == [1, 2, 3, 2]
    assert share_outputs(plans, 4) == [1, 1, 1, 1]


def test_cut_points_are_values_in_the_form_of_the_log() -> None:
    day = datetime.date(2026, 1, 1)
    days = [(day + datetime.timedelta(n)).isoformat() for n in range(8)]
    plans = cut_into_slices([part((one, one)) for one in days], ("DATE",), 2)
    assert [(before.high, after.low) for before, after in pairwise(plans)] == [
        (("2026-01-05",), ("2026-01-05",))
    ]
