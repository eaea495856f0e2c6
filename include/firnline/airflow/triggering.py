"""Runs of other DAGs, looked at and started from within a task: many by one process.

A task of TriggerDagRunOperator starts one run, at the price of a task start (0.7 CPU seconds). Its
task runner does that with one message to the task's supervisor; this module sends the same message
once for each run. What else it asks is asked through the task instance.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowRuntimeError, ErrorType

from firnline.airflow import versions
from firnline.airflow.memory import keep, recall
from firnline.errors import EnvironmentFaultError
from firnline.operations.fleet.plan import Held

if TYPE_CHECKING:
    from airflow.sdk.types import RuntimeTaskInstanceProtocol

BEGUN = "firnline.fleet.begun"
"""Variable of Airflow in which the planner remembers the merges that it has started."""
_UNDER_WAY = ("queued", "running")
_NOT_FOUND = 404


class PlannedRuns:
    """The runs of the tables' DAGs, as the task of another DAG sees them.

    Args:
        ti: the task instance of this process.
    """

    def __init__(self, ti: RuntimeTaskInstanceProtocol) -> None:
        self._ti: Any = ti
        self._paused: dict[str, bool | None] = {}
        self._begun: dict[str, list[str]] | None = None

    def held(
        self,
        dag_id: str,
        most: int = 1,
        run_id: str | None = None,
        begun: Collection[str] | None = None,
    ) -> Held | None:
        """Return why no run of a DAG is to be started now; None if one may be.

        Requests to Airflow's API server: one for each DAG, one for the runs under way (none if
        ``begun`` is empty), and one with ``run_id``.

        Args:
            dag_id: of the DAG.
            most: runs of it that may be queued or running (``merge.slots``).
            run_id: of the run to start, which there may be already.
            begun: ids of the runs that count; None: all of the DAG.
        """
        paused = self._is_paused(dag_id)
        if paused is None:
            return Held(f"Airflow has no DAG {dag_id} yet")
        # Also of a DAG that is paused: its queued run starts first when it goes on.
        if self._under_way(dag_id, begun) >= most:
            which = f"a run of {dag_id} is" if most == 1 else f"{most} runs of {dag_id} are"
            of = "" if begun is None else " for it"
            return Held(f"{which} queued or running{of}", under_way=True)
        if paused:
            return Held(f"the DAG {dag_id} is paused")
        if run_id is not None and self._ti.get_dr_count(dag_id, run_ids=[run_id]):
            return Held(f"its run {run_id} is over")
        return None

    def begun(self) -> dict[str, list[str]]:
        """Return what ``remember`` was given last: table -> ids of merges. One request in all."""
        if self._begun is None:
            self._begun = recall(BEGUN, dict[str, list[str]], {})
        return self._begun

    def remember(self, begun: Mapping[str, Sequence[str]]) -> None:
        """Keep the ids of merges by table. One request.

        Of a DAG for all tables Airflow does not tell which runs are those of one table.
        """
        keep(BEGUN, begun, "merges that fleet__merge has started, by table")

    def _under_way(self, dag_id: str, run_ids: Collection[str] | None) -> int:
        if run_ids is not None and not run_ids:
            return 0
        ids = None if run_ids is None else list(run_ids)
        return int(self._ti.get_dr_count(dag_id, run_ids=ids, states=list(_UNDER_WAY)))

    def _is_paused(self, dag_id: str) -> bool | None:
        """Return None if Airflow has no such DAG."""
        if dag_id not in self._paused:
            try:
                self._paused[dag_id] = versions.is_paused(self._ti, dag_id)
            except AirflowRuntimeError as error:
                if not _is_missing(error):
                    raise
                self._paused[dag_id] = None
        return self._paused[dag_id]

    def start(self, dag_id: str, run_id: str, conf: Mapping[str, Any], note: str) -> bool:
        """Start a run; False if there is a run with this id already. One request.

        Raises:
            EnvironmentFaultError: Airflow refuses it.
        """
        from airflow.sdk.execution_time.comms import ErrorResponse
        from airflow.sdk.execution_time.task_runner import SUPERVISOR_COMMS

        wanted = versions.trigger(dag_id, run_id, dict(conf), note)
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
