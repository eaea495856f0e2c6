"""Fails a run from a listener in the scheduler, and has its table told, which Airflow would not do.

Tasks' processes load this module with the listeners, so it imports nothing until it is asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from logging import Logger

    from airflow.models.dagrun import DagRun


def note(dag_run: DagRun, problem: str, log: Logger) -> None:
    """Log what is wrong with a run, and add it to its note, which the scheduler's session saves."""
    from firnline.airflow.notes import add_note

    log.error("%s (run %s of %s)", problem, dag_run.run_id, dag_run.dag_id)
    add_note(dag_run, problem)


def fail(
    dag_run: DagRun, table: str | None, reason: str, problem: str, *, with_conf: bool = True
) -> None:
    """Fail a run and call the notifier of its table.

    Args:
        dag_run: of the scheduler's session, which saves it.
        table: the table; None where the run names none, so that nobody is told.
        reason: of the call.
        problem: what is told.
        with_conf: hand the run's configuration on.
    """
    from airflow.utils.state import DagRunState

    from firnline.airflow.watch import call_soon

    # Airflow calls no callback for a state that a listener sets.
    dag_run.set_state(DagRunState.FAILED)
    if table is None:
        return
    run = {"dag_id": dag_run.dag_id, "run_id": dag_run.run_id}
    conf = {"conf": dag_run.conf} if with_conf else {}
    call_soon(table, {**run, **conf}, reason, problem)
