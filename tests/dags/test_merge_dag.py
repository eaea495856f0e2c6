"""The merge's DAGs as Airflow parses them, without running anything."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.dags.parsing import HEAVY, Parser

TABLES = """
defaults: {operations: [merge]}
tables:
  clock: {root: 'file:///tmp/clock', merge: {schedule: '7 * * * *'}}
  event: {root: 'file:///tmp/event', merge: {schedule: null}, commit_ttl: 1h}
"""
SHARED = """
tables:
  a:
    root: 'file:///tmp/a'
    own_dags: all
    partition_by: [d]
    merge: {slots: 3}
    ttl: {column: d, keep: 9d}
"""


@pytest.fixture(scope="module")
def parsed(parser: Parser, tmp_path_factory: pytest.TempPathFactory) -> Any:
    return parser.parse(tmp_path_factory.mktemp("home"), TABLES)


def test_every_table_has_its_dag_and_no_file_fails(parsed: Any) -> None:
    assert parsed["errors"] == {}
    assert parsed["ids"] == ["merge", "merge__clock", "merge__event"]


def test_parsing_sends_no_request_and_imports_nothing_heavy(parsed: Any) -> None:
    # parse() refuses connections; boto3 is what Airflow itself loads to look at an s3:// asset.
    assert not set(parsed["modules"]) & {*HEAVY, "boto3", "botocore"}


def test_what_writes_holds_the_pool_of_its_table(parsed: Any) -> None:
    for table in ("clock", "event"):
        assert parsed["dags"][f"merge__{table}"]["pools"] == {
            "plan": "default_pool",
            "merge": f"{table}.merge",
            "report": "default_pool",
        }


def test_a_merge_runs_once_at_a_time_and_never_catches_up(parsed: Any) -> None:
    dag = parsed["dags"]["merge__clock"]
    assert dag["max_active_runs"] == 1
    assert dag["catchup"] is False
    assert dag["owner"] == "firnline"
    assert dag["tags"] == ["clock", "firnline", "merge"]
    assert dag["timeouts"] == []
    assert set(dag["retries"].values()) == {3}


def test_as_many_merges_run_as_share_the_pool_and_all_else_runs_alone(
    parser: Parser, tmp_path: Path
) -> None:
    dags = parser.parse(tmp_path, SHARED)["dags"]
    merge = dags["merge__a"]
    assert merge["max_active_runs"] == 3
    assert merge["pool_slots"] == {"plan": 1, "merge": 1, "report": 1}
    for name, dag in dags.items():
        held = {task for task, pool in dag["pools"].items() if pool == "a.merge"}
        if name == "merge__a" or not held:
            continue
        assert {dag["pool_slots"][task] for task in held} == {3}, name
        assert dag["max_active_runs"] == 1, name
    assert {"ttl__a", "rewrite_partitions__a", "tombstone_cleanup__a"} <= set(dags)


def test_the_report_follows_plan_and_merge_and_is_what_tells_the_asset(parsed: Any) -> None:
    dag = parsed["dags"]["merge__clock"]
    assert dag["downstream"] == {"plan": ["merge", "report"], "merge": ["report"], "report": []}
    assert dag["outlets"] == {
        "plan": [],
        "merge": [],
        "report": [["clock:upkeep", "file:///tmp/clock/_log"]],
    }
    both = [["clock", "file:///tmp/clock"], ["clock:upkeep", "file:///tmp/clock/_log"]]
    assert dag["inlets"] == {"plan": [], "merge": both, "report": both}


def test_the_docs_are_the_module_docstring(parsed: Any) -> None:
    doc = parsed["dags"]["merge__clock"]["doc"]
    assert doc.startswith("### Merge small parts")
    for word in ("`plan`", "`merge`", "`report`", "dry_run", "When it fails"):
        assert word in doc


def test_the_clock_and_the_table_s_asset_start_runs(parsed: Any) -> None:
    by_clock = json.dumps(parsed["dags"]["merge__clock"]["timetable"])
    assert "AssetOrTimeSchedule" in by_clock
    assert "7 * * * *" in by_clock
    assert "file:///tmp/clock" in by_clock
    by_event = json.dumps(parsed["dags"]["merge__event"]["timetable"])
    assert "Cron" not in by_event
    assert "file:///tmp/event" in by_event


def test_params_are_typed(parsed: Any) -> None:
    params = parsed["dags"]["merge__clock"]["params"]
    assert {name: value for name, (value, _) in params.items()} == {
        "partitions": None,
        "max_bytes": None,
        "full": False,
        "dry_run": False,
    }
    schemas = {name: schema for name, (_, schema) in params.items()}
    assert schemas["partitions"]["type"] == ["array", "null"]
    assert schemas["partitions"]["items"]["type"] == "string"
    # With null, so that the form does not mark it as required; null itself is no choice.
    assert schemas["dry_run"]["type"] == ["boolean", "null"]
    assert schemas["dry_run"]["enum"] == [True, False]


def test_a_mistake_in_what_all_tables_share_is_an_import_error_that_names_file_and_field(
    parser: Parser, tmp_path: Path
) -> None:
    found = parser.parse(
        tmp_path,
        "defaults: {merge: {target: 1GiB}}\ntables: {t: {root: 'file:///tmp/t'}}",
    )
    assert len(found["errors"]) == 2, "of both files"
    for error in found["errors"].values():
        assert f"{tmp_path / 'tables.yaml'}: defaults.merge.target: is not a setting" in error
    assert found["ids"] == []
