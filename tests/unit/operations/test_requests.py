"""Requests of runs, for the estimates of plans."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from firnline.operations.requests import upload_requests
from firnline.store.sizes import PART_BYTES, put_requests


@given(st.lists(st.integers(0, 40 * PART_BYTES), min_size=1, max_size=9))
def test_no_division_of_an_output_sends_more_requests_than_were_estimated(
    sizes: list[int],
) -> None:
    assert sum(map(put_requests, sizes)) <= upload_requests(sum(sizes), len(sizes))


def test_a_single_object_is_estimated_exactly() -> None:
    sizes = (0, PART_BYTES, PART_BYTES + 1, 5 * PART_BYTES)
    assert [upload_requests(size) for size in sizes] == [put_requests(size) for size in sizes]
