"""The link from a task to what its run did."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from airflow.sdk import BaseOperatorLink

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator
    from airflow.sdk.types import TaskInstanceKey


class RunLink(BaseOperatorLink):
    """To the transactions and figures of the run: the XCom of the task that reports them.

    That is the operator's ``reports_in``, or the task itself.
    """

    @property
    def name(self) -> str:
        """On the button."""
        return "Transactions of this run"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """Airflow asks this at the end of the task, in its process, and keeps the answer."""
        from airflow.sdk.configuration import conf

        base = str(conf.get("api", "base_url", fallback="/")).rstrip("/")
        task = getattr(operator, "reports_in", ti_key.task_id)
        dag_id, run_id, task_id = (quote(part) for part in (ti_key.dag_id, ti_key.run_id, task))
        return f"{base}/dags/{dag_id}/runs/{run_id}/tasks/{task_id}/xcom"
