"""Which files, and which row groups of a large one, go to one task with new rows."""

from __future__ import annotations

from typing import Any

import pytest

from firnline.operations.new_rows import RowFile, buffer_of, runs_of
from firnline.table import Table
from tests.support.world import make_world

MIB = 2**20


def table(**settings: Any) -> Table:
    return make_world(append={"part_bytes": "8MiB"}, **settings).table


@pytest.mark.parametrize(
    ("size", "groups", "runs"),
    [
        (24 * MIB, [(10, 100)] * 6, [(0, 1), (2, 3), (4, 5)]),
        (24 * MIB, [(10, 100), (10, 900), (10, 100), (10, 100)], [(0,), (1,), (2, 3)]),
        (9 * MIB, [(10, 100), (0, 100)], [(0,)]),
        (24 * MIB, [(10, 100)], [None]),
        (24 * MIB, [], [None]),
        (24 * MIB, [(0, 0), (0, 0)], [None]),
        (8 * MIB, [(10, 100)] * 6, [None]),
    ],
)
def test_a_large_file_is_cut_into_runs_of_row_groups_of_about_a_part(
    size: int, groups: list[tuple[int, int]], runs: list[tuple[int, ...] | None]
) -> None:
    found = list(runs_of(table(), RowFile("k", size), groups))
    assert [one.row_groups for one in found] == runs
    if runs != [None]:
        assert sum(one.rows or 0 for one in found) == sum(rows for rows, _ in groups)
        alone = [one for one in found if one.row_groups and len(one.row_groups) == 1]
        assert all(one.share <= 8 * MIB for one in found if one not in alone)
    assert all(one.bytes == size for one in found)


def test_a_file_of_a_table_with_a_primary_key_is_not_cut() -> None:
    keyed = table(primary_key=["id"])
    assert list(runs_of(keyed, RowFile("k", 24 * MIB), [(10, 100)] * 6)) == [RowFile("k", 24 * MIB)]


def test_rows_in_memory_are_a_share_of_the_kernels_memory() -> None:
    assert buffer_of(512 * MIB) == 96 * MIB
    assert buffer_of(128 * MIB) == 8 * MIB
