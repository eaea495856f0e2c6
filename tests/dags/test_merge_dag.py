"""The DAGs as Airflow parses them, without running anything."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from firnline_dev.bootstrap import REPO

HEAVY = ("pyarrow", "duckdb", "pyspark", "obstore", "pandas", "numpy", "polars", "sqlglot")

PARSE = """
import json, socket, sys, time

def refuse(*args, **kwargs):
    raise AssertionError(f"a request was sent while parsing: {args}")

socket.socket.connect = refuse
socket.getaddrinfo = refuse
import airflow.sdk
from airflow.dag_processing.dagbag import DagBag
started = time.process_time()
bag = DagBag(sys.argv[1], collect_dags=False)
bag.collect_dags(sys.argv[1])
seconds = time.process_time() - started  # other work on this machine does not count
from airflow.serialization.serialized_objects import DagSerialization

shown = {}
for dag in list(bag.dags.values())[:20]:
    data = DagSerialization.to_dict(dag)["dag"]
    shown[dag.dag_id] = {
        "pools": {task.task_id: task.pool for task in dag.tasks},
        "doc": dag.doc_md,
        "owner": dag.owner,
        "tags": sorted(dag.tags),
        "max_active_runs": dag.max_active_runs,
        "catchup": dag.catchup,
        "timetable": data["timetable"],
        "params": {
            name: [dag.params.get_param(name).value, dag.params.get_param(name).schema]
            for name in dag.params
        },
        "timeouts": [t.task_id for t in dag.tasks if not t.execution_timeout],
        "retries": {task.task_id: task.retries for task in dag.tasks},
        "downstream": {task.task_id: sorted(task.downstream_task_ids) for task in dag.tasks},
        "outlets": {t.task_id: [[a.name, a.uri] for a in t.outlets] for t in dag.tasks},
    }
print(json.dumps({
    "errors": bag.import_errors, "ids": sorted(bag.dags), "dags": shown, "seconds": seconds,
    "modules": sorted(name for name in sys.modules if "." not in name),
}))
"""


def parse(folder: Path, tables: str, **env: str) -> Any:
    """What a fresh process finds in dags/, with these settings."""
    file = folder / "tables.yaml"
    file.write_text(tables)
    done = subprocess.run(
        [sys.executable, "-c", PARSE, str(REPO / "dags")],
        env={**os.environ, "AIRFLOW_HOME": str(folder), "FIRNLINE_TABLES": str(file), **env},
        check=True,
        capture_output=True,
        text=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


TABLES = """
tables:
  clock: {root: 'file:///tmp/clock', merge: {schedule: '7 * * * *'}}
  event: {root: 'file:///tmp/event', merge: {schedule: null}, commit_ttl: 1h}
"""


@pytest.fixture(scope="module")
def parsed(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return parse(tmp_path_factory.mktemp("home"), TABLES)


def test_every_table_has_its_dag_and_no_file_fails(parsed: Any) -> None:
    assert parsed["errors"] == {}
    assert parsed["ids"] == ["merge__clock", "merge__event"]


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


def test_the_report_follows_plan_and_merge_and_is_what_tells_the_asset(parsed: Any) -> None:
    dag = parsed["dags"]["merge__clock"]
    assert dag["downstream"] == {"plan": ["merge", "report"], "merge": ["report"], "report": []}
    assert dag["outlets"] == {
        "plan": [],
        "merge": [],
        "report": [["clock", "file:///tmp/clock"]],
    }


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
        "dry_run": False,
    }
    schemas = {name: schema for name, (_, schema) in params.items()}
    assert schemas["partitions"]["type"] == ["array", "null"]
    assert schemas["partitions"]["items"]["type"] == "string"
    assert schemas["dry_run"]["type"] == "boolean"


def test_a_mistake_in_the_settings_is_an_import_error_that_names_file_and_field(
    tmp_path: Path,
) -> None:
    found = parse(tmp_path, "tables: {t: {root: 'file:///tmp/t', merge: {target: 1GiB}}}")
    (error,) = found["errors"].values()
    assert f"{tmp_path / 'tables.yaml'}: tables.t.merge.target: is no setting" in error
    assert found["ids"] == []


def thousand() -> str:
    lines = [f"  t{i:04d}: {{root: 's3://bucket/t{i:04d}'}}" for i in range(1000)]
    return "\n".join(["tables:", *lines])


def test_a_thousand_tables_are_parsed_long_before_airflow_gives_up(tmp_path: Path) -> None:
    found = parse(tmp_path, thousand())
    assert found["errors"] == {}
    assert len(found["ids"]) == 1000
    assert not set(found["modules"]) & set(HEAVY)
    # It gives an import up after 30 s; measured: 5 s.
    assert found["seconds"] < 25


def test_a_task_that_starts_makes_its_own_dag_only(tmp_path: Path) -> None:
    found = parse(tmp_path, thousand(), _AIRFLOW_PARSING_CONTEXT_DAG_ID="merge__t0500")
    assert found["ids"] == ["merge__t0500"]
    assert found["seconds"] < 5
    other = parse(tmp_path, thousand(), _AIRFLOW_PARSING_CONTEXT_DAG_ID="someone_s_dag")
    assert (other["ids"], other["errors"]) == ([], {})
