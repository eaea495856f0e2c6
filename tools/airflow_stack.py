"""A real Airflow on this machine: scheduler, DAG processor and API server, on SQLite or PostgreSQL.

For the demo and for tests of what only a real scheduler does. Everybody is an admin: it listens on
the loopback interface only.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

from firnline.errors import EnvironmentFaultError
from tools.airflow_api import HUNG_SECONDS, AirflowApi, wait_until
from tools.airflow_home import (
    StackOptions,
    component_env,
    copy_database,
    keep_database,
    write_config,
)
from tools.bootstrap import JAVA_HOME_FILE
from tools.postgres import Postgres
from tools.processes import Programs
from tools.s3server import free_port

_BIN = Path(sys.executable).parent
_SERVER = "postgres"
_FOLLOWERS = frozenset({"scheduler", "triggerer"})
"""Commands of `airflow` that come last: a task that finds no API server loses its try."""


class AirflowStack:
    """One Airflow in a home folder; a context manager that is ready inside and gone after.

    Args:
        home: database, settings, keys and logs; what is there is used again.
        options: what it runs.
        server: its database, which it starts and stops; None: that of the options.
    """

    def __init__(
        self, home: Path, options: StackOptions | None = None, server: Postgres | None = None
    ) -> None:
        self.home = home.resolve()
        self.options = options or StackOptions()
        self._server = server
        self.port = 0
        self.programs = Programs(
            f"{self.home}:{secrets.token_hex(4)}", self.home / "logs" / "stack"
        )
        self._api: AirflowApi | None = None

    @property
    def url(self) -> str:
        """The address of the page and the API."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def api(self) -> AirflowApi:
        """The REST API. Raises RuntimeError before ``start``."""
        if self._api is None:
            raise RuntimeError("the Airflow stack is not started")
        return self._api

    def env(self) -> dict[str, str]:
        """The environment of the components, also for one's own calls of `airflow`."""
        # Airflow reads any AIRFLOW__* before its file: those of the caller must not count.
        own = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("AIRFLOW_", "PYTHONDONTWRITEBYTECODE", "SPARK_", "VIRTUAL_ENV"))
        }
        own["PATH"] = f"{_BIN}{os.pathsep}{own.get('PATH', os.defpath)}"
        own["PYSPARK_PYTHON"] = sys.executable
        if JAVA_HOME_FILE.exists():
            own["JAVA_HOME"] = JAVA_HOME_FILE.read_text(encoding="utf-8")
        for conn_id, connection in self.options.connections.items():
            text = connection if isinstance(connection, str) else json.dumps(dict(connection))
            own[f"AIRFLOW_CONN_{conn_id.upper()}"] = text
        return {**own, "AIRFLOW_HOME": str(self.home), **self.options.env}

    # --- start and stop ---------------------------------------------------------------------------

    def start(self) -> Self:
        """Prepare the home folder and start what the others need; see ``wait_ready``."""
        self.home.mkdir(parents=True, exist_ok=True)
        if self._server is not None:
            self.options = replace(self.options, database=self._server.start().address)
        self.port = free_port()
        write_config(self.home, self.options, self.port)
        if self.options.database is None and not copy_database(self.home):
            self.airflow("db", "migrate")
            keep_database(self.home)
        self._api = AirflowApi(self.url)
        self._start(followers=False)
        return self

    def _start(self, *, followers: bool) -> None:
        for name, component in self._components().items():
            if (component in _FOLLOWERS) == followers:
                env = {**component_env(self.home, self.options, component), **self.env()}
                self.programs.start(name, [str(_BIN / "airflow"), component], env)

    def attach(self, port: int, mark: str, pids: Mapping[str, int]) -> Self:
        """Be a second view of a stack that another process has started and ends.

        Args:
            port: of its API server.
            mark: of its ``programs``.
            pids: of its ``programs``.
        """
        self.port = port
        self.programs.mark = mark
        self.programs.know(pids)
        self._api = AirflowApi(self.url)
        return self

    def _components(self) -> dict[str, str]:
        """Name of a program -> `airflow` command."""
        if self.options.only:
            return {name: name for name in self.options.only}
        names = ["api-server", "scheduler", "dag-processor"]
        names += ["triggerer"] if self.options.triggerer else []
        more = {f"scheduler-{n}": "scheduler" for n in range(2, self.options.schedulers + 1)}
        return {**{name: name for name in names}, **more}

    def wait_ready(self, seconds: float = HUNG_SECONDS) -> None:
        """Start the rest once the API answers, and wait until every component is healthy.

        Args:
            seconds: for the API, and then for all.

        Raises:
            EnvironmentFaultError: one of them ended, or the time is up.
        """
        self._wait(lambda: bool(self.api.health()), seconds)
        if self.options.pools is not None:
            # Before there is a scheduler: a run whose pools are not there yet is failed.
            self.api.set_pools(json.loads(self.options.pools.read_text(encoding="utf-8")))
        self._start(followers=True)
        parts = ["metadatabase", "scheduler", "dag_processor"]
        parts += ["triggerer"] if self.options.triggerer else []
        if self.options.only:
            known = {name.replace("-", "_") for name in self.options.only}
            parts = [part for part in parts if part in {"metadatabase", *known}]

        def all_healthy() -> bool:
            health = self.api.health()
            return all(health.get(part) == "healthy" for part in parts)

        self._wait(all_healthy, seconds)

    def _wait(self, holds: Callable[[], bool], seconds: float) -> None:
        ended = wait_until(lambda: self.dead() is not None or holds(), seconds)
        dead = self.dead()
        if not ended or dead:
            what = f"{dead} ended" if dead else f"not ready after {seconds:.0f} s"
            raise EnvironmentFaultError(
                f"Airflow in {self.home} did not start ({what}): {self._last_words(dead)}",
                next_step=f"read the logs in {self.programs.logs}",
            )

    def dead(self) -> str | None:
        """The name of a component, or of the database's server, that has ended by itself."""
        if self._server is not None and self._server.ended():
            return _SERVER
        return self.programs.dead()

    def stop(self) -> None:
        """End every process of the stack. Raises RuntimeError naming one that cannot be ended."""
        if self._api is not None:
            self._api.close()
            self._api = None
        left = self.programs.stop()
        if self._server is not None:
            self._server.stop()
        if left:
            raise RuntimeError(f"processes of the Airflow stack outlived SIGKILL: {left}")

    def __enter__(self) -> Self:
        try:
            self.start()
            self.wait_ready()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    # --- what the REST API does not do ------------------------------------------------------------

    def airflow(self, *arguments: str) -> str:
        """Run one `airflow` command in this home; its output (some 5 s).

        Raises:
            EnvironmentFaultError: it failed; with its last lines.
        """
        done = subprocess.run(
            [str(_BIN / "airflow"), *arguments],
            env=self.env(),
            check=False,
            capture_output=True,
            text=True,
        )
        if done.returncode != 0:
            raise EnvironmentFaultError(
                f"`airflow {' '.join(arguments)}` failed: {(done.stdout + done.stderr)[-800:]}",
                next_step="repair what it says",
            )
        return done.stdout

    def task_log(self, dag_id: str, run_id: str, task_id: str) -> str:
        """Return the log of all tries of a task, oldest first (JSON lines)."""
        folder = self.home / "logs" / f"dag_id={dag_id}" / f"run_id={run_id}"
        files = sorted((folder / f"task_id={task_id}").rglob("*.log"))
        return "".join(file.read_text(encoding="utf-8", errors="replace") for file in files)

    def _last_words(self, name: str | None) -> str:
        file = self.programs.logs / f"{name or 'scheduler'}.log"
        text = file.read_text(encoding="utf-8", errors="replace") if file.exists() else ""
        return text[-1000:].strip()
