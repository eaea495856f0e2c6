"""The Airflow of the demo: the repository's own DAGs, its connections and pools."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from demo.place import CONNECTION, TABLE, Place
from firnline.errors import EnvironmentFaultError, FirnlineError
from firnline.log.txn_file import RunIdentity
from firnline.state.history import run_report
from firnline.table import Table
from tools.airflow_api import ENDED, AirflowApi
from tools.airflow_backfill import create_backfill
from tools.airflow_home import StackOptions
from tools.airflow_stack import AirflowStack
from tools.databases import Database

DAG_ID = f"merge__{TABLE}"
_LONGEST_SECONDS = 600.0
_RETRIED = "up_for_retry"


class RunFailedError(FirnlineError):
    """The DAG run of the demo did not succeed."""


def demo_stack(place: Place, database: Database, *, schedules: bool = False) -> AirflowStack:
    """The stack for a place, not started, on the database of its home; writes its pools' file.

    Raises:
        EnvironmentFaultError: `firnline pools` does not answer.
    """
    place.airflow_home.mkdir(parents=True, exist_ok=True)
    pools = place.airflow_home / "pools.json"
    pools.write_text(firnline(place, "pools"), encoding="utf-8")
    options = StackOptions(env=place.table_env(), pools=pools, schedules=schedules)
    return AirflowStack(place.airflow_home, options, database.server)


def firnline(place: Place, *arguments: str) -> str:
    """Output of one `firnline` command. Raises EnvironmentFaultError with what it said."""
    program = Path(sys.executable).with_name("firnline")
    done = subprocess.run(
        [str(program), *arguments],
        env={**os.environ, **place.env()},
        check=False,
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        raise EnvironmentFaultError(
            f"`firnline {' '.join(arguments)}` failed: {done.stderr.strip()[-500:]}",
            next_step="repair what it says",
        )
    return done.stdout


def add_connections(api: AirflowApi, place: Place) -> None:
    """Create, or bring up to date, the connections that the DAG of the table uses."""
    wanted: list[dict[str, Any]] = [
        {
            "connection_id": "spark_default",
            "conn_type": "spark",
            "host": _master(place),
            "extra": json.dumps({"deploy-mode": "client"}),
        }
    ]
    if place.server is not None:
        # As an operator types them into the form; nothing else on this machine knows the keys.
        extra = {"endpoint_url": place.server.endpoint, "region_name": place.server.region}
        wanted.append(
            {
                "connection_id": CONNECTION,
                "conn_type": "aws",
                "login": place.server.access_key,
                "password": place.server.secret_key,
                "extra": json.dumps(extra),
            }
        )
    found = api.call("GET", "/connections", limit=1000)["connections"]
    known = {connection["connection_id"] for connection in found}
    for connection in wanted:
        name = connection["connection_id"]
        if name in known:
            api.call("PATCH", f"/connections/{name}", connection)
        else:
            api.call("POST", "/connections", connection)


def _master(place: Place) -> str:
    """The Spark master, as a connection names it."""
    if place.cluster is not None:
        return place.cluster.master
    return f"local[{min(4, os.cpu_count() or 1)}]"


def run_merge(
    stack: AirflowStack, table: Table, on_progress: Callable[[str, int], None]
) -> dict[str, float]:
    """Trigger the table's merge and watch it to its end.

    Args:
        stack: ready.
        table: to read the progress from.
        on_progress: called with the states of the tasks and the parts merged and committed.

    Returns:
        Seconds by task.

    Raises:
        RunFailedError: with the task that failed, its first error and its log.
    """
    run_id = stack.api.trigger(DAG_ID)
    run = RunIdentity(dag_id=DAG_ID, run_id=run_id)

    def tell(states: str) -> None:
        on_progress(states, run_report(table, run).counts.parts_in)

    return watch(stack, DAG_ID, run_id, tell)


def run_dag(
    stack: AirflowStack, dag_id: str, conf: dict[str, Any], tell: Callable[[str], None]
) -> float:
    """Trigger a DAG and watch its run to the end; the seconds its tasks took. Raises as ``watch``.

    Args:
        stack: ready.
        dag_id: of one of the table's DAGs.
        conf: params of the run.
        tell: called with the states of the tasks.
    """
    return sum(watch(stack, dag_id, stack.api.trigger(dag_id, conf), tell).values())


def run_backfill(
    stack: AirflowStack,
    dag_id: str,
    days: tuple[str, str],
    conf: dict[str, Any],
    tell: Callable[[str], None],
) -> list[float]:
    """`airflow backfill create`, watched to the end; seconds of each of its runs, in order.

    Args:
        stack: ready.
        dag_id: of one of the table's DAGs.
        days: first and last, as ``2013-04-01``.
        conf: params of every run.
        tell: called with the states of the tasks of the run that is under way.

    Raises:
        RunFailedError: one of the runs failed, or there was none.
    """
    stack.api.wait_dag(dag_id)
    stack.api.call("PATCH", f"/dags/{dag_id}", {"is_paused": False})
    create_backfill(stack, dag_id, days, conf)
    runs = [run for run in stack.api.runs(dag_id) if run["run_type"] == "backfill"]
    if not runs:
        raise RunFailedError(
            f"the backfill of {dag_id} from {days[0]} to {days[1]} made no run",
            next_step=f"read the logs in {stack.programs.logs}",
        )
    found = []
    for number, run in enumerate(sorted(runs, key=lambda run: str(run["logical_date"])), 1):

        def tell_which(states: str, number: int = number) -> None:
            tell(f"run {number} of {len(runs)}: {states}")

        found.append(sum(watch(stack, dag_id, run["dag_run_id"], tell_which).values()))
    return found


def watch(
    stack: AirflowStack, dag_id: str, run_id: str, tell: Callable[[str], None]
) -> dict[str, float]:
    """Watch a run to its end; seconds by task.

    Raises:
        RunFailedError: with the task that failed, its first error and its log.
    """
    deadline = time.monotonic() + _LONGEST_SECONDS
    state = ""
    while state not in ENDED and time.monotonic() < deadline:
        state = stack.api.run_state(dag_id, run_id)
        states = stack.api.task_states(dag_id, run_id)
        if _RETRIED in states.values():
            break  # a minute is long to wait for what a demo should not need
        tell(", ".join(f"{task} {found or 'waits'}" for task, found in states.items()))
        time.sleep(0.5)
    tasks = {task["task_id"]: task for task in stack.api.tasks(dag_id, run_id)}
    if state != "success":
        raise _failure(stack, dag_id, run_id, tasks)
    return {name: float(task["duration"] or 0.0) for name, task in tasks.items()}


# --- failures -------------------------------------------------------------------------------------


def _failure(
    stack: AirflowStack, dag_id: str, run_id: str, tasks: dict[str, dict[str, Any]]
) -> RunFailedError:
    failed = [name for name, task in tasks.items() if task["state"] in {"failed", _RETRIED}]
    if not failed:
        states = ", ".join(f"{name} {task['state']}" for name, task in tasks.items())
        return RunFailedError(
            f"{dag_id} has not ended well after {_LONGEST_SECONDS:.0f} s ({states})",
            next_step=f"read the logs in {stack.programs.logs}",
        )
    name = min(failed, key=lambda task: str(tasks[task]["end_date"]))
    folder = stack.home / "logs" / f"dag_id={dag_id}" / f"run_id={run_id}" / f"task_id={name}"
    said = first_error(stack.task_log(dag_id, run_id, name))
    return RunFailedError(f"{dag_id}: task {name} failed: {said}", next_step=f"read {folder}")


def first_error(log: str) -> str:
    """The line of a task's log (JSON lines) that says most about why the task failed."""
    errors: list[str] = []
    for line in log.splitlines():
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        raised = entry.get("error_detail") or []
        if raised and raised[0].get("exc_value"):
            # What ended the task says more than what was logged on the way.
            return str(raised[0]["exc_value"]).splitlines()[0]
        if entry.get("level") in {"error", "critical"}:
            errors.append(str(entry.get("event")).splitlines()[0])
    return errors[0] if errors else "its log does not say why"
