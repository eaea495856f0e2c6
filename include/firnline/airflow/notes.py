"""Notes on runs, for whoever looks at them in Airflow. Written by listeners, in the scheduler."""

from __future__ import annotations

from typing import Any

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
