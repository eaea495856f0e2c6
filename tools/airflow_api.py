"""Airflow's REST API (v2), as far as the demo and the tests drive a local stack with it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import Any

import httpx

from firnline.errors import EnvironmentFaultError, UsageError

ENDED = frozenset({"success", "failed"})
_POLL_SECONDS = 0.2
"""Between two questions to the server: each of them takes it some 20 ms of CPU."""
NEARBY_SECONDS = 0.05
"""Seconds between two cheap checks, such as of a file or a process."""
_WAIT_SECONDS = 0.25
"""Between two looks of the server at its database, while a run is awaited."""
HUNG_SECONDS = 600.0
"""Seconds until a server counts as hung; on a busy machine an answer may take minutes."""


class AirflowApi:
    """One API server where everybody is an admin.

    Args:
        url: ``http://host:port``.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self._client = httpx.Client(base_url=url, timeout=HUNG_SECONDS)
        self._token: str | None = None

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def call(self, method: str, path: str, body: Any = None, **params: Any) -> Any:
        """One request, ``path`` after ``/api/v2``; the decoded answer.

        Raises:
            UsageError: Airflow refused it (any status from 400).
        """
        answer = self._client.request(
            method,
            f"/api/v2{path}",
            json=body,
            params=params,
            headers={"Authorization": f"Bearer {self._login()}"},
        )
        if answer.is_error:
            raise UsageError(
                f"Airflow answered {answer.status_code} to {method} {path}: {answer.text[:500]}",
                next_step="repair the request",
            )
        return answer.json() if answer.content else None

    def _login(self) -> str:
        if self._token is None:
            self._token = self._client.get("/auth/token").raise_for_status().json()["access_token"]
        return self._token

    # --- the stack --------------------------------------------------------------------------------

    def health(self) -> dict[str, str | None]:
        """Status by component; empty while the server does not answer."""
        try:
            answer = self._client.get("/api/v2/monitor/health", timeout=5.0)
        except httpx.TransportError:
            return {}
        if answer.is_error:
            return {}
        return {name: part.get("status") for name, part in answer.json().items() if part}

    def import_errors(self) -> dict[str, str]:
        """Traceback by DAG file."""
        found = self.call("GET", "/importErrors", limit=100)["import_errors"]
        return {error["filename"]: error["stack_trace"] for error in found}

    def pools(self) -> dict[str, dict[str, Any]]:
        """Pools by name, as Airflow describes them (slots, running, queued and so on)."""
        return {pool["name"]: pool for pool in self.call("GET", "/pools", limit=1000)["pools"]}

    def set_pools(self, pools: Mapping[str, Mapping[str, Any]]) -> None:
        """Do what ``airflow pools import`` does, without the seconds that it takes to start.

        Raises:
            UsageError: Airflow refused one of them.
        """
        entities = [{"name": name, **pool} for name, pool in pools.items()]
        create = {"action": "create", "action_on_existence": "overwrite", "entities": entities}
        answer = self.call("PATCH", "/pools", {"actions": [create]})
        if errors := answer["create"]["errors"]:
            raise UsageError(
                f"Airflow refused pools: {errors}", next_step="repair what `firnline pools` prints"
            )

    # --- DAGs and runs ----------------------------------------------------------------------------

    def dag_ids(self) -> list[str]:
        """DAGs that the scheduler knows."""
        return [dag["dag_id"] for dag in self.call("GET", "/dags", limit=1000)["dags"]]

    def wait_dag(self, dag_id: str, seconds: float = HUNG_SECONDS) -> None:
        """Wait until the DAG is parsed. Raises EnvironmentFaultError with the import errors."""

        def known() -> bool:
            return dag_id in self.dag_ids()

        if not wait_until(known, seconds):
            raise EnvironmentFaultError(
                f"Airflow knows no DAG {dag_id} after {seconds:.0f} s, only {self.dag_ids()}; "
                f"import errors: {self.import_errors()}",
                next_step="repair the DAG file",
            )

    def trigger(self, dag_id: str, conf: dict[str, Any] | None = None, **more: Any) -> str:
        """Start a manual run of a DAG (unpaused and awaited if need be); its run id.

        Args:
            conf: its params.
            more: further fields of the request, such as ``logical_date`` (ISO text).
        """
        self.wait_dag(dag_id)
        self.call("PATCH", f"/dags/{dag_id}", {"is_paused": False})
        body = {"logical_date": None, "conf": conf or {}, **more}
        run_id: str = self.call("POST", f"/dags/{dag_id}/dagRuns", body)["dag_run_id"]
        return run_id

    def runs(self, dag_id: str) -> list[dict[str, Any]]:
        """The DAG's runs, oldest first."""
        found: list[dict[str, Any]] = self.call(
            "GET", f"/dags/{dag_id}/dagRuns", limit=1000, order_by="id"
        )["dag_runs"]
        return found

    def run_state(self, dag_id: str, run_id: str) -> str:
        """``queued``, ``running``, ``success`` or ``failed``."""
        state: str = self.call("GET", f"/dags/{dag_id}/dagRuns/{run_id}")["state"]
        return state

    def wait_run(self, dag_id: str, run_id: str, seconds: float = HUNG_SECONDS) -> str:
        """Wait for the end of a run; its state, which is none of the ended ones on a time-out."""
        deadline = time.monotonic() + seconds
        path = f"/api/v2/dags/{dag_id}/dagRuns/{run_id}/wait"
        headers = {"Authorization": f"Bearer {self._login()}"}
        # One request: the server asks its database again and again, which is cheaper than we are.
        params = {"interval": _WAIT_SECONDS}
        with self._client.stream("GET", path, params=params, headers=headers) as answer:
            answer.raise_for_status()
            for line in answer.iter_lines():
                if json.loads(line)["state"] in ENDED or time.monotonic() >= deadline:
                    break
        return self.run_state(dag_id, run_id)

    def tasks(self, dag_id: str, run_id: str) -> list[dict[str, Any]]:
        """The run's task instances as Airflow describes them (state, try_number, times, pool)."""
        path = f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances"
        found: list[dict[str, Any]] = self.call("GET", path, limit=1000)["task_instances"]
        return found

    def task_states(self, dag_id: str, run_id: str) -> dict[str, str | None]:
        """State by task id; a mapped task's as ``task[0]``, ``task[1]``; None: not scheduled."""
        return {
            task["task_id"] + (f"[{task['map_index']}]" if task["map_index"] >= 0 else ""): (
                task["state"]
            )
            for task in self.tasks(dag_id, run_id)
        }

    def xcom(self, dag_id: str, run_id: str, task_id: str, key: str = "return_value") -> Any:
        """Return an XCom of a task. Raises UsageError when there is nothing under the key."""
        path = f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/xcomEntries/{key}"
        return self.call("GET", path, deserialize=True)["value"]


def wait_until(
    holds: Callable[[], bool], seconds: float = HUNG_SECONDS, every: float = _POLL_SECONDS
) -> bool:
    """Ask again and again; False when it never held within ``seconds``.

    Args:
        holds: the question.
        seconds: for how long.
        every: seconds between two questions; ``NEARBY_SECONDS`` where asking costs nothing.
    """
    deadline = time.monotonic() + seconds
    while True:
        if holds():
            return True
        if time.monotonic() >= deadline:
            return False
        time.sleep(every)
