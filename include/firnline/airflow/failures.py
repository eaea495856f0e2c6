"""Conversion of errors into Airflow's exceptions: a retry only for transient errors.

Also reads the failure of a firnline Spark job from the output of spark-submit.

The job ends with one line ``{"error": {"message": …, "next_step": …, "retryable": …}}``. An exit
code could not carry that: Spark itself uses the same ones.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from airflow.sdk.exceptions import AirflowException, AirflowFailException

from firnline.airflow.said import say_failure
from firnline.errors import FirnlineError

_OPTIONS = re.compile(r"`[^`]*`|(?<![\w-])--([a-z][a-z-]*)")
"""Commands as they are typed, and options outside of them."""


def in_a_form(sentence: str) -> str:
    """Return a sentence with the params of a form in the place of options: where for --where.

    What is between backticks is for a shell and stays as it is.
    """
    return _OPTIONS.sub(lambda m: m[1].replace("-", "_") if m[1] else m[0], sentence)


@contextmanager
def airflow_failures() -> Iterator[None]:
    """Convert a FirnlineError raised within into Airflow's exception with its message.

    Within a task the message is also kept for the note of the run (``firnline.airflow.said``).

    Raises:
        AirflowFailException: a retry cannot help; the task fails at once.
        AirflowException: the error is transient; the task is retried after its delay.
    """
    try:
        yield
    except FirnlineError as error:
        told = as_airflow(str(error), retryable=error.retryable)
        say_failure(str(told))
        raise told from None


def as_airflow(sentence: str, *, retryable: bool) -> AirflowException:
    """Return the exception for a message, in the words of a form."""
    said = in_a_form(sentence)
    return AirflowException(said) if retryable else AirflowFailException(said)


@dataclass(frozen=True, slots=True)
class JobFailure:
    """The reason why a job failed, in one sentence."""

    sentence: str
    retryable: bool


def failure_in(line: str) -> JobFailure | None:
    """Return the failure that a line of output states; None for any other line."""
    text = line.strip()
    if not text.startswith('{"error"'):
        return None
    try:
        error: Any = json.loads(text)["error"]
        return JobFailure(f"{error['message']}; {error['next_step']}", bool(error["retryable"]))
    except (ValueError, TypeError, KeyError):
        return None  # something else that looks like it
