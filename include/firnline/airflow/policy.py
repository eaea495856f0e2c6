"""Airflow's cluster policy: a task of a DAG for all tables takes the pool of its run's table.

The entry point ``airflow.policy`` of the package registers this module in every process of Airflow,
so it imports nothing of ours until the hook needs it, except the dialect in which values of params
are refused, and in a DAG processor what the DAG files need (``firnline.airflow.preload``). The
scheduler, the API server and the command line call the hook wherever they create or clear tasks,
after they have set pool and slots of the DAG file. Until Airflow 3.2 a new task does not know its
run yet: it gets its pool when the run starts (``pool_guard``). Without the hook, and where it
cannot read the settings, such a task stays in a pool without slots: it waits, and never runs
without a lock.

The package may lie beside an Airflow that it does not know, whose hook has other arguments or none.
An error here would stop every command of that Airflow: nothing is registered there, and one line
says so. Beside an Airflow 2 nothing is registered either, and nothing said: no DAG of ours can be
there, and its tasks run the command line.
"""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow.models.dagrun import DagRun
    from airflow.models.taskinstance import TaskInstance

_LOG = logging.getLogger("firnline.pools")


def set_pool(task_instance: TaskInstance, dag_run: DagRun | None) -> None:
    """Give the task the pool of the table that its run names, and the slots that it takes there."""
    if dag_run is None:
        return
    from firnline.operations.dag_ids import TABLE
    from firnline.operations.pools import NO_TABLE, lock_of_run, pool_of_run

    dag_id, conf = task_instance.dag_id, dag_run.conf
    if task_instance.pool != NO_TABLE or pool_of_run(dag_id, conf) is None:
        return
    from firnline.airflow.settings import current_settings
    from firnline.errors import FirnlineError

    try:
        settings = current_settings()
        settings.refuse_broken((conf or {}).get(TABLE))
        lock = lock_of_run(dag_id, conf, settings.tables)
    except FirnlineError as error:
        # An exception would stop whoever creates the task, the scheduler among them.
        _LOG.error("the task stays in the pool %s, where nothing runs: %s", NO_TABLE, error)
        return
    if lock is not None:
        task_instance.pool, task_instance.pool_slots = lock.pool, lock.takes


def make_hook() -> Any:  # noqa: ANN401 - a function, marked for a version of pluggy
    """Return the hook for Airflow to register; None in an Airflow 2.

    None, too, after one line in the log, if it cannot. Raises nothing.
    """
    try:
        from firnline.airflow import versions

        return _fitting_hook() if versions.AIRFLOW_3_0_PLUS else None
    except Exception as error:  # noqa: BLE001 - Airflow itself would not start; the log says why
        why = " ".join(str(error).split()) or type(error).__name__
        _LOG.warning(
            "firnline does not know this Airflow and has registered nothing in it: its DAGs for "
            "all tables never start their work here; use the version of its extra `airflow`, "
            "or take firnline out of this environment (%s)",
            why,
        )
        return None


def _fitting_hook() -> Any:  # noqa: ANN401 - as above
    import airflow.settings
    from airflow import policies

    from firnline.airflow import versions

    hook = versions.policy_hook(policies, set_pool)
    _refuse_unknown(policies, hook)
    import firnline.airflow.dialect  # noqa: F401 - registers how params are checked
    from firnline.airflow.preload import before_forks

    before_forks()

    # Airflow asks policies of packages at the creation of tasks only if there is an
    # airflow_local_settings.py besides.
    if versions.AIRFLOW_3_3_PLUS:  # until 3.2 it could not tell the pool then
        asked: Any = airflow.settings.task_instance_mutation_hook
        asked.is_noop = False
    return hook


def _refuse_unknown(policies: Any, hook: Any) -> None:  # noqa: ANN401 - a module of any Airflow
    """Raise PluginValidationError if Airflow's hook is missing or has not our arguments."""
    import pluggy

    # As Airflow will do it, which would raise where nobody can catch it.
    trial = pluggy.PluginManager(policies.hookimpl.project_name)
    trial.add_hookspecs(policies)
    trial.register(SimpleNamespace(task_instance_mutation_hook=hook), name="firnline")
    trial.check_pending()


task_instance_mutation_hook = make_hook()
"""The hook that Airflow registers; None in an Airflow that this package does not know."""
