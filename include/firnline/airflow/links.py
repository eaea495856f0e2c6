"""The link from a task to what its run did."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from airflow.sdk import BaseOperatorLink

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator
    from airflow.sdk.types import TaskInstanceKey


class RunLink(BaseOperatorLink):
    """To the transactions and figures of the run: the XCom of the task that reports them."""

    name = "Transactions of this run"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:  # noqa: ARG002
        """Airflow asks this at the end of the task, in its process, and keeps the answer."""
        dag, run, task = (quote(part) for part in (ti_key.dag_id, ti_key.run_id, ti_key.task_id))
        return f"/dags/{dag}/runs/{run}/tasks/{task}/xcom"
