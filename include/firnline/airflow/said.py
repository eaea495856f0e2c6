"""One plain sentence on what a run did, or why it failed: made by its tasks, copied into its note.

A task pushes it under the XCom key ``SAID`` and logs it as its last line;
``firnline.airflow.notes`` reads it after the run.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowRuntimeError

from firnline.airflow.runs import current_context
from firnline.units import about_size, counted

if TYPE_CHECKING:
    from airflow.sdk import Context

_LOG = logging.getLogger(__name__)

SAID = "said"
"""XCom key of the sentence."""
MOST = 800
"""Maximum characters of a sentence: it goes into the note of the run."""
_DONE = {
    "merge": "merged",
    "rewrite": "rewritten",
    "update": "rows updated",
    "delete": "rows deleted",
    "replace": "replaced",
    "erase": "erased",
    "rebuild": "log rebuilt",
}
"""Name of an operation -> what it has done, in a word."""


def say(context: Context, sentence: str) -> None:
    """Push the task's sentence for the note of its run."""
    short = sentence if len(sentence) <= MOST else f"{sentence[: MOST - 1]}…"
    context["ti"].xcom_push(SAID, short)


def say_failure(sentence: str) -> None:
    """Push the sentence of a failure within a task; does nothing outside of one."""
    context = current_context()
    if context is None:
        return
    try:
        say(context, sentence)
    except AirflowRuntimeError:
        # The failure itself is what has to be seen.
        _LOG.warning("the note on the run will not say why it failed", exc_info=True)


def changed_sentence(operation: str, figures: Mapping[str, Any]) -> str:
    """Return ``merged: 120 parts (3.0 GiB) became 4 (2.9 GiB) in 2 transactions``.

    Args:
        operation: name of the operation.
        figures: ``counts`` and ``transactions`` of the run.
    """
    counts: Mapping[str, int] = figures["counts"]
    done, number = _DONE.get(operation, operation), len(figures["transactions"])
    if not number:
        return "nothing was committed"
    commits = f"in {counted(number, 'transaction')}"
    before, after = counts.get("parts_in", 0), counts.get("parts_out", 0)
    if not before and not after:
        return f"{done} {commits}{_head_text(figures)}"
    sizes = [about_size(counts.get(f"bytes_{end}", 0)) for end in ("in", "out")]
    became = f"{counted(before, 'part')} ({sizes[0]}) became {after:,} ({sizes[1]})"
    return f"{done}: {became} {commits}{_head_text(figures)}{_rows_text(counts)}"


def with_head(sentence: str, figures: Mapping[str, Any]) -> str:
    """Add the newest transaction of a run to what its report says, as a witness."""
    head = _head_text(figures).removeprefix(" up to ")
    return f"{sentence}; transaction {head}" if head else sentence


def _head_text(figures: Mapping[str, Any]) -> str:
    """Return the newest transaction with the beginning of its digest, as a witness."""
    head = figures.get("head")
    return f" up to {head['seq']} (digest {head['digest'][:16]}…)" if head else ""


def _rows_text(counts: Mapping[str, int]) -> str:
    gone = counts.get("rows_in", 0) - counts.get("rows_out", 0)
    fewer = f", {counted(abs(gone), 'row')} {'fewer' if gone > 0 else 'more'}" if gone else ""
    changed = counts.get("rows_changed", 0)
    return f"{fewer}, {counted(changed, 'row')} changed" if changed else fewer
