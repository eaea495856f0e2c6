"""DAGs of tables whose settings have mistakes: each run fails with the sentence that says which.

They keep the ids of the DAGs that they stand for. Without them Airflow would take those away, with
their runs, and nobody would be told.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import DAG, BaseOperator

from firnline.airflow.alerts import failure_alert
from firnline.airflow.failures import airflow_failures
from firnline.airflow.settings import current_settings
from firnline.airflow.versions import AirflowFailException
from firnline.operations.dag_ids import TAG, dag_id
from firnline.settings.load import BrokenTable
from firnline.settings.model import TABLE_NAME

if TYPE_CHECKING:
    from airflow.sdk import Context

    from firnline.settings.sections import Operation

TASK = "settings"
"""Id of the only task."""


class RefuseSettings(BaseOperator):
    """Fails with the mistakes in the settings of a table.

    Args:
        table_name: the table.
        more: as BaseOperator.
    """

    template_fields = ()

    def __init__(self, *, table_name: str, **more: Any) -> None:
        super().__init__(**more)
        self.table_name = table_name

    def execute(self, context: Context) -> None:  # noqa: ARG002 - as Airflow calls it
        """Fail.

        Raises:
            AirflowFailException: with the mistakes, or, once they are corrected, what to wait for.
        """
        with airflow_failures():
            current_settings().table(self.table_name)
        raise AirflowFailException(
            f"the settings of table {self.table_name} are right by now; start a new run when "
            "Airflow has read its DAG again"
        )


def refusing_dag(table: BrokenTable, operation: Operation) -> None:
    """Make the DAG of an operation of a table whose settings have mistakes.

    It has no schedule, and the failure alert of the table as far as that is stated right.
    """
    if TABLE_NAME.fullmatch(table.name) is None:
        return  # no DAG can have such a name
    with DAG(
        dag_id=dag_id(operation, table.name),
        description=f"The settings of table {table.name} have mistakes",
        doc_md=f"### The settings of this table have mistakes\n\n{table.error}",
        schedule=None,
        catchup=False,
        tags={TAG, operation, table.name, "mistake"},
        default_args={"owner": "firnline"},
        on_failure_callback=failure_alert(table),
    ):
        RefuseSettings(task_id=TASK, table_name=table.name)
