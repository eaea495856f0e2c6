"""Airflow's cluster policy: a task of a DAG for all tables takes the pool of its run's table.

The entry point ``airflow.policy`` of the package registers this module in every process of Airflow,
so it imports nothing of ours until the hook needs it, except the dialect in which values of params
are refused. The scheduler, the API server and the command line call the hook wherever they create
or clear tasks, after they have set pool and slots of the DAG file. Without it, and where it cannot
read the settings, such a task stays in a pool without slots: it waits, and never runs without a
lock.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import airflow.settings
from airflow.policies import hookimpl

import firnline.airflow.dialect  # noqa: F401 - registers how params are checked

if TYPE_CHECKING:
    from airflow.models.dagrun import DagRun
    from airflow.models.taskinstance import TaskInstance

_LOG = logging.getLogger("firnline.pools")

# Airflow 3.3 asks policies of packages only if there is an airflow_local_settings.py besides.
_hook: Any = airflow.settings.task_instance_mutation_hook
_hook.is_noop = False


@hookimpl
def task_instance_mutation_hook(task_instance: TaskInstance, dag_run: DagRun | None) -> None:
    """Give the task the pool of the table that its run names, and the slots that it takes there."""
    if dag_run is None:
        return
    from firnline.operations.pools import NO_TABLE, lock_of_run, pool_of_run

    dag_id, conf = task_instance.dag_id, dag_run.conf
    if task_instance.pool != NO_TABLE or pool_of_run(dag_id, conf) is None:
        return
    from firnline.errors import FirnlineError
    from firnline.settings.load import load_settings

    try:
        lock = lock_of_run(dag_id, conf, load_settings().tables)
    except FirnlineError as error:
        # An exception would stop whoever creates the task, the scheduler among them.
        _LOG.error("the task stays in the pool %s, where nothing runs: %s", NO_TABLE, error)
        return
    if lock is not None:
        task_instance.pool, task_instance.pool_slots = lock.pool, lock.takes
