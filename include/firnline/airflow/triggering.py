"""Runs of other DAGs, looked at and started from within a task: many by one process.

A task of TriggerDagRunOperator starts one run, at the price of a task start (0.7 CPU seconds). Its
task runner does that with one message to the task's supervisor; this module sends the same message
once for each run. What else it asks is asked through the task instance.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowRuntimeError, ErrorType

from firnline.errors import EnvironmentFaultError
from firnline.operations.fleet.plan import Held

if TYPE_CHECKING:
    from airflow.sdk.types import RuntimeTaskInstanceProtocol

_UNDER_WAY = ("queued", "running")
_NOT_FOUND = 404


class PlannedRuns:
    """The runs of the tables' DAGs, as the task of another DAG sees them.

    Args:
        ti: the task instance of this process.
    """

    def __init__(self, ti: RuntimeTaskInstanceProtocol) -> None:
        self._ti: Any = ti

    def held(self, dag_id: str, most: int = 1, run_id: str | None = None) -> Held | None:
        """Return why no run of a DAG is to be started now; None if one may be.

        Two requests to Airflow's API server, with ``run_id`` three.

        Args:
            dag_id: of the DAG.
            most: runs of it that may be queued or running (``merge.slots``).
            run_id: of the run to start, which there may be already.
        """
        try:
            paused = self._ti.get_dag(dag_id).is_paused
        except AirflowRuntimeError as error:
            if not _is_missing(error):
                raise
            return Held(f"Airflow has no DAG {dag_id} yet")
        # Also of a DAG that is paused: its queued run starts first when it goes on.
        if self._ti.get_dr_count(dag_id, states=list(_UNDER_WAY)) >= most:
            which = f"a run of {dag_id} is" if most == 1 else f"{most} runs of {dag_id} are"
            return Held(f"{which} queued or running", under_way=True)
        if paused:
            return Held(f"the DAG {dag_id} is paused")
        if run_id is not None and self._ti.get_dr_count(dag_id, run_ids=[run_id]):
            return Held(f"its run {run_id} is over")
        return None

    def start(self, dag_id: str, run_id: str, conf: Mapping[str, Any], note: str) -> bool:
        """Start a run; False if there is a run with this id already. One request.

        Raises:
            EnvironmentFaultError: Airflow refuses it.
        """
        from airflow.sdk.execution_time.comms import ErrorResponse, TriggerDagRun
        from airflow.sdk.execution_time.task_runner import SUPERVISOR_COMMS

        wanted = TriggerDagRun(dag_id=dag_id, run_id=run_id, conf=dict(conf), note=note)
        try:
            answer = SUPERVISOR_COMMS.send(wanted)
        except AirflowRuntimeError as error:
            raise EnvironmentFaultError(
                f"Airflow did not start run {run_id} of {dag_id}: {error}",
                next_step="the next run of the planner tries again",
            ) from None
        exists = ErrorType.DAGRUN_ALREADY_EXISTS
        return not (isinstance(answer, ErrorResponse) and answer.error == exists)


def _is_missing(error: AirflowRuntimeError) -> bool:
    detail = error.error.detail or {}
    return detail.get("status_code") == _NOT_FOUND
