"""Errors as Airflow understands them: a retry only where a retry can help.

What a Spark job of ours says when it fails, read from the output of spark-submit.

The job ends with one line ``{"error": {"message": …, "next_step": …, "retryable": …}}``. An exit
code could not carry that: Spark itself uses the same ones.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from airflow.sdk.exceptions import AirflowException, AirflowFailException

from firnline.errors import FirnlineError


@contextmanager
def airflow_failures() -> Iterator[None]:
    """Turn a FirnlineError within into Airflow's exception that carries its one sentence.

    Raises:
        AirflowFailException: no retry can mend it: the task fails at once.
        AirflowException: it may pass: the task is tried again after its delay.
    """
    try:
        yield
    except FirnlineError as error:
        raise as_airflow(str(error), retryable=error.retryable) from None


def as_airflow(sentence: str, *, retryable: bool) -> AirflowException:
    """The exception for one sentence."""
    return AirflowException(sentence) if retryable else AirflowFailException(sentence)


@dataclass(frozen=True, slots=True)
class JobFailure:
    """Why a job failed, in one sentence."""

    sentence: str
    retryable: bool


def failure_in(line: str) -> JobFailure | None:
    """The failure that a line of output tells; None for any other line."""
    text = line.strip()
    if not text.startswith('{"error"'):
        return None
    try:
        error: Any = json.loads(text)["error"]
        return JobFailure(f"{error['message']}; {error['next_step']}", bool(error["retryable"]))
    except (ValueError, TypeError, KeyError):
        return None  # something else that looks like it
