"""``firnline parts``."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firnline.operations.health.histogram import SIZE_STEPS, histogram
from firnline.types.order import SortKey
from tests.support.cli import START_MS, LogOnlyTable, Outcome, settings_file

Firnline = Callable[..., Outcome]


def test_parts_are_counted_by_partition_and_in_total(
    firnline: Firnline, table: LogOnlyTable
) -> None:
    data = firnline("parts", table.root, "--json").data
    first, second = data["partitions"]
    assert first == {
        "partition": "d=1",
        "parts": 2,
        "rows": 20,
        "bytes": 4_000,
        "smallest": 1_000,
        "median": 1_000,
        "largest": 3_000,
        "small": 2,
        "sizes": [2, *[0] * 10],
        "orders": [{"sorted_by": [], "parts": 2}],
        "sorted_otherwise": 0,
    }
    assert (second["partition"], second["largest"], second["small"]) == ("d=2", 500 * 2**20, 1)
    assert data["total"]["parts"] == 4
    assert data["small_below"] == 384 * 2**20


def test_the_table_shows_a_line_for_each_partition_and_the_total(
    firnline: Firnline, table: LogOnlyTable
) -> None:
    lines = firnline("parts", table.root).out.splitlines()
    assert lines[0].split()[:4] == ["partition", "parts", "rows", "bytes"]
    assert lines[2].split()[:5] == ["d=1", "2", "20", "3.9", "KiB"]
    assert "100 %" in lines[2]
    assert "50 %" in lines[3]
    assert lines[5].startswith("2 in all")
    assert lines[-1] == (
        "Small is below 384MiB, 3/4 of merge.target_size. "
        "No partition has enough small parts to merge."
    )


def test_where_a_merge_may_help_the_plan_is_named(firnline: Firnline, table: LogOnlyTable) -> None:
    table.append({"d=1": [10, 10]})
    assert firnline("parts", table.root).out.splitlines()[-1] == (
        "5 of 6 parts are small (small is below 384MiB, 3/4 of merge.target_size): "
        f"`firnline plan merge {table.root}` shows what a merge would do."
    )


def test_a_glob_chooses_partitions(firnline: Firnline, table: LogOnlyTable) -> None:
    data = firnline("parts", table.root, "--partition", "*=2", "--json").data
    assert [found["partition"] for found in data["partitions"]] == ["d=2"]
    assert data["total"]["parts"] == 2


def test_a_glob_that_matches_nothing_is_wrong_usage(
    firnline: Firnline, table: LogOnlyTable
) -> None:
    shown = firnline("parts", table.root, "--partition", "e=*")
    assert shown.code == 2
    said = f"no partition of events matches 'e=*'; see `firnline parts {table.root}`"
    assert said in shown.sentence
    assert "the first partitions are: d=1, d=2" in shown.sentence


def test_parts_of_an_earlier_time(firnline: Firnline, table: LogOnlyTable) -> None:
    data = firnline("parts", table.root, "--at", str(START_MS + 1500), "--json").data
    assert data["total"]["parts"] == 3
    shown = firnline("parts", table.root, "--at", str(START_MS + 1500)).out
    assert "plan merge" not in shown  # that would be a plan of the newest state


def test_rows_that_a_foreign_writer_did_not_count_are_unknown(
    firnline: Firnline, table: LogOnlyTable
) -> None:
    table.append({"d=1": [5]}, rows=None)
    data = firnline("parts", table.root, "--json").data
    assert (data["partitions"][0]["rows"], data["total"]["rows"]) == (None, None)
    assert firnline("parts", table.root).out.splitlines()[2].split()[:3] == ["d=1", "3", "?"]


def test_an_unpartitioned_table_has_one_line(firnline: Firnline, table: LogOnlyTable) -> None:
    flat = LogOnlyTable(table.folder.with_name("flat"))
    flat.append({"": [10, 20]})
    lines = firnline("parts", flat.root).out.splitlines()
    assert lines[2].split()[:2] == ["-", "2"]
    assert not any("in all" in line for line in lines)


def test_hostile_partition_names_reach_the_terminal_escaped(
    firnline: Firnline, table: LogOnlyTable
) -> None:
    table.append({"d=[bold]x\u202e": [1]})
    shown = firnline("parts", table.root).out
    assert "d=[bold]x\\u202e" in shown


def test_settings_of_a_named_table_hold_for_its_root_too(
    firnline: Firnline, table: LogOnlyTable
) -> None:
    path = settings_file(
        table.folder.parent,
        f"tables: {{mine: {{root: '{table.root}', merge: {{target_size: 4MiB}}}}}}",
    )
    for target in ("mine", table.root):
        data = firnline("parts", target, "--settings", path, "--json").data
        assert (data["table"], data["small_below"]) == ("mine", 3 * 2**20)


def test_a_part_that_is_full_by_rows_is_not_small(firnline: Firnline, table: LogOnlyTable) -> None:
    table.append({"d=1": [5_000]}, rows=1_600)
    table.append({"d=1": [6_000]}, rows=1_200)
    path = settings_file(
        table.folder.parent,
        f"tables: {{mine: {{root: '{table.root}', merge: {{target_rows: 2048}}}}}}",
    )
    data = firnline("parts", "mine", "--settings", path, "--json").data
    assert [found["small"] for found in data["partitions"]] == [3, 1]
    assert (data["small_below"], data["small_below_rows"]) == (384 * 2**20, 1_536)
    health = firnline("health", "mine", "--settings", path, "--json").data["tables"][0]
    assert health["figures"]["small_parts"] == data["total"]["small"] == 4
    assert firnline("parts", "mine", "--settings", path).out.splitlines()[-1] == (
        "Small is below 384MiB, 3/4 of merge.target_size, and 1,536 rows, 3/4 of "
        "merge.target_rows. No partition has enough small parts to merge."
    )


BY_TIME = (SortKey("ts", descending=True), SortKey("v"))


def test_what_parts_are_sorted_by_is_shown_once_some_say_it(
    firnline: Firnline, table: LogOnlyTable
) -> None:
    assert "sorted by" not in firnline("parts", table.root).out
    table.append({"d=1": [5], "d=3": [5, 5]}, order=BY_TIME)
    data = firnline("parts", table.root, "--json").data
    first, second, third = (found["orders"] for found in data["partitions"])
    assert first == [{"sorted_by": [], "parts": 2}, {"sorted_by": ["ts desc", "v"], "parts": 1}]
    assert second == [{"sorted_by": [], "parts": 2}]
    assert third == [{"sorted_by": ["ts desc", "v"], "parts": 2}]
    lines = firnline("parts", table.root).out.splitlines()
    assert lines[0].endswith("sorted by")
    assert lines[2].endswith("not stated (2); ts desc, v (1)")
    assert lines[3].endswith("not stated")
    assert lines[4].endswith("  ts desc, v")


def test_parts_in_another_order_than_todays_are_counted_with_what_sorts_them(
    firnline: Firnline, table: LogOnlyTable
) -> None:
    table.append({"d=1": [5], "d=3": [5, 5]}, order=BY_TIME)
    path = settings_file(
        table.folder.parent, f"tables: {{mine: {{root: '{table.root}', sort_by: [v]}}}}"
    )
    data = firnline("parts", "mine", "--settings", path, "--json").data
    assert [found["sorted_otherwise"] for found in data["partitions"]] == [1, 0, 2]
    assert data["total"]["sorted_otherwise"] == 3
    assert firnline("parts", "mine", "--settings", path).out.splitlines()[-1] == (
        "3 parts state another order than sort_by: "
        f"`firnline merge mine --settings {path} --full` sorts them again."
    )


def test_todays_order_is_that_of_the_table_and_not_of_the_settings(
    firnline: Firnline, table: LogOnlyTable
) -> None:
    folder = table.folder.with_name("own")
    made = f"tables: {{mine: {{root: 'file://{folder}', sort_by: [ts desc, v]}}}}"
    path = settings_file(folder.parent, made)
    rows = folder.with_name("rows.parquet")
    pq.write_table(pa.table({"ts": [1, 2], "v": [1, 2]}), rows)
    assert firnline("append", "mine", rows, "--settings", path).code == 0
    settings_file(folder.parent, made.replace("ts desc, v", "v"))
    data = firnline("parts", "mine", "--settings", path, "--json").data
    assert data["total"]["orders"] == [{"sorted_by": ["ts desc", "v"], "parts": 1}]
    assert data["total"]["sorted_otherwise"] == 0, "a merge would not sort it again"


@pytest.mark.parametrize(
    ("size", "place"), [(0, 0), (4095, 0), (4096, 1), (2**30 - 1, 9), (2**30, 10), (2**60, 10)]
)
def test_each_step_of_the_histogram_begins_with_its_bound(size: int, place: int) -> None:
    assert histogram([size]).index(1) == place


@given(st.lists(st.integers(0, 2**45)))
def test_the_histogram_loses_no_part(sizes: list[int]) -> None:
    counts = histogram(sizes)
    assert sum(counts) == len(sizes)
    assert len(counts) == len(SIZE_STEPS) + 1
