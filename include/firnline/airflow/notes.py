"""Notes on runs, shown in Airflow's user interface and written by listeners in the scheduler.

Adds to the note of a run what it did or why it failed, in the sentences that its tasks made
(``firnline.airflow.said``). A task cannot write the note of its run.

The plugin registers this module as a listener: it imports nothing until a hook needs it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow.listeners import hookimpl

from firnline.airflow.ours import is_ours
from firnline.airflow.said import SAID

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
    text = _paragraph(sentence)
    paragraphs = _paragraphs(dag_run)
    if text in paragraphs:
        return
    theirs = [each for each in paragraphs if not each.startswith(_OURS)]
    for kept in (paragraphs, theirs):
        note = "\n\n".join([*kept, text])
        if len(note) <= MOST:
            dag_run.note = note
            return


def has_note(dag_run: Any, sentence: str) -> bool:  # noqa: ANN401 - as above
    """Return True if ``add_note`` has added the sentence before."""
    return _paragraph(sentence) in _paragraphs(dag_run)


def _paragraph(sentence: str) -> str:
    text = f"{_OURS}{sentence}."
    return text if len(text) <= MOST else f"{text[: MOST - 1]}…"


def _paragraphs(dag_run: Any) -> list[str]:  # noqa: ANN401 - as above
    return dag_run.note.split("\n\n") if dag_run.note else []


@hookimpl
def on_dag_run_success(dag_run: DagRun, msg: str) -> None:  # noqa: ARG001 - the hook's own names
    """Copy the sentences of the run's tasks on what they did into the note of the run."""
    _copy(dag_run)


@hookimpl
def on_dag_run_failed(dag_run: DagRun, msg: str) -> None:  # noqa: ARG001 - the hook's own names
    """Copy why tasks failed into the note of the run, and what others did before."""
    _copy(dag_run)


def _copy(dag_run: DagRun) -> None:
    if not is_ours(dag_run.dag_id) or _is_detached(dag_run):
        return
    for sentence in sentences(read_said(dag_run.dag_id, dag_run.run_id)):
        add_note(dag_run, sentence)


def _is_detached(dag_run: Any) -> bool:  # noqa: ANN401 - DagRun is not imported here
    """Return True for a run that no session would save, as in `airflow dags test`.

    Its note cannot even be read: Airflow would log a traceback.
    """
    from sqlalchemy import inspect

    state: Any = inspect(dag_run, raiseerr=False)
    return state is not None and bool(state.detached)


@dataclass(frozen=True, slots=True)
class Said:
    """The sentence of a task for the note."""

    task_id: str
    state: str | None
    """State of the task."""
    value: Any
    """As stored."""


def sentences(found: Iterable[Said]) -> list[str]:
    """Return the sentences for the note, in the order of the tasks' ends."""
    made = []
    for said in found:
        value = _plain(said.value)
        if isinstance(value, str) and value:
            why = f"{said.task_id} failed: {value}" if said.state == "failed" else value
            made.append(why.removesuffix("."))
    return list(dict.fromkeys(made))


def _plain(value: Any) -> Any:  # noqa: ANN401 - any XCom
    # JSON within JSON; the depth depends on Airflow's database.
    while isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            break
    return value


def read_said(dag_id: str, run_id: str) -> list[Said]:
    """Return what a run's tasks said, oldest first, as stored in Airflow's database: one query.

    Through a connection of its own: Airflow's session must not be opened within these hooks.
    """
    from airflow import settings
    from sqlalchemy import and_, column, select, table

    engine: Any = settings.engine
    # Some databases need quotes around `key`, others do not: SQLAlchemy handles it.
    same = ("dag_id", "run_id", "task_id", "map_index")
    xcom = table("xcom", *map(column, (*same, "key", "value", "timestamp")))
    task = table("task_instance", *map(column, (*same, "state")))
    query = (
        select(xcom.c.task_id, task.c.state, xcom.c.value)
        .join(task, and_(*(xcom.c[name] == task.c[name] for name in same)))
        .where(xcom.c.dag_id == dag_id, xcom.c.run_id == run_id, xcom.c.key == SAID)
        .order_by(xcom.c.timestamp)
    )
    with engine.connect() as connection:
        return [Said(*row) for row in connection.execute(query)]
