"""Detects pools that are missing or have not the slots of the settings, in Airflow's scheduler.

A task cannot see its own pool, and a task whose pool is missing never starts, without an error. The
plugin registers this module as a listener. It is loaded into every process of Airflow, the tasks'
too, so it imports nothing until a hook needs it. What becomes wrong after the start of a run, and
what no run can tell, is seen by the scheduler's thread (``firnline.airflow.watch``).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from airflow.listeners import hookimpl

from firnline.airflow import failing
from firnline.airflow.ours import is_ours
from firnline.operations.dag_ids import parse_dag_id
from firnline.operations.pools import (
    NO_TABLE,
    POOL_WRONG,
    RunLock,
    lock_of_run,
    pool_problems,
    uncounted,
    waits_for_ever,
)

if TYPE_CHECKING:
    from airflow.models.dagrun import DagRun

    from firnline.settings.load import TableSettings

_LOG = logging.getLogger("firnline.pools")


@hookimpl
def on_starting(component: object) -> None:
    """When the scheduler starts, log every pool that is missing or wrong, and begin to watch."""
    # By name: task processes call this hook too, and importing the class would load the ORM.
    if type(component).__name__ != "Job":
        return
    from firnline.airflow.watch import begin

    begin(component)
    from firnline.airflow.settings import current_settings
    from firnline.errors import FirnlineError
    from firnline.operations.pools import pools_json

    try:
        wanted = pools_json(current_settings())
    except FirnlineError as error:
        _LOG.error("%s", error)
        return
    slots = {name: pool["slots"] for name, pool in wanted.items()}
    for problem in pool_problems(slots, read_slots()):
        _LOG.error("%s", problem)


@hookimpl
def on_dag_run_running(dag_run: DagRun, msg: str) -> None:  # noqa: ARG001 - the hook's own names
    """Note the problem on the run; fail a run that would hang or could do harm."""
    dag = parse_dag_id(dag_run.dag_id)
    name = None if dag is None else dag.table_of(dag_run.conf)
    if dag is None or name is None or not is_ours(dag_run.dag_id):
        return
    tables = _tables(name)
    lock = lock_of_run(dag_run.dag_id, dag_run.conf, tables or {})
    if lock is None:
        return
    there = read_slots().get(lock.pool)
    held = read_pools(dag_run.dag_id, dag_run.run_id)
    if NO_TABLE in held and tables is not None and _placed(dag_run, lock):
        del held[NO_TABLE]
        held[lock.pool] = lock.takes
    hangs = waits_for_ever(NO_TABLE, 1, 0, name) if NO_TABLE in held and dag.table is None else []
    hangs += waits_for_ever(lock.pool, held.get(lock.pool, lock.takes), there, name)
    if _defers((tables or {}).get(name)) and lock.pool in read_uncounted():
        hangs.append(uncounted(lock.pool))
    # Without settings nobody knows how many slots there should be; a run needs one.
    of = lock.of if tables is not None else (there or 1)
    known = {} if there is None else {lock.pool: there}
    for problem in hangs or pool_problems({lock.pool: of}, known):
        failing.note(dag_run, problem, _LOG)
        if hangs or not _commits_exclude((tables or {}).get(name)):
            failing.fail(dag_run, name, POOL_WRONG, problem)


def _placed(dag_run: DagRun, lock: RunLock) -> bool:
    """Return True if the tasks in the pool for none have got that of the run's table."""
    from firnline.airflow.versions import late_pools

    return late_pools(dag_run, NO_TABLE, lock.pool, lock.takes)


def _tables(name: str) -> dict[str, TableSettings] | None:
    """Return the tables of the settings; None, which is logged, if those of a table do not read."""
    from firnline.airflow.settings import current_settings
    from firnline.errors import FirnlineError

    try:
        # Read only when they have changed: this is the scheduler's own thread.
        settings = current_settings()
        settings.refuse_broken(name)
        return settings.tables
    except FirnlineError as error:
        _LOG.error("%s", error)
        return None


def read_pools(dag_id: str, run_id: str) -> dict[str, int]:
    """Return the pools of the tasks of a run, each with the most slots that one of them takes.

    Through a connection of its own.
    """
    from airflow import settings
    from sqlalchemy import column, func, select, table

    engine: Any = settings.engine
    columns = ("dag_id", "run_id", "pool", "pool_slots")
    tasks = table("task_instance", *map(column, columns)).c
    query = (
        select(tasks.pool, func.max(tasks.pool_slots))
        .where(tasks.dag_id == dag_id, tasks.run_id == run_id)
        .group_by(tasks.pool)
    )
    with engine.connect() as connection:
        return {str(pool): int(slots) for pool, slots in connection.execute(query)}


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


def read_uncounted() -> set[str]:
    """Return the pools that do not count deferred tasks. Through a connection of its own."""
    from airflow import settings
    from sqlalchemy import column, false, select, table

    engine: Any = settings.engine
    pools = table("slot_pool", column("pool"), column("include_deferred")).c
    with engine.connect() as connection:
        rows = connection.execute(select(pools.pool).where(pools.include_deferred == false()))
        return {str(name) for (name,) in rows}


def _defers(table: TableSettings | None) -> bool:
    """Return True if tasks of the table's runs may be deferred while they hold its pool."""
    from firnline.airflow.deferring import wants_to_defer

    return table is not None and wants_to_defer(table.spark)


def _commits_exclude(table: TableSettings | None) -> bool:
    """Return True if commits exclude each other without the pool (locking ``fenced``)."""
    return table is None or table.locking == "fenced"
