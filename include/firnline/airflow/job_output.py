"""Read the output of a job on the task's machine: its report, and why it failed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from firnline.airflow.failures import JobFailure, as_airflow, failure_in
from firnline.airflow.figures import job_lines, report_in
from firnline.airflow.runs import where_logged, who_goes_on
from firnline.airflow.versions import AirflowException

_RETRY_EXIT_CODES = range(128, 256)
"""Ended by a signal (128 + its number): the out-of-memory killer or a drained worker."""


class JobOutput:
    """The output of one job, line by line."""

    def __init__(self) -> None:
        self._told: JobFailure | None = None
        self.report: dict[str, Any] | None = None
        """Figures of the job's report; None before it, and always if its driver runs elsewhere."""

    def listen(self, lines: Iterable[Any]) -> Iterator[Any]:
        """Yield the lines as a person reads them."""
        for line in lines:
            self._told = failure_in(str(line)) or self._told
            self.report = report_in(str(line)) or self.report
            yield from job_lines(str(line))

    def failure(self, name: str, code: int | None) -> AirflowException | None:
        """Return why the job failed; None if nobody knows.

        Args:
            name: of the job, for a sentence.
            code: exit code of its process; negative for a signal.
        """
        if self._told is not None:
            return as_airflow(self._told.sentence, retryable=self._told.retryable)
        if code is not None and (code < 0 or code in _RETRY_EXIT_CODES):
            return AirflowException(
                f"the job {name} was killed (exit code {code}); what it had committed stays; "
                f"{who_goes_on()}"
            )
        if code:
            return AirflowException(
                f"the job {name} failed with exit code {code} before firnline could say why; read "
                f"its output {where_logged()}"
            )
        return None
