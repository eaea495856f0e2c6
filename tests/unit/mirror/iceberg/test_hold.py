"""The types that readers of an Iceberg mirror widen by themselves."""

from __future__ import annotations

import pytest

from firnline.mirror.iceberg.hold import reads_narrower, widens_in_place


@pytest.mark.parametrize(
    ("kind", "wanted", "seen"),
    [
        ("TINYINT", "INTEGER", True),
        ("int4", "BIGINT", True),
        ("FLOAT", "DOUBLE", True),
        ("DECIMAL(5,2)", "DECIMAL(9,2)", True),
        ("DECIMAL(5,2)", "DECIMAL(9,4)", False),
        ("UTINYINT", "INTEGER", False),
        ("DATE", "TIMESTAMP", False),
        ("BIGINT", "INTEGER", False),
        ("VARCHAR", "VARCHAR", True),
    ],
)
def test_readers_widen_what_iceberg_does(kind: str, wanted: str, seen: bool) -> None:
    assert widens_in_place(kind, wanted) == seen


@pytest.mark.parametrize(
    ("wanted", "read"),
    [("BIGINT", True), ("DOUBLE", True), ("TIMESTAMP", False), ("DECIMAL(9,2)", False)],
)
def test_a_type_is_read_only_if_any_narrower_one_is(wanted: str, read: bool) -> None:
    assert reads_narrower(wanted) == read
