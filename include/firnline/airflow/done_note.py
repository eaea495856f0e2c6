"""Puts into the note of a run that it had been done before, and so did nothing: in the scheduler.

The run is green, and its tasks after the plan are skipped, as those of a run with nothing to do;
the note says in the list of runs why. A task cannot write the note of its run. The plugin registers
this module as a listener: it imports nothing until the hook needs it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from airflow.listeners import hookimpl

from firnline.operations.pools import pool_of_dag

if TYPE_CHECKING:
    from airflow.models.dagrun import DagRun


@hookimpl
def on_dag_run_success(dag_run: DagRun, msg: str) -> None:  # noqa: ARG001 - the hook's own names
    """Take over what the run's first task says of it."""
    if pool_of_dag(dag_run.dag_id) is None:
        return
    said = done_before(read_results(dag_run.dag_id, dag_run.run_id))
    if said is not None:
        from firnline.airflow.notes import add_note

        add_note(dag_run, said)


def done_before(results: Iterable[Any]) -> str | None:
    """The sentence that one of the tasks' results holds, if any."""
    for result in results:
        value = result
        while isinstance(value, str):
            # JSON in JSON; how deep depends on Airflow's database.
            try:
                value = json.loads(value)
            except ValueError:
                break
        said = value.get("done_before") if isinstance(value, dict) else None
        if isinstance(said, str):
            return said
    return None


def read_results(dag_id: str, run_id: str) -> list[Any]:
    """What the tasks of a run returned, as Airflow's database holds it.

    Through a connection of its own: Airflow's session must not be opened within these hooks.
    """
    from airflow import settings
    from sqlalchemy import column, select, table

    engine: Any = settings.engine
    # Some databases want `key` in quotes, others not: SQLAlchemy knows.
    xcom = table("xcom", *map(column, ("dag_id", "run_id", "key", "value"))).c
    query = select(xcom.value).where(
        xcom.dag_id == dag_id, xcom.run_id == run_id, xcom.key == "return_value"
    )
    with engine.connect() as connection:
        rows = connection.execute(query).all()
    return [value for (value,) in rows]
