"""The sentence of a run, as its tasks make it."""

from __future__ import annotations

import pytest
from airflow.sdk.exceptions import AirflowRuntimeError, ErrorType
from airflow.sdk.execution_time.comms import ErrorResponse
from airflow.sdk.execution_time.context import set_current_context

from firnline.airflow.failures import airflow_failures
from firnline.airflow.merge import MergeWork
from firnline.airflow.rewrite import RewriteWork
from firnline.airflow.said import MOST, changed_sentence, say, with_head
from firnline.airflow.versions import AirflowFailException
from firnline.airflow.works import DeleteWork
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
        ("update", {}, [3], "rows updated in 1 transaction"),
        (
            "update",
            {**COUNTS, "rows_in": 1_201, "rows_out": 1_201, "rows_changed": 1},
            [3],
            "rows updated: 120 parts (3.0 GiB) became 1 (1.0 GiB) in 1 transaction, 1 row changed",
        ),
        ("erase", {}, [], "nothing was committed"),
    ],
)
def test_a_run_says_what_it_changed(
    operation: str, counts: dict[str, int], transactions: list[int], sentence: str
) -> None:
    figures = {"counts": counts, "transactions": transactions}
    assert changed_sentence(operation, figures) == sentence


def test_reports_of_spark_jobs_say_what_the_history_says() -> None:
    changed = {"counts": COUNTS, "transactions": [3]}
    for work in (MergeWork(), RewriteWork(), DeleteWork()):
        assert "120 parts (3.0 GiB) became 1" in work.report_sentence(changed)


def test_a_report_has_the_newest_transaction_as_a_witness() -> None:
    head = {"seq": 3, "digest": "0123456789abcdef" * 4}
    said = with_head("dropped: 2 parts", {"head": head})
    assert said == "dropped: 2 parts; transaction 3 (digest 0123456789abcdef…)"
    assert with_head("checked: 1 part", {}) == "checked: 1 part"


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
