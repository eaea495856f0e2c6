"""The sentence of a run, as its tasks make it."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowRuntimeError, ErrorType
from airflow.sdk.execution_time.comms import ErrorResponse
from airflow.sdk.execution_time.context import set_current_context

from firnline.airflow.failures import airflow_failures
from firnline.airflow.merge import MergeWork
from firnline.airflow.rewrite import RewriteWork
from firnline.airflow.said import MOST, changed_sentence, first_sentence, say
from firnline.airflow.works import DeleteWork, RebuildWork, TtlWork, VerifyWork
from firnline.errors import UsageError
from tests.support.airflow_context import run_context

COUNTS = {"parts_in": 120, "parts_out": 1, "bytes_in": 3 * 2**30, "bytes_out": 2**30}


@pytest.mark.parametrize(
    ("operation", "counts", "transactions", "sentence"),
    [
        (
            "merge",
            COUNTS,
            [3, 4],
            "merged: 120 parts (3.0 GiB) became 1 (1.0 GiB) in 2 transactions",
        ),
        (
            "rewrite",
            {**COUNTS, "rows_in": 1_201, "rows_out": 1},
            [3],
            "rewritten: 120 parts (3.0 GiB) became 1 (1.0 GiB) in 1 transaction, 1,200 rows fewer",
        ),
        ("delete", {}, [3], "rows deleted in 1 transaction"),
        ("erase", {}, [], "nothing was committed"),
    ],
)
def test_a_run_says_what_it_changed(
    operation: str, counts: dict[str, int], transactions: list[int], sentence: str
) -> None:
    figures = {"counts": counts, "transactions": transactions}
    assert changed_sentence(operation, figures) == sentence


def test_each_work_has_a_sentence_on_its_plan_and_on_its_report() -> None:
    changed = {"counts": COUNTS, "transactions": [3]}
    for work in (MergeWork(), RewriteWork(), DeleteWork(), RebuildWork()):
        assert "120 parts (3.0 GiB) became 1" in work.report_sentence(changed)
    gone = {"partition_count": 1, "parts": 2, "bytes": 0, "rows": 5, "parts_without_rows": 0}
    ttl = TtlWork().report_sentence({**gone, "kept": {}, **changed})
    assert ttl == "dropped: 1 partition, 2 parts (0 B), 5 rows"
    names = ("log_files", "transactions", "live_parts", "dead_parts", "objects", "bytes")
    checked = {**dict.fromkeys(names, 1), "unstated_parts": 0}
    found = {"checked": checked, "severities": {}, "findings": [], "deep": False, "rows": False}
    sentence = VerifyWork().report_sentence(found)
    assert sentence.endswith("1 live and 1 dead part, 1 object (1 B); found: nothing")
    read = {**checked, "footers": 1, "footer_rows": 9, "read_parts": 2, "read_rows": 7}
    sentence = VerifyWork().report_sentence({**found, "checked": read, "deep": True, "rows": True})
    assert sentence.endswith(", 1 footer that states 9 rows, all 7 rows of 2 parts; found: nothing")
    rebuild: dict[str, Any] = {
        "parts": 3,
        "dead_parts": 0,
        "rows": None,
        "bytes": 2_048,
        "found": [],
    }
    assert RebuildWork().plan_sentence(rebuild) == "parts: 3, dead parts: 0, bytes: 2.0 KiB"
    rewrite = {"partitions": [1], "parts_to_read": 3, "bytes_in": 0, "parts_to_drop": 1}
    said = RewriteWork().plan_sentence(rewrite)
    assert said == "in 1 partition 3 parts (0 B) to read, 1 part would go unread"


def test_what_a_line_announces_belongs_to_the_sentence() -> None:
    assert first_sentence(["as of transaction 3, lazy:", "4 parts to read", "more"]) == (
        "as of transaction 3, lazy: 4 parts to read"
    )


def test_a_sentence_fits_into_a_note() -> None:
    context = run_context(MergeWork())
    say(context, "x" * 2 * MOST)
    assert len(context["ti"].pushed["said"]) == MOST


def test_a_failure_within_a_task_is_its_sentence() -> None:
    context = run_context(MergeWork())
    error = UsageError("the glob x matches nothing", next_step="give another")
    with (
        set_current_context(context),
        pytest.raises(AirflowFailException, match="the glob x"),
        airflow_failures(),
    ):
        raise error
    assert context["ti"].pushed["said"] == str(error)


def test_a_failure_is_seen_even_if_its_sentence_cannot_be_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    context = run_context(MergeWork())

    def refuse(key: str, value: object) -> None:
        raise AirflowRuntimeError(ErrorResponse(error=ErrorType.API_SERVER_ERROR))

    monkeypatch.setattr(context["ti"], "xcom_push", refuse)
    with (
        set_current_context(context),
        pytest.raises(AirflowFailException, match="the glob x"),
        airflow_failures(),
    ):
        raise UsageError("the glob x matches nothing", next_step="give another")
