"""Notes on runs, for whoever looks at them in Airflow. Written by listeners, in the scheduler.

Puts into the note of a run that it had been done before, and so did nothing: in the scheduler.

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

MOST = 1_000
"""Characters of a note that Airflow's database takes; it refuses a longer one, and with it whatever
else the scheduler was about to save."""
_OURS = "firnline: "


def add_note(dag_run: Any, sentence: str) -> None:  # noqa: ANN401 - DagRun is not imported here
    """Add a paragraph to the note of a run, once.

    Where there is no room our own earlier paragraphs go, and without room beside what people wrote
    the note stays as it is.
    """
    text = f"{_OURS}{sentence}."
    if len(text) > MOST:
        text = f"{text[: MOST - 1]}…"
    paragraphs = (dag_run.note or "").split("\n\n") if dag_run.note else []
    if text in paragraphs:
        return
    theirs = [each for each in paragraphs if not each.startswith(_OURS)]
    for kept in (paragraphs, theirs):
        note = "\n\n".join([*kept, text])
        if len(note) <= MOST:
            dag_run.note = note
            return


@hookimpl
def on_dag_run_success(dag_run: DagRun, msg: str) -> None:  # noqa: ARG001 - the hook's own names
    """Take over what the run's first task says of it."""
    if pool_of_dag(dag_run.dag_id) is None:
        return
    said = done_before(read_results(dag_run.dag_id, dag_run.run_id))
    if said is not None:
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
