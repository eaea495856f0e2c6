"""Ranges of several parts together, and ranges that nobody can rely on."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firnline.types.hashes import LARGEST, HashRange, around

BOUNDS = st.none() | st.tuples(st.integers(0, 63), st.integers(0, 63)).map(sorted)


def bucket(low: int | None, high: int | None, column: str = "id", buckets: int = 64) -> HashRange:
    return HashRange((column,), ("long",), buckets, low, high)


@pytest.mark.long
@given(bounds=st.lists(BOUNDS, min_size=1, max_size=4))
def test_the_range_of_several_parts_holds_every_hash_of_theirs_and_is_no_wider(
    bounds: list[list[int] | None],
) -> None:
    parts = [(bucket(each[0], each[1]) if each else bucket(None, None),) for each in bounds]
    ends = [end for each in bounds if each for end in each]
    wanted = bucket(min(ends), max(ends)) if ends else bucket(None, None)
    assert around(parts) == (() if wanted.is_whole else (wanted,))


def test_what_one_of_the_parts_does_not_state_is_not_stated_of_all() -> None:
    one, other = bucket(3, 3), bucket(5, 5, "other")
    assert around([(one, other), (one,)]) == (one,)
    assert around([(one,), ()]) == ()
    assert around([]) == ()
    assert around([(bucket(3, 3),), (bucket(3, 3, buckets=16),)]) == ()


def test_a_range_of_all_hashes_is_left_out() -> None:
    assert around([(bucket(0, 63),)]) == ()
    assert around([(bucket(0, 62),)]) == (bucket(0, 62),)
    assert around([(bucket(0, LARGEST, buckets=0),)]) == ()
    assert around([(bucket(0, 63, buckets=0),)]) == (bucket(0, 63, buckets=0),)


@pytest.mark.parametrize(
    "broken",
    [
        HashRange((), (), 64, 1, 2),
        HashRange(("a", "b"), ("long",), 64, 1, 2),
        HashRange(("a",), ("long",), -1, 1, 2),
        HashRange(("a",), ("long",), 64, None, 2),
        HashRange(("a",), ("long",), 64, 1, None),
    ],
)
def test_a_range_of_another_shape_is_not_relied_on(broken: HashRange) -> None:
    assert not broken.is_sound
    assert bucket(1, 2).is_sound
    assert bucket(None, None).is_sound
    assert bucket(1, 2, buckets=0).is_sound
