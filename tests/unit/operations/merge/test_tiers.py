"""Small parts go together; a large one is not rewritten for a small one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firnline.operations.merge.tiers import (
    Tier,
    group_by_size,
    group_in_order,
    group_newest_first,
    worthwhile,
)

TIER = Tier(target=6400, min_inputs=4, max_inputs=1000)


def merged_once(sizes: list[int], tier: Tier) -> tuple[list[int], int]:
    """Sizes after one merge of everything below full, and how many groups there were."""
    small = sorted(s for s in sizes if s < tier.full)
    after = [s for s in sizes if s >= tier.full]
    groups = 0
    for run in group_by_size(small, tier):
        part = [small[i] for i in run]
        if worthwhile(len(part), sum(part), tier):
            after.append(sum(part))
            groups += 1
        else:
            after += part
    return after, groups


@given(st.lists(st.integers(1, 6400), max_size=60))
def test_a_second_merge_right_after_the_first_finds_nothing(sizes: list[int]) -> None:
    after, _ = merged_once(sizes, TIER)
    again, groups = merged_once(after, TIER)
    assert groups == 0
    assert sorted(again) == sorted(after)


@pytest.mark.long
@given(st.lists(st.integers(1, 6400), max_size=60))
def test_every_part_is_in_one_run_and_no_run_is_over_the_target(sizes: list[int]) -> None:
    for cut in (group_by_size, group_in_order, group_newest_first):
        runs = cut(sorted(sizes), TIER)
        assert [i for run in runs for i in run] == list(range(len(sizes)))
        assert all(
            sum(sorted(sizes)[i] for i in run) <= TIER.target or len(run) == 1 for run in runs
        )


def test_a_large_part_is_left_alone_beside_tiny_ones() -> None:
    runs = group_by_size([101, 101, 101, 101, 4000], TIER)
    assert [len(r) for r in runs] == [4, 1]


def test_two_parts_that_fill_one_are_worth_it() -> None:
    assert worthwhile(2, 4800, TIER)
    assert not worthwhile(2, 4799, TIER)
    assert not worthwhile(1, 6400, TIER)
    assert worthwhile(4, 4, TIER)


def test_groups_are_bounded_in_parts() -> None:
    runs = group_by_size([1] * 2500, Tier(target=6400, min_inputs=4, max_inputs=1000))
    assert [len(r) for r in runs] == [1000, 1000, 500]


def test_order_is_kept_where_it_must_be() -> None:
    assert group_in_order([3000, 10, 3000, 3000], TIER) == [range(3), range(3, 4)]


def test_in_insertion_order_a_large_part_waits_until_half_of_its_size_came_behind_it() -> None:
    assert group_newest_first([3000, 200, 200], TIER) == [range(1), range(1, 3)]
    assert group_newest_first([3000, 750, 750], TIER) == [range(3)]
    assert group_newest_first([200, 3000, 10], TIER) == [range(2), range(2, 3)]
    assert group_newest_first([], TIER) == []
