"""``firnline snapshot`` and ``firnline schema``."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.cli import START_MS, LogOnlyTable, Outcome, settings_file

Firnline = Callable[..., Outcome]


def test_a_snapshot_counts_what_is_there_and_what_it_took_to_know(
    firnline: Firnline, table: LogOnlyTable
) -> None:
    data = firnline("snapshot", table.root, "--json").data
    assert (data["partitions"], data["parts"], data["rows"]) == (2, 4, 40)
    assert (data["seq"], data["deletes_pending"], data["purge_horizon"]) == (0, 0, None)
    assert (data["log_files"], data["log_files_read"], data["log_files_folded"]) == (2, 2, 0)
    assert (data["requests"]["list"], data["requests"]["get"]) == (2, 2)
    assert data["newest_log_file"] == START_MS + 2000
    assert data["schema"] == {"ts": "TIMESTAMP", "v": "INTEGER", "w": "VARCHAR"}


def test_a_snapshot_for_people(firnline: Firnline, table: LogOnlyTable) -> None:
    shown = firnline("snapshot", table.root).out
    assert "4 live, 0 replaced" in shown
    assert "2026-01-31 12:00:02Z" in shown
    assert "2 read, 0 skipped as folded; 2 LIST, 2 GET" in shown


@pytest.mark.parametrize(
    "text", ["2026-01-31T12:00:01Z", "2026-01-31T13:00:01+01:00", str(START_MS + 1000)]
)
def test_a_time_is_iso_8601_with_a_zone_or_milliseconds(
    firnline: Firnline, table: LogOnlyTable, text: str
) -> None:
    data = firnline("snapshot", table.root, "--at", text, "--json").data
    assert (data["as_of"], data["parts"]) == (START_MS + 1000, 3)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("yesterday", "'yesterday' is not a time"),
        ("2026-13-31T12:00:00Z", "is not a time"),
        ("", "--at is empty"),
        ("9999-01-01T00:00:00Z", "lies in the future"),
        ("-1", "'-1' is not a time"),
    ],
)
def test_what_is_no_time_is_wrong_usage(
    firnline: Firnline, table: LogOnlyTable, text: str, said: str
) -> None:
    shown = firnline("snapshot", table.root, f"--at={text}")
    assert shown.code == 2
    assert said in shown.sentence


def test_where_no_table_is_the_root_is_named(firnline: Firnline, table: LogOnlyTable) -> None:
    for command in ("parts", "snapshot", "schema", "history"):
        shown = firnline(command, table.root + "x")
        assert shown.code == 2
        assert shown.sentence.startswith(f"there is no table at {table.root}x: it has no log file;")


def test_a_path_is_answered_with_its_root_url(firnline: Firnline, table: LogOnlyTable) -> None:
    shown = firnline("parts", table.folder)
    assert shown.code == 2
    assert shown.sentence.endswith(f"write {table.root}")


def test_the_schema_says_what_a_column_is_used_for(firnline: Firnline, table: LogOnlyTable) -> None:
    path = settings_file(
        table.folder.parent,
        f"tables: {{e: {{root: '{table.root}', partition_by: [day(ts)], sort_by: [W, ts]}}}}",
    )
    columns = firnline("schema", "e", "--settings", path, "--json").data["columns"]
    assert columns == [
        {"column": "ts", "type": "TIMESTAMP", "used_for": ["partition", "sort"]},
        {"column": "v", "type": "INTEGER", "used_for": []},
        {"column": "w", "type": "VARCHAR", "used_for": ["sort"]},
    ]
    lines = firnline("schema", "e", "--settings", path).out.splitlines()
    assert [line.split() for line in lines[2:]] == [
        ["ts", "TIMESTAMP", "partition,", "sort"],
        ["v", "INTEGER"],
        ["w", "VARCHAR", "sort"],
    ]
