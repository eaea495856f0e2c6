"""Forms that ask a person say what each answer does."""

from __future__ import annotations

from typing import Any

import pytest

from firnline.airflow.answers import NONE, answer_lines, pick_lines
from firnline.airflow.approvals import Approve
from firnline.settings.model import TableSettings
from tools.reference.dags import load_dags

TABLE = TableSettings(name="t", root="s3://b/t")
UNTIL = 1_795_521_600_000
FIGURES: dict[str, dict[str, Any]] = {
    "remove_partitions": {"rows": [{"parts": 1}, {"parts": 2}], "grace_ms": 7 * 86_400_000},
    "orphan_sweep": {"orphans_asked": 2, "endings": [1]},
    "erase": {"parts_to_read": 1},
    "ttl": {"parts": 2},
    "rewrite_partitions": {"parts": 1, "bytes": 2_048, "seq": 4},
    "update_where": {"parts": 1, "bytes": 2_048, "seq": 4},
}
_COMMITS = (
    "commits exactly what was written (1 new part, 2.0 KiB) in one transaction, unless these "
    "partitions have changed since transaction 4"
)
APPROVED = {
    "remove_partitions": "drops 2 partitions in one transaction; clean-up deletes the 3 parts 7d "
    "later",
    "orphan_sweep": "deletes 2 objects at once and for good, those that are orphans still, and "
    "ends 1 prepared change",
    "erase": "starts the Spark job that reads 1 part and erases the rows in one transaction; "
    "clean-up deletes the objects that held them 1d later",
    "ttl": "drops what is past then (2 parts now) in one transaction; clean-up deletes the objects "
    "1d later",
    "rewrite_partitions": _COMMITS,
    "update_where": _COMMITS,
}


@pytest.mark.long
def test_each_operation_that_asks_for_an_approval_says_what_it_does() -> None:
    asking = {
        task.work.operation
        for dag in load_dags(("t",)).values()
        for task in dag.tasks
        if isinstance(task, Approve)
    }
    assert asking == set(FIGURES)


@pytest.mark.parametrize("operation", FIGURES)
def test_the_form_says_what_each_answer_does(operation: str) -> None:
    said = answer_lines(operation, TABLE, FIGURES[operation], UNTIL)
    _, approve, reject, late = said.split("\n\n")
    assert approve == f"**Approve** {APPROVED[operation]}."
    assert reject.endswith(", and the run ends as a success.")
    assert late == (
        "**No answer** until 2026-11-24 12:00:00 UTC (`answer_within`) is the same as a rejection; "
        "an approval after that comes too late, and takes a new run."
    )


def test_a_rejection_deletes_what_was_prepared_and_else_changes_nothing() -> None:
    for operation, figures in FIGURES.items():
        said = answer_lines(operation, TABLE, figures, UNTIL)
        prepared = operation in {"rewrite_partitions", "update_where"}
        does = "deletes what was written, which nobody has seen" if prepared else "changes nothing"
        assert f"**Reject** {does}, and" in said


def test_a_pick_removes_nothing_yet() -> None:
    said = pick_lines(UNTIL)
    assert "shown once more for an approval: nothing is removed yet" in said
    assert f"With `{NONE}` nothing is changed" in said
    assert "until 2026-11-24 12:00:00 UTC (`answer_within`) does the same; a choice after" in said
