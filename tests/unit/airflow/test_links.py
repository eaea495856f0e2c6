from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urljoin

import pytest

from firnline.airflow import versions
from firnline.airflow.links import RunLink
from firnline.airflow.merge import MergeWork
from firnline.airflow.tables import OneTable, TableOfRun
from firnline.airflow.works import RestoreWork, VerifyWork
from tests.support.tables import loaded

RUN = "manual__2024-01-01T00:00:00+00:00"
QUOTED = "manual__2024-01-01T00%3A00%3A00%2B00%3A00"


def link(operator: Any, dag_id: str, table: str = "") -> str:
    context = {"dag_run": SimpleNamespace(conf={"table": table})}
    key: Any = SimpleNamespace(
        dag_id=dag_id, run_id=RUN, task_id="x", get_template_context=lambda: context
    )
    return RunLink().get_link(operator, ti_key=key)


@pytest.mark.skipif(not versions.AIRFLOW_3_1_PLUS, reason="Airflow 3.0 has no page")
def test_a_task_links_to_the_transactions_of_its_run_on_the_page_of_its_table() -> None:
    found = link(SimpleNamespace(work=MergeWork()), "merge__a.b")
    assert found == f"dags/merge__a.b/plugin/firnline-table?dag=merge__a.b&run={QUOTED}"


def test_work_that_makes_no_transaction_links_to_its_figures() -> None:
    found = link(SimpleNamespace(work=VerifyWork(), reports_in="verify"), "verify__t")
    assert found == f"dags/verify__t/runs/{QUOTED}/tasks/verify/xcom"


@pytest.mark.skipif(not versions.AIRFLOW_3_1_PLUS, reason="Airflow 3.0 has no page")
def test_a_dag_for_all_tables_links_to_its_tab_with_the_table_of_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = loaded(tmp_path, f"tables: {{t: {{root: 'file://{tmp_path}/t'}}}}")
    monkeypatch.setattr("firnline.airflow.tables.current_settings", lambda: settings)
    operator = SimpleNamespace(work=RestoreWork(), table=TableOfRun("restore", ("t",), 1))
    expected = f"dags/restore/plugin/firnline-table?table=t&dag=restore&run={QUOTED}"
    assert link(operator, "restore", "t") == expected


@pytest.mark.skipif(not versions.AIRFLOW_3_1_PLUS, reason="Airflow 3.0 has no page")
@pytest.mark.parametrize("base", ["https://host:81/", "https://other/airflow/"])
def test_a_link_fits_wherever_airflow_is_served(base: str) -> None:
    """The interface's own ``<base>`` has the path under which it is served."""
    operator = SimpleNamespace(work=MergeWork(), table=OneTable)
    assert urljoin(base, link(operator, "merge__t")).startswith(f"{base}dags/merge__t/plugin/")
