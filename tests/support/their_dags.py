"""Tasks of ours in a DAG that is not: what Airflow gives them, and a cluster in this process."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator

from firnline.airflow.job_output import JobOutput
from firnline.airflow.runs import run_identity
from firnline.airflow.submit import SubmitJob
from firnline.operations.local import local_engine
from firnline.operations.operation import Work, decided
from firnline.table import Table, open_table
from tests.support.airflow_context import XComs
from tests.support.tables import loaded


class AliasEvents:
    """Events that a task adds for the asset of a table."""

    def __init__(self) -> None:
        self.added: list[tuple[str, dict[str, Any]]] = []

    def __getitem__(self, alias: Any) -> AliasEvents:
        return self

    def add(self, asset: Any, extra: dict[str, Any]) -> None:
        self.added.append((asset.name, extra))


def context_of(task: Any, try_number: int = 1, began: datetime | None = None) -> Any:
    """The context of a scheduled run of the DAG ``etl``, whose configuration is none of ours."""
    ti = XComs({})
    ti.try_number = try_number
    ti.max_tries = int(task.retries)
    ti.task = task
    ti.task_id, ti.map_index = task.task_id, -1  # type: ignore[attr-defined] # as Airflow's
    run = SimpleNamespace(
        conf={"of": "theirs"}, run_type="scheduled", triggering_user_name="", start_date=began
    )
    return {
        "dag": SimpleNamespace(dag_id="etl"),
        "dag_run": run,
        "params": {"of": "theirs", "dry_run": True},
        "run_id": "scheduled__1",
        "ti": ti,
        "outlet_events": AliasEvents(),
        "triggering_asset_events": {},
    }


def tables(folder: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> Table:
    """Settings that Airflow's processes find; return the table ``events`` of them."""
    settings = loaded(folder, text.format(folder=folder))
    monkeypatch.setenv("FIRNLINE_TABLES", str(folder / "tables.yaml"))
    return open_table(settings.table("events"))


def run_jobs_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have what would be submitted run in this process, as the program of the job does it."""
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", '{"conn_type": "spark", "host": "local"}')
    hook = SimpleNamespace(check=lambda: None, output=JobOutput())
    monkeypatch.setattr(SubmitJob, "_get_hook", lambda _: hook)

    def execute(task: Any, context: Any) -> None:
        table = open_table(task.table.of_run(context))
        work = Work(table, run_identity(context), lambda: local_engine(table), consent=decided)
        task.work.about.load().run(work, task.work.parse_params(context))

    monkeypatch.setattr(SparkSubmitOperator, "execute", execute)
