"""A job in a child process of the task: without Spark, or as a client of a Connect server."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from firnline.airflow.job_output import JobOutput
from firnline.airflow.said import say_failure
from firnline.airflow.supervisors import job_environment
from firnline.errors import EnvironmentFaultError

_END_S = 25
"""Seconds that a job gets to end by itself; Airflow kills the task after a minute."""


class ChildJob:
    """One job.

    Args:
        name: of the job, for sentences.
        command: program and arguments; no secrets, which others see.
        driver_env: variables of the job, secrets included.
        python: its Python; None: that of the task.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        driver_env: Mapping[str, str],
        python: str | None = None,
    ) -> None:
        self._name, self._command, self._driver_env = name, list(command), dict(driver_env)
        self._python = python
        self._process: subprocess.Popen[str] | None = None
        self.output = JobOutput()

    def run(self, log: Callable[[str], None]) -> None:
        """Run the job and wait for its end.

        Args:
            log: is given each line of its output.

        Raises:
            AirflowFailException: the job reported a failure that a retry cannot help.
            AirflowException: it failed for a transient or an unknown reason.
            EnvironmentFaultError: the Python does not start.
        """
        python = self._python or sys.executable
        env = job_environment(self._driver_env)
        if self._python is not None:
            # Its own packages count, not those of the worker.
            for name in ("PYTHONPATH", "PYTHONHOME"):
                env.pop(name, None)
        try:
            self._process = subprocess.Popen(
                [python, *self._command],
                env=env,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                start_new_session=True,
            )
        except OSError as error:
            raise EnvironmentFaultError(
                f"the Python {python} does not start: {error.strerror}",
                next_step="correct spark.python of the settings, which names it",
            ) from None
        assert self._process.stdout is not None
        for line in self.output.listen(each.rstrip("\n") for each in self._process.stdout):
            log(line)
        failure = self.output.failure(self._name, self._process.wait())
        if failure is not None:
            say_failure(str(failure))
            raise failure

    def end(self) -> None:
        """End the job as Ctrl-C does, then by force, with all its processes."""
        process = self._process
        if process is None or process.poll() is not None:
            return
        process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_END_S)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
