"""Detects pools that are missing or have too many slots, in Airflow's scheduler.

A task cannot see its own pool, and a task whose pool is missing never starts, without an error. The
plugin registers this module as a listener. It is loaded into every process of Airflow, the tasks'
too, so it imports nothing until a hook needs it.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from airflow.listeners import hookimpl

from firnline.operations.dag_ids import TABLE, parse_dag_id
from firnline.operations.pools import NO_TABLE, pool_of_run, pool_problems

if TYPE_CHECKING:
    from airflow.models.dagrun import DagRun

_LOG = logging.getLogger("firnline.pools")


@hookimpl
def on_starting(component: object) -> None:
    """Log every pool of the settings that is missing or wrong, when the scheduler starts."""
    # By name: task processes call this hook too, and importing the class would load the ORM.
    if type(component).__name__ != "Job":
        return
    from firnline.errors import FirnlineError
    from firnline.operations.pools import pools_json
    from firnline.settings.load import load_settings

    try:
        wanted = pools_json(load_settings())
    except FirnlineError as error:
        _LOG.error("%s", error)
        return
    for problem in pool_problems(wanted, read_slots()):
        _LOG.error("%s", problem)


@hookimpl
def on_dag_run_running(dag_run: DagRun, msg: str) -> None:  # noqa: ARG001 - the hook's own names
    """Note the problem on the run; fail a run that would hang or could do harm."""
    dag, pool = parse_dag_id(dag_run.dag_id), pool_of_run(dag_run.dag_id, dag_run.conf)
    if dag is None or pool is None:
        return
    from firnline.airflow.notes import add_note

    slots = read_slots()
    stuck = _without_table(dag_run) if dag.table is None else []
    for problem in [*stuck, *pool_problems([pool], slots)]:
        _LOG.error("%s (run %s of %s)", problem, dag_run.run_id, dag_run.dag_id)
        # The run belongs to the scheduler's session, which saves both with what it does anyway.
        add_note(dag_run, problem)
        if stuck or not slots.get(pool) or not _commits_exclude(dag.table_of(dag_run.conf)):
            _fail(dag_run, problem)


def _without_table(dag_run: DagRun) -> list[str]:
    """Return one sentence if tasks of the run have not got the pool of its table."""
    if NO_TABLE not in read_pools(dag_run.dag_id, dag_run.run_id):
        return []
    problem = (
        f"the tasks of this run did not get the pool of table {(dag_run.conf or {}).get(TABLE)}: "
        "the process that started it lacks the policy of firnline; install the package firnline "
        "wherever Airflow runs, restart it, and start a new run"
    )
    return [problem]


def read_pools(dag_id: str, run_id: str) -> set[str]:
    """Return the pools of the tasks of a run, through a connection of its own."""
    from airflow import settings
    from sqlalchemy import column, select, table

    engine: Any = settings.engine
    tasks = table("task_instance", *map(column, ("dag_id", "run_id", "pool"))).c
    query = select(tasks.pool).where(tasks.dag_id == dag_id, tasks.run_id == run_id)
    with engine.connect() as connection:
        return {str(pool) for (pool,) in connection.execute(query)}


def read_slots() -> dict[str, int]:
    """Return the slots of all pools, by name; -1 for no bound.

    Through a connection of its own: Airflow's session must not be opened within these hooks.
    """
    from airflow import settings
    from sqlalchemy import text

    engine: Any = settings.engine
    with engine.connect() as connection:
        rows = connection.execute(text("select pool, slots from slot_pool")).all()
    return {str(name): int(slots) for name, slots in rows}


def _commits_exclude(name: str | None) -> bool:
    """Return True if commits exclude each other without the pool (locking ``fenced``)."""
    from firnline.settings.load import load_settings

    table = load_settings().tables.get(name or "")
    return table is None or table.locking == "fenced"


def _fail(dag_run: DagRun, problem: str) -> None:
    """Fail the run and request the DAG's failure callback, which Airflow would not call."""
    from airflow.models.db_callback_request import DbCallbackRequest
    from airflow.utils.state import DagRunState
    from sqlalchemy.orm import object_session

    dag_run.set_state(DagRunState.FAILED)
    session = object_session(dag_run)
    dag: Any = dag_run.dag
    if session is None or dag is None or not dag.has_on_failure_callback:
        return
    request = dag_run.produce_dag_callback(dag, success=False, reason=problem)
    if request is not None:
        # For the DAG processor; through the scheduler's own session, as the note above.
        session.add(DbCallbackRequest(callback=request, priority_weight=1))
