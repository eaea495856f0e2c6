"""Spark jobs: started as Airflow starts them, or run in this process on a session that lives on."""

from __future__ import annotations

import importlib
import io
import json
import sys
from collections.abc import Callable, Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from firnline.settings.spark_conf import with_defaults
from firnline.store.base import Store
from firnline.store.client import ObjectClient, open_store
from tests.support.programs import run_program
from tools.bootstrap import REPO

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SUBMIT = Path(sys.executable).with_name("spark-submit")


class Done:
    """A finished run of a job."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err
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
    """Run ``spark_jobs/<name>.py`` as a program, with a JVM of its own once it asks for one.

    Args:
        name: of the job.
        arguments: of the job.
        env: variables besides those of this process.
        submit: a master; the program is then given to ``spark-submit``, with the settings that
            the DAGs give it.
    """
    program = [sys.executable]
    if submit:
        settings = [f"--conf={key}={value}" for key, value in with_defaults({}).items()]
        program = [str(SUBMIT), "--master", submit, *settings]
    command = [*program, str(REPO / "spark_jobs" / f"{name}.py"), *arguments]
    done = run_program(command, {"PYSPARK_PYTHON": sys.executable, **(env or {})})
    return Done(done.returncode, done.stdout, done.stderr)


class NoRows(ObjectClient):
    """A driver's store through which no file with rows goes: neither from it nor into it."""

    def get_file(self, key: str, path: Path) -> Any:
        raise AssertionError(f"the driver reads {key}")

    def put_file(self, key: str, file: Path | bytes) -> Any:
        raise AssertionError(f"the driver writes {key}")


def without_rows(*arguments: Any, **named: Any) -> Store:
    """Open a store as ``open_store`` does, for a driver that leaves all rows to executors."""
    store = open_store(*arguments, **named)
    store.__class__ = NoRows
    return store


class Lent:
    """A session that the borrower cannot end: others go on using it."""

    def __init__(self, session: SparkSession, master: str | None) -> None:
        self._session = session
        self.master = master
        """What the borrower asked for."""
        self.stopped = False

    def stop(self) -> None:
        self.stopped = True

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)


@dataclass
class Jobs:
    """Runs jobs in this process, on one session: a JVM for each of them takes seconds.

    What only a process shows is for ``run_job``: exit codes, a JVM that starts and ends, settings
    of the session, what Spark itself prints.
    """

    session: SparkSession
    monkeypatch: pytest.MonkeyPatch
    lent: list[Lent] = field(default_factory=list)
    """One for each session that a job opened: none where no JVM would have started."""

    def run(
        self,
        name: str,
        *arguments: str,
        env: Mapping[str, str] | None = None,
        open_store: Callable[..., Any] | None = None,
    ) -> Done:
        """Run ``spark_jobs/<name>.py``; it has to stop the session that it opened.

        Args:
            name: of the job.
            arguments: of the job.
            env: variables besides those of this process.
            open_store: what the driver opens its store with; None for the real thing.
        """
        job = importlib.import_module(f"spark_jobs.{name}").JOB
        out, err = io.StringIO(), io.StringIO()
        with self.monkeypatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
            patch.setattr("firnline.spark.session.open_session", self._open)
            if open_store is not None:
                patch.setattr("firnline.table.open_store", open_store)
            for variable, value in (env or {}).items():
                patch.setenv(variable, value)
            code = job.main(arguments)
        assert all(lent.stopped for lent in self.lent)
        return Done(code, out.getvalue(), err.getvalue())

    def _open(
        self, _name: str, _conf: Mapping[str, str], master: str | None, _remote: str | None
    ) -> Lent:
        self.lent.append(Lent(self.session, master))
        return self.lent[-1]
