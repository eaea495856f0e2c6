"""The types that readers of an Iceberg mirror widen by themselves."""

from __future__ import annotations

import pytest

from firnline.mirror.iceberg.hold import reads_narrower


@pytest.mark.parametrize(
    ("wanted", "read"),
    [("BIGINT", True), ("DOUBLE", True), ("TIMESTAMP", False), ("DECIMAL(9,2)", False)],
)
def test_a_type_is_read_only_if_any_narrower_one_is(wanted: str, read: bool) -> None:
    assert reads_narrower(wanted) == read
