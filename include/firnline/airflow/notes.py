"""Notes on runs, shown in Airflow's user interface and written by listeners in the scheduler.

Adds to the note of a run that it had been done before and therefore did nothing.

The run is green, and its tasks after the plan are skipped, as those of a run with nothing to do;
the note says in the list of runs why. A task cannot write the note of its run. The plugin registers
this module as a listener: it imports nothing until the hook needs it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from airflow.listeners import hookimpl

from firnline.operations.dag_ids import parse_dag_id

if TYPE_CHECKING:
    from airflow.models.dagrun import DagRun

MOST = 1_000
"""Maximum characters of a note in Airflow's database; a longer one makes the scheduler's whole
transaction fail."""
_OURS = "firnline: "


def add_note(dag_run: Any, sentence: str) -> None:  # noqa: ANN401 - DagRun is not imported here
    """Add a paragraph to the note of a run, once.

    If the note is too long, firnline's own earlier paragraphs are removed; if what people wrote
    leaves no room, the note is not changed.
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
    """Copy the first task's sentence on an earlier completion into the note of the run."""
    if parse_dag_id(dag_run.dag_id) is None:
        return
    said = done_before(read_results(dag_run.dag_id, dag_run.run_id))
    if said is not None:
        add_note(dag_run, said)


def done_before(results: Iterable[Any]) -> str | None:
    """Return the ``done_before`` sentence of the tasks' results, if any."""
    for result in results:
        value = result
        while isinstance(value, str):
            # JSON within JSON; the depth depends on Airflow's database.
            try:
                value = json.loads(value)
            except ValueError:
                break
        said = value.get("done_before") if isinstance(value, dict) else None
        if isinstance(said, str):
            return said
    return None


def read_results(dag_id: str, run_id: str) -> list[Any]:
    """Return the results of a run's tasks as stored in Airflow's database.

    Through a connection of its own: Airflow's session must not be opened within these hooks.
    """
    from airflow import settings
    from sqlalchemy import column, select, table

    engine: Any = settings.engine
    # Some databases need quotes around `key`, others do not: SQLAlchemy handles it.
    xcom = table("xcom", *map(column, ("dag_id", "run_id", "key", "value"))).c
    query = select(xcom.value).where(
        xcom.dag_id == dag_id, xcom.run_id == run_id, xcom.key == "return_value"
    )
    with engine.connect() as connection:
        rows = connection.execute(query).all()
    return [value for (value,) in rows]
