from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from firnline.airflow.links import RunLink


@pytest.fixture(autouse=True)
def _base(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://host/airflow/")


def link(operator: Any) -> str:
    key: Any = SimpleNamespace(
        dag_id="ttl__a.b", run_id="manual__2024-01-01T00:00:00+00:00", task_id="x"
    )
    return RunLink().get_link(operator, ti_key=key)


def test_a_task_links_to_its_own_figures() -> None:
    run = "manual__2024-01-01T00%3A00%3A00%2B00%3A00"
    assert link(SimpleNamespace()) == f"https://host/airflow/dags/ttl__a.b/runs/{run}/tasks/x/xcom"


def test_a_job_links_to_the_task_that_reports_on_it() -> None:
    assert link(SimpleNamespace(reports_in="report")).endswith("/tasks/report/xcom")
