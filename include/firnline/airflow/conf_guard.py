"""Fails a run whose configuration Airflow cannot hand on, in Airflow's scheduler.

Airflow takes any JSON as a configuration, and sends it to tasks and to callbacks in a form whose
whole numbers have 64 bits: a task ends without a word, and the callback of the failed run ends the
DAG processor, for all DAGs. Values of known params are refused before (``airflow.dialect``).
The plugin registers this module as a listener: it imports nothing until a hook needs it.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from airflow.listeners import hookimpl

from firnline.airflow import failing
from firnline.operations.dag_ids import parse_dag_id

if TYPE_CHECKING:
    from airflow.models.dagrun import DagRun

_LOG = logging.getLogger("firnline.runs")


@hookimpl
def on_dag_run_running(dag_run: DagRun, msg: str) -> None:  # noqa: ARG001 - the hook's own names
    """Fail a run with such a number before any of its tasks starts; its note says why."""
    dag = parse_dag_id(dag_run.dag_id)
    if dag is None or not dag_run.conf:
        return
    from firnline.airflow.dialect import TOO_LARGE, is_too_large
    from firnline.airflow.ours import is_ours

    if not is_too_large(dag_run.conf) or not is_ours(dag_run.dag_id):
        return
    problem = f"the configuration of this run {TOO_LARGE}; start a new one"
    failing.note(dag_run, problem, _LOG)
    table = dag.table_of(dag_run.conf)
    # Nobody can be handed the configuration.
    failing.fail(dag_run, table, "failed", problem, with_conf=False)
