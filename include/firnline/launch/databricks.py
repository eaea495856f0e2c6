"""Databricks: one-time runs of a Python file."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from firnline.launch.launcher import Application, Found, Progress, State
from firnline.settings.launchers import DatabricksSettings

_LOG = logging.getLogger(__name__)
_RESULTS: Mapping[str, State] = {
    "SUCCESS": "succeeded",
    "SUCCESS_WITH_FAILURES": "succeeded",
    "CANCELED": "cancelled",
    "CANCELLED": "cancelled",
}
_OVER = frozenset(("TERMINATED", "SKIPPED", "INTERNAL_ERROR"))
_PAGE = 25


class Api(Protocol):
    """The Jobs API 2.1. Raises PlatformError or EnvironmentFaultError."""

    def __call__(self, method: str, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer to a request, such as ``("GET", "jobs/runs/get", {"run_id": 1})``."""
        ...


@dataclass(frozen=True, slots=True)
class Databricks:
    """Runs on a cluster.

    Args:
        api: asks the workspace.
        settings: which cluster.
    """

    api: Api
    settings: DatabricksSettings
    platform: str = "Databricks"
    cancel_ends_driver: bool = True

    def find(self, beginning: str) -> list[Found]:
        """Return the runs on the way whose names begin so."""
        found: list[Found] = []
        page: dict[str, Any] = {}
        while True:
            asked = {"active_only": True, "limit": _PAGE, **page}
            answer = self.api("GET", "jobs/runs/list", asked)
            found += [
                Found(str(run["run_id"]), run["run_name"])
                for run in answer.get("runs", ())
                if run.get("run_name", "").startswith(beginning)
            ]
            if not answer.get("next_page_token"):
                return found
            page = {"page_token": answer["next_page_token"]}

    def start(self, application: Application) -> str:
        """Submit a run; the same token submits one only.

        A cluster that is there has its Spark configuration from its own start on, and takes none.
        """
        package, settings = application.package, self.settings
        where: dict[str, Any] = {"existing_cluster_id": settings.cluster}
        if settings.new_cluster is None:
            room = application.conf.get("spark.executor.memoryOverhead", "none")
            _LOG.info(
                "the cluster %s of Databricks keeps its own Spark configuration: spark.conf of the "
                "settings is not used, and neither is the room for kernels beside the JVM (%s), "
                "which the memory of its workers has to leave; new_cluster takes both",
                settings.cluster, room,
            )  # fmt: skip
        else:
            own = settings.new_cluster.get("spark_conf", {})
            conf = {**application.conf, **own}
            where = {"new_cluster": {**settings.new_cluster, "spark_conf": conf}}
        task = {
            "task_key": "firnline",
            **where,
            "libraries": [{"whl": package.wheel}],
            "spark_python_task": {
                "python_file": package.entry,
                "parameters": application.arguments,
            },
        }
        body = {
            "run_name": application.name,
            "idempotency_token": application.token,
            "timeout_seconds": application.minutes * 60,
            "tasks": [task],
        }
        return str(self.api("POST", "jobs/runs/submit", body)["run_id"])

    def look(self, job: str) -> Progress:
        """Return how far a run is."""
        state = self.api("GET", "jobs/runs/get", {"run_id": int(job)})["state"]
        cycle = state.get("life_cycle_state", "")
        result = state.get("result_state") or cycle
        detail = ": ".join(filter(None, (result, state.get("state_message"))))
        over = cycle in _OVER
        return Progress(_RESULTS.get(result, "failed") if over else "running", detail)

    def cancel(self, job: str) -> None:
        """Cancel a run; no error if it is over."""
        self.api("POST", "jobs/runs/cancel", {"run_id": int(job)})

    def logs(self, job: str) -> str:
        """Return where the driver's output is."""
        return f"the page of run {job} in the workspace"
