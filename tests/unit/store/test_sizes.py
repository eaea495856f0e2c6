"""The requests of an upload, by its size."""

from __future__ import annotations

import pytest

from firnline.store.sizes import PART_BYTES, part_bytes, put_requests


@pytest.mark.parametrize(
    ("size", "requests"),
    [
        (0, 1),
        (PART_BYTES, 1),
        (PART_BYTES + 1, 4),
        (2 * PART_BYTES, 4),
        (3 * PART_BYTES, 5),
        (20_000 * PART_BYTES, 10_002),
    ],
)
def test_an_upload_in_parts_has_a_request_for_each_one_to_begin_and_one_to_end(
    size: int, requests: int
) -> None:
    assert put_requests(size) == requests
    assert part_bytes(size) * 10_000 >= size
