"""The link from a task to what its run did."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from airflow.sdk import BaseOperatorLink

from firnline.airflow.versions import AIRFLOW_3_1_PLUS
from firnline.operations.dag_ids import TABLE, parse_dag_id

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator
    from airflow.sdk.types import TaskInstanceKey

TAB = "plugin/firnline-table"
"""Path of the page on a table below its DAG's, as the plugin names it."""


class RunLink(BaseOperatorLink):
    """Links to the run's transactions on the page of the table.

    Where there is no such page, or the work makes no transactions, to the XCom of the task that
    reports the figures: the operator's ``reports_in``, or the task itself.

    The link is relative to the address of Airflow's interface, which resolves it against its own
    base: it stays right when host, port or path of Airflow change after the run.
    """

    @property
    def name(self) -> str:
        """Return the label of the button."""
        return "Transactions of this run"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """Return the URL. Airflow calls this in the task's process, at its end, and stores it."""
        page = _page_of(operator, ti_key) if AIRFLOW_3_1_PLUS else None
        if page is not None:
            run = urlencode({**page, "dag": ti_key.dag_id, "run": ti_key.run_id})
            return f"dags/{quote(ti_key.dag_id)}/{TAB}?{run}"
        task = getattr(operator, "reports_in", ti_key.task_id)
        dag, run_id, task_id = (quote(part) for part in (ti_key.dag_id, ti_key.run_id, task))
        return f"dags/{dag}/runs/{run_id}/tasks/{task_id}/xcom"


def _page_of(operator: Any, ti: Any) -> dict[str, str] | None:  # noqa: ANN401 - a task of ours, its instance
    """Return what the tab of the DAG needs to show the table of the run; None without a page."""
    dag = None if getattr(operator, "in_their_dag", False) else parse_dag_id(ti.dag_id)
    work = getattr(operator, "work", None)
    if dag is None or work is None or not work.about.changes_table:
        return None
    if dag.table is not None:
        return {}
    # Airflow passes the running task's instance, not its key alone.
    return {TABLE: operator.table.of_run(ti.get_template_context()).name}
