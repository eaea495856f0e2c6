"""Errors as Airflow understands them: a retry only where a retry can help."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

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
