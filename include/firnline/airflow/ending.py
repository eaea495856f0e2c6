"""The last task of a graph whose other last tasks may be skipped before the work has ended."""

from __future__ import annotations

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import BaseOperator

END = "end"


def then_end(*working: BaseOperator) -> None:
    """Create the task by which Airflow tells whether the run has succeeded.

    Airflow goes by the last tasks, and one that is skipped counts as a success: of a run whose
    ``mirror`` was skipped in advance it would tell nobody that the work has failed. The scheduler
    gives this task its state without starting it.
    """
    list(working) >> EmptyOperator(task_id=END, trigger_rule="none_failed")
