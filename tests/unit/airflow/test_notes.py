"""What listeners write into the note of a run, without a scheduler."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import create_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column
from sqlalchemy.orm.exc import DetachedInstanceError
from sqlalchemy.pool import StaticPool

from firnline.airflow import notes
from firnline.airflow.notes import MOST, Said, add_note

SAID = "run r of rewrite_partitions__t was done on 2026-01-01 00:00:00 UTC, as transaction 3"


def noted(old: str | None, *sentences: str) -> str:
    """The note of a run after these were added."""
    run = SimpleNamespace(note=old)
    for sentence in sentences:
        add_note(run, sentence)
    return run.note or ""


def test_a_note_keeps_what_people_wrote_and_says_everything_once() -> None:
    assert noted(None, "a", "b", "a") == "firnline: a.\n\nfirnline: b."
    assert noted("see ticket 7", "a") == "see ticket 7\n\nfirnline: a."


def test_a_note_never_becomes_longer_than_the_database_takes() -> None:
    """A run may be cleared any number of times, and the scheduler saves the note with its work."""
    many = noted("see ticket 7", *(f"{number}{'x' * 300}" for number in range(9)))
    assert len(many) <= MOST
    assert many.startswith("see ticket 7\n\nfirnline: ")
    assert "firnline: 8x" in many
    assert noted("p" * MOST, "a") == "p" * MOST
    long = noted(None, "x" * 2 * MOST)
    assert (len(long), long[-1]) == (MOST, "…")


@pytest.fixture(autouse=True)
def tagged(monkeypatch: pytest.MonkeyPatch) -> None:
    """The DAGs of all runs have our tag."""
    monkeypatch.setattr("firnline.airflow.ours.has_tag", lambda _: True)


def said(value: Any, task_id: str = "plan", state: str = "success") -> Said:
    return Said(task_id, state, value)


def note_after(monkeypatch: pytest.MonkeyPatch, *found: Said, old: str | None = None) -> str:
    """The note of a run of ours that ended with this XCom."""
    monkeypatch.setattr(notes, "read_said", lambda *_: list(found))
    run: Any = SimpleNamespace(dag_id="rewrite_partitions__t", run_id="r", note=old)
    notes.on_dag_run_success(run, "")
    return run.note or ""


@pytest.mark.parametrize("depth", [0, 1, 2])
def test_the_note_of_a_run_is_what_its_tasks_said(
    monkeypatch: pytest.MonkeyPatch, depth: int
) -> None:
    value = SAID
    for _ in range(depth):
        value = json.dumps(value)
    assert note_after(monkeypatch, said(value), old="see 7") == f"see 7\n\nfirnline: {SAID}."
    assert note_after(monkeypatch) == ""


def test_a_failed_run_names_the_task_and_what_others_did(monkeypatch: pytest.MonkeyPatch) -> None:
    failed = said("a part does not read; drop it", "merge", "failed")
    monkeypatch.setattr(notes, "read_said", lambda *_: [failed, said("merged: 4 parts", "report")])
    run: Any = SimpleNamespace(dag_id="merge__t", run_id="r", note=None)
    notes.on_dag_run_failed(run, "")
    assert run.note == (
        "firnline: merge failed: a part does not read; drop it.\n\nfirnline: merged: 4 parts."
    )


def test_runs_of_others_are_not_even_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notes, "read_said", None)
    monkeypatch.setattr("firnline.airflow.ours.has_tag", lambda _: False)
    for name in ("somebody_elses", "merge__dims"):
        run: Any = SimpleNamespace(dag_id=name, run_id="r")
        notes.on_dag_run_success(run, "")


def test_what_tasks_said_is_read_in_one_query_of_airflows_tables(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine = create_engine("sqlite://", poolclass=StaticPool)
    own = "dag_id text, run_id text, task_id text, map_index int"
    with engine.begin() as connection:
        connection.exec_driver_sql(f"create table task_instance ({own}, state text)")
        connection.exec_driver_sql(
            f"create table xcom ({own}, key text, value json, timestamp int)"
        )
        for task, state in (("plan", "success"), ("merge", "failed"), ("approve", "success")):
            values = ("d", "r", task, -1, state)
            connection.exec_driver_sql("insert into task_instance values (?, ?, ?, ?, ?)", values)
        rows = [
            ("r", "merge", "said", "b", 2),
            ("r", "plan", "said", "a", 1),
            ("r", "plan", "return_value", "{}", 1),
            ("r", "approve", "said", "c", 3),
            ("other", "plan", "said", "d", 4),
        ]
        for run, task, key, value, at in rows:
            row = ("d", run, task, -1, key, value, at)
            connection.exec_driver_sql("insert into xcom values (?, ?, ?, ?, ?, ?, ?)", row)
    monkeypatch.setattr("airflow.settings.engine", engine)
    assert notes.read_said("d", "r") == [
        said("a"),
        said("b", "merge", "failed"),
        said("c", "approve"),
    ]


def test_a_run_that_nobody_saves_gets_no_note(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in `airflow dags test`, where even to read its note is an error."""

    class Base(DeclarativeBase):
        pass

    class Run(Base):
        __tablename__ = "dag_run"
        dag_id: Mapped[str] = mapped_column(primary_key=True)
        run_id: Mapped[str]
        note: Mapped[str | None]

    engine = create_engine("sqlite://", poolclass=StaticPool)
    Base.metadata.create_all(engine)
    monkeypatch.setattr(notes, "read_said", lambda *_: [said(SAID)])
    with Session(engine) as session:
        run: Any = Run(dag_id="merge__t", run_id="r")
        session.add(run)
        session.commit()  # what it knew is forgotten, to be read again
        session.refresh(run, ["dag_id"])
        notes.on_dag_run_success(run, "")
        assert run.note == f"firnline: {SAID}."
        session.commit()
        session.refresh(run, ["dag_id"])
    notes.on_dag_run_success(run, "")
    with pytest.raises(DetachedInstanceError):
        print(run.note)
