"""DAG files read in this process: which pool their tasks hold, and when their reports come."""

from __future__ import annotations

import runpy
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG

from firnline.airflow import dags
from tools.bootstrap import REPO

FILES = sorted((REPO / "dags").glob("*.py"))
TABLES = ("first", "second")
REPORTED = {"delete_where", "erase", "merge", "replace", "rewrite_partitions"}
"""What a Spark job does and a task after it reports."""


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, DAG]:
    """The DAGs of two tables, by id."""
    settings = tmp_path / "tables.yaml"
    tables = "".join(
        f"  {name}: {{root: 's3://b/{name}', partition_by: ['month(ts)'],"
        " ttl: {column: ts, keep: 30d}}\n"
        for name in TABLES
    )
    settings.write_text(f"tables:\n{tables}")
    monkeypatch.setenv("FIRNLINE_TABLES", str(settings))
    found: dict[str, DAG] = {}
    real = dags.operation_dag

    @contextmanager
    def noted(*args: Any, **named: Any) -> Iterator[DAG]:
        with real(*args, **named) as dag:
            found[dag.dag_id] = dag
            yield dag

    monkeypatch.setattr(dags, "operation_dag", noted)
    for path in FILES:
        runpy.run_path(str(path))
    return found


def test_every_file_makes_a_dag_for_every_table(made: dict[str, DAG]) -> None:
    assert set(made) == {f"{path.stem}__{table}" for path in FILES for table in TABLES}


def test_what_works_on_a_table_holds_a_pool_of_that_table(made: dict[str, DAG]) -> None:
    for name, dag in made.items():
        pools = {task.pool for task in dag.tasks if task.pool != "default_pool"}
        assert [pool.partition(".")[0] for pool in pools] == [name.partition("__")[2]], name


def test_a_report_comes_after_a_job_that_failed_too(made: dict[str, DAG]) -> None:
    """As a tear-down, which does not make a success of the run either."""
    reports = {
        name: dag.task_dict["report"] for name, dag in made.items() if dag.has_task("report")
    }
    assert {name.partition("__")[0] for name in reports} == REPORTED
    assert [name for name, report in reports.items() if not report.is_teardown] == []
