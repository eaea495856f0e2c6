"""A real Airflow on this machine: scheduler, DAG processor and API server, on SQLite or PostgreSQL.

    python -m tools.airflow_stack [HOME]   run it until Ctrl-C (`make up`)

For the demo and for tests of what only a real scheduler does. Everybody is an admin: it listens on
the loopback interface only.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from firnline.errors import EnvironmentFaultError
from tools.airflow_api import HUNG_SECONDS, AirflowApi, wait_until
from tools.airflow_home import (
    StackOptions,
    copy_database,
    keep_database,
    save_options,
    saved_options,
    write_config,
)
from tools.bootstrap import JAVA_HOME_FILE, REPO
from tools.processes import Programs
from tools.s3server import S3Server, free_port

DEFAULT_HOME = REPO / ".firnline" / "airflow"
_BIN = Path(sys.executable).parent


class AirflowStack:
    """One Airflow in a home folder; a context manager that is ready inside and gone after.

    Args:
        home: database, settings, keys and logs; what is there is used again.
        options: what it runs.
    """

    def __init__(self, home: Path, options: StackOptions | None = None) -> None:
        self.home = home.resolve()
        self.options = options or StackOptions()
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
        """Prepare the home folder and start the components; see ``wait_ready``."""
        self.home.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        write_config(self.home, self.options, self.port)
        self._make_tables()
        self._api = AirflowApi(self.url)
        if self.options.pools is not None:
            # Before there is a scheduler: a run whose pools are not there yet is failed.
            self.pools_import(self.options.pools)
        env = self.env()
        for name, component in self._components().items():
            self.programs.start(name, [str(_BIN / "airflow"), component], env)
        return self

    def _make_tables(self) -> None:
        """Give the database Airflow's tables."""
        if self.options.database is not None:
            if not self.options.migrated:
                self.airflow("db", "migrate")
        elif not copy_database(self.home):
            self.airflow("db", "migrate")
            keep_database(self.home)

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
        """Wait until every component reports itself healthy.

        Raises:
            EnvironmentFaultError: one of them ended, or the time is up.
        """
        parts = ["metadatabase", "scheduler", "dag_processor"]
        parts += ["triggerer"] if self.options.triggerer else []
        if self.options.only:
            known = {name.replace("-", "_") for name in self.options.only}
            parts = [part for part in parts if part in {"metadatabase", *known}]

        def ready_or_dead() -> bool:
            health = self.api.health()
            return self.programs.dead() is not None or all(
                health.get(part) == "healthy" for part in parts
            )

        ended = wait_until(ready_or_dead, seconds)
        dead = self.programs.dead()
        if not ended or dead:
            what = f"{dead} ended" if dead else f"not ready after {seconds:.0f} s"
            raise EnvironmentFaultError(
                f"Airflow in {self.home} did not start ({what}): {self._last_words(dead)}",
                next_step=f"read the logs in {self.programs.logs}",
            )

    def stop(self) -> None:
        """End every process of the stack. Raises RuntimeError naming one that cannot be ended."""
        if self._api is not None:
            self._api.close()
            self._api = None
        left = self.programs.stop()
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

    def pools_import(self, path: Path) -> None:
        """`airflow pools import`: what an operator does with the output of `firnline pools`."""
        self.airflow("pools", "import", str(path))

    def task_log(self, dag_id: str, run_id: str, task_id: str) -> str:
        """Return the log of all tries of a task, oldest first (JSON lines)."""
        folder = self.home / "logs" / f"dag_id={dag_id}" / f"run_id={run_id}"
        files = sorted((folder / f"task_id={task_id}").rglob("*.log"))
        return "".join(file.read_text(encoding="utf-8", errors="replace") for file in files)

    def save(self) -> Path:
        """Keep the options in the home folder, for `make up` to start the same stack again."""
        return save_options(self.home, self.options)

    def _last_words(self, name: str | None) -> str:
        file = self.programs.logs / f"{name or 'scheduler'}.log"
        text = file.read_text(encoding="utf-8", errors="replace") if file.exists() else ""
        return text[-1000:].strip()


# --- `make up` ------------------------------------------------------------------------------------


def up(home: Path) -> None:
    """Run the stack of a home folder until Ctrl-C or SIGTERM."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    options = saved_options(home)
    server = S3Server(options.s3_data).start() if options.s3_data else None
    if server is not None:
        # A server has new keys and a new port each time.
        options = StackOptions(**{**vars(options), "env": {**options.env, **server.env()}})
    try:
        print("starting Airflow (some 20 s)", flush=True)
        with AirflowStack(home, options) as stack:
            print(
                f"Airflow: {stack.url}   logs: {stack.programs.logs}   Ctrl-C ends it", flush=True
            )
            while stack.programs.dead() is None:
                time.sleep(1)
            print(f"{stack.programs.dead()} ended; its log is in {stack.programs.logs}")
    except KeyboardInterrupt:
        print("ended")
    finally:
        if server is not None:
            server.stop()


if __name__ == "__main__":
    up(Path(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT_HOME)
