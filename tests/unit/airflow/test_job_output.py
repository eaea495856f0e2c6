from __future__ import annotations

import json

import pytest

from firnline.airflow.failures import JobFailure, failure_in


@pytest.mark.parametrize("retryable", [True, False])
def test_the_last_word_of_a_job_is_its_sentence(retryable: bool) -> None:
    error = {"message": "it failed", "next_step": "repair it", "retryable": retryable, "type": "X"}
    line = json.dumps({"error": error})
    assert failure_in(f"  {line}\n") == JobFailure("it failed; repair it", retryable)


@pytest.mark.parametrize(
    "line",
    ["", "INFO nothing", '{"error"', '{"error": "text"}', '{"error": {"message": "m"}}', "{}"],
)
def test_any_other_line_says_nothing(line: str) -> None:
    assert failure_in(line) is None
