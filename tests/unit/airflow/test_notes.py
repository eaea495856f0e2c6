"""What listeners write into the note of a run, without a scheduler."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from firnline.airflow import notes as done_note
from firnline.airflow.notes import MOST, add_note

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


@pytest.mark.parametrize("depth", [0, 1, 2])
def test_a_run_that_was_done_before_says_so_in_its_note(
    monkeypatch: pytest.MonkeyPatch, depth: int
) -> None:
    result: Any = {"done_before": SAID, "transactions": [3]}
    for _ in range(depth):
        result = json.dumps(result)
    results = ["{no json", 7, None, '{"seq": 1}', result]
    monkeypatch.setattr(done_note, "read_results", lambda *_: results)
    run: Any = SimpleNamespace(dag_id="rewrite_partitions__t", run_id="r", note=None)
    done_note.on_dag_run_success(run, "")
    assert run.note == f"firnline: {SAID}."


def test_other_runs_get_no_note(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(done_note, "read_results", lambda *_: ['{"seq": 1}'])
    run: Any = SimpleNamespace(dag_id="rewrite_partitions__t", run_id="r", note=None)
    done_note.on_dag_run_success(run, "")
    assert run.note is None
    monkeypatch.setattr(done_note, "read_results", None)  # not even asked
    done_note.on_dag_run_success(SimpleNamespace(dag_id="somebody_elses", run_id="r"), "")  # type: ignore[arg-type] # a part of one
