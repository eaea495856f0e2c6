"""The link from a task to the transactions and figures of its run."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from airflow.sdk import BaseOperatorLink

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator
    from airflow.sdk.types import TaskInstanceKey


class RunLink(BaseOperatorLink):
    """Links to the XCom of the task that reports the transactions and figures of the run.

    That is the operator's ``reports_in``, or the task itself.
    """

    @property
    def name(self) -> str:
        """Return the label of the button."""
        return "Transactions of this run"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """Return the URL. Airflow calls this in the task's process, at its end, and stores it."""
        from airflow.sdk.configuration import conf

        base = str(conf.get("api", "base_url", fallback="/")).rstrip("/")
        task = getattr(operator, "reports_in", ti_key.task_id)
        dag_id, run_id, task_id = (quote(part) for part in (ti_key.dag_id, ti_key.run_id, task))
        return f"{base}/dags/{dag_id}/runs/{run_id}/tasks/{task_id}/xcom"
