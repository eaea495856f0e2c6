"""Listings without folder markers."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from firnline.store.base import ObjectMeta
from firnline.store.listing import spelled, without_markers

PREFIX = "t/_data/"


def rows(*keys: str, empty: Sequence[str]) -> list[ObjectMeta]:
    return [ObjectMeta(f"t/_data{key}", 0 if key in empty else 5, 1) for key in keys]


def shown(found: list[ObjectMeta]) -> tuple[list[str], list[str]]:
    """The keys that are left, and those that were passed over."""
    passed: list[str] = []
    left = [
        meta.key.removeprefix("t/_data") for meta in without_markers(found, PREFIX, passed.append)
    ]
    return left, [key.removeprefix("t/_data") for key in passed]


@pytest.mark.parametrize(
    "empty",
    ["", "/", "/x", "/x/", "/x.1", "/day=1.5", "/day=1.5/"],
    ids=lambda key: key or "itself",
)
def test_a_marker_is_known_by_its_slash_its_name_or_what_lies_below_it(empty: str) -> None:
    below = f"{empty.rstrip('/')}/a.parquet"
    assert shown(rows(empty, below, empty=[empty])) == ([below], [f"{empty.rstrip('/')}/"])


@pytest.mark.parametrize("empty", ["/x", "/day=1.5"])
def test_the_marker_of_an_empty_folder_is_known_by_its_name(empty: str) -> None:
    assert shown(rows("/a.parquet", empty, "/z.parquet", empty=[empty]))[1] == [f"{empty}/"]


@pytest.mark.parametrize("empty", ["/a.parquet", "/_SUCCESS", "/0.jsonl"])
def test_an_object_that_lost_its_bytes_is_no_marker(empty: str) -> None:
    for keys in ([empty], [empty, "/b.parquet"]):
        assert shown(rows(*keys, empty=[empty])) == (keys, [])


def test_an_object_with_bytes_is_no_marker_whatever_its_name() -> None:
    keys = ["/x", "/x/a.parquet"]
    assert shown(rows(*keys, empty=[])) == (keys, [])


def test_a_row_before_its_place_had_a_slash_at_its_end() -> None:
    early, own, other = rows("/x", "", "/y", empty=["/x", "", "/y"])
    assert spelled(early, "t/_data/x-1", PREFIX).key == "t/_data/x/"
    assert spelled(own, None, PREFIX).key == PREFIX
    assert spelled(other, "t/_data/x-1", PREFIX) is other
    (full,) = rows("/x", empty=[])
    assert spelled(full, "t/_data/x-1", PREFIX) is full, "the store does not sort"
