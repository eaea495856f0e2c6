"""Spark jobs, started as Airflow starts them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from firnline_dev.bootstrap import REPO
from tests.support.programs import run_program

SUBMIT = Path(sys.executable).with_name("spark-submit")


class Done:
    """A finished run of a job."""

    def __init__(self, process: subprocess.CompletedProcess[str]) -> None:
        self.code, self.out, self.err = process.returncode, process.stdout, process.stderr
        assert "Traceback" not in self.err, self.err

    @property
    def printed(self) -> dict[str, Any]:
        """The report, which some failed runs print too."""
        found: dict[str, Any] = json.loads(self.out.splitlines()[-1])
        return found

    @property
    def report(self) -> dict[str, Any]:
        assert self.code == 0, self.err
        return self.printed

    @property
    def error(self) -> dict[str, Any]:
        assert self.code != 0, self.out
        found: dict[str, Any] = json.loads(self.err.splitlines()[-1])["error"]
        return found


def run_job(
    name: str,
    *arguments: str,
    env: Mapping[str, str] | None = None,
    submit: str | None = None,
) -> Done:
    """Run ``spark_jobs/<name>.py`` by itself, or by ``spark-submit`` to the master ``submit``."""
    program = [str(SUBMIT), "--master", submit] if submit else [sys.executable]
    command = [*program, str(REPO / "spark_jobs" / f"{name}.py"), *arguments]
    return Done(run_program(command, {"PYSPARK_PYTHON": sys.executable, **(env or {})}))
