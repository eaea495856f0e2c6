"""A real Airflow on this machine: scheduler, DAG processor and API server on SQLite.

    python -m firnline_dev.airflow_stack [HOME]   run it until Ctrl-C (`make up`)

For the demo and for tests of what only a real scheduler does. Everybody is an admin: it listens on
the loopback interface only.
"""

from __future__ import annotations

import configparser
import json
import os
import secrets
import shutil
import subprocess
import sys
import time
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from firnline.errors import EnvironmentFaultError
from firnline_dev.airflow_api import AirflowApi, wait_until
from firnline_dev.bootstrap import CACHE, JAVA_HOME_FILE, REPO
from firnline_dev.processes import Programs
from firnline_dev.s3server import S3Server, free_port

DEFAULT_HOME = REPO / ".firnline" / "airflow"
_BIN = Path(sys.executable).parent
_SAVED = "stack.json"

Config = Mapping[str, Mapping[str, object]]


@dataclass(frozen=True)
class StackOptions:
    """What a stack runs. Everything has a default."""

    dags: Path = REPO / "dags"
    plugins: Path = REPO / "plugins"
    env: Mapping[str, str] = field(default_factory=dict)
    """For the components and all tasks, over this process's own environment."""
    connections: Mapping[str, str | Mapping[str, Any]] = field(default_factory=dict, repr=False)
    """By id: an Airflow connection URI, or its fields (``conn_type``, ``host``, ``extra`` ...)."""
    pools: Path | None = None
    """A file for `airflow pools import`, imported while the stack starts."""
    schedules: bool = False
    """Whether cron schedules start runs; off, so that only what is triggered runs."""
    triggerer: bool = False
    s3_data: Path | None = None
    """Folder of an S3Server that `make up` starts beside the stack."""
    config: Config = field(default_factory=dict)
    """Further settings by section, over the ones below."""


def base_config(home: Path, options: StackOptions, port: int) -> dict[str, dict[str, object]]:
    """Airflow's settings: quick to start, quick to notice, quiet to the outside."""
    url = f"http://127.0.0.1:{port}"
    return {
        "core": {
            "dags_folder": options.dags,
            "plugins_folder": options.plugins,
            "load_examples": False,
            "executor": "LocalExecutor",
            "parallelism": 8,
            "dags_are_paused_at_creation": False,
            "simple_auth_manager_all_admins": True,
            "execution_api_server_url": f"{url}/execution/",
        },
        "database": {"sql_alchemy_conn": f"sqlite:///{home}/airflow.db"},
        "logging": {"base_log_folder": home / "logs"},
        "api": {"host": "127.0.0.1", "port": port, "base_url": url, "workers": 1},
        "scheduler": {
            "use_job_schedule": options.schedules,
            "scheduler_idle_sleep_time": 0.2,
            "scheduler_heartbeat_sec": 1,
            "job_heartbeat_sec": 2,
        },
        "dag_processor": {
            "refresh_interval": 5,
            "bundle_refresh_check_interval": 1,
            "min_file_process_interval": 10,
            "parsing_processes": 1,
        },
        # No call home.
        "usage_data_collection": {"enabled": False},
    }


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
        # Airflow reads any AIRFLOW__* before its file: those of whoever runs this must not count.
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
        self._write_config()
        self._make_database()
        self._api = AirflowApi(self.url)
        env = self.env()
        for name in ("api-server", "scheduler", "dag-processor"):
            self.programs.start(name, [str(_BIN / "airflow"), name], env)
        if self.options.triggerer:
            self.programs.start("triggerer", [str(_BIN / "airflow"), "triggerer"], env)
        if self.options.pools is not None:
            self.pools_import(self.options.pools)
        return self

    def wait_ready(self, seconds: float = 120.0) -> None:
        """Wait until every component reports itself healthy.

        Raises:
            EnvironmentFaultError: one of them ended, or the time is up.
        """
        parts = ["metadatabase", "scheduler", "dag_processor"]
        parts += ["triggerer"] if self.options.triggerer else []

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
                next_step="mend what it says",
            )
        return done.stdout

    def pools_import(self, path: Path) -> None:
        """`airflow pools import`: what an operator does with the output of `firnline pools`."""
        self.airflow("pools", "import", str(path))

    def task_log(self, dag_id: str, run_id: str, task_id: str) -> str:
        """What all tries of a task have logged, oldest first (JSON lines)."""
        folder = self.home / "logs" / f"dag_id={dag_id}" / f"run_id={run_id}"
        files = sorted((folder / f"task_id={task_id}").rglob("*.log"))
        return "".join(file.read_text(encoding="utf-8", errors="replace") for file in files)

    def save(self) -> Path:
        """Keep the options in the home folder, for `make up` to start the same stack again."""
        kept = {
            "dags": str(self.options.dags),
            "plugins": str(self.options.plugins),
            "env": dict(self.options.env),
            "connections": dict(self.options.connections),
            "s3_data": str(self.options.s3_data) if self.options.s3_data else None,
        }
        path = self.home / _SAVED
        path.touch(mode=0o600)
        path.write_text(json.dumps(kept, indent=1), encoding="utf-8")
        return path

    # --- the home folder --------------------------------------------------------------------------

    def _write_config(self) -> None:
        # One complete file before anything starts: otherwise each component makes keys of its own.
        path = self.home / "airflow.cfg"
        config = configparser.RawConfigParser()
        config.read(path, encoding="utf-8")
        keys = {
            ("core", "fernet_key"): urlsafe_b64encode(secrets.token_bytes(32)).decode(),
            ("api", "secret_key"): secrets.token_urlsafe(32),
            ("api_auth", "jwt_secret"): secrets.token_urlsafe(48),
        }
        wanted = base_config(self.home, self.options, self.port)
        for section, values in [*wanted.items(), *self.options.config.items()]:
            for name, value in values.items():
                _set(config, section, name, str(value))
        for (section, name), key in keys.items():
            if not config.has_option(section, name):
                _set(config, section, name, key)
        path.touch(mode=0o600)
        with path.open("w", encoding="utf-8") as file:
            config.write(file)

    def _make_database(self) -> None:
        # `airflow db migrate` takes 12 s on an empty database: once per version, then copied.
        mine = self.home / "airflow.db"
        if mine.exists():
            return
        ready = CACHE / f"airflow-{version('apache-airflow-core')}.db"
        if not ready.exists():
            self.airflow("db", "migrate")
            copy = ready.with_suffix(f".{os.getpid()}")
            CACHE.mkdir(exist_ok=True)
            shutil.copyfile(mine, copy)
            copy.replace(ready)
            return
        shutil.copyfile(ready, mine)

    def _last_words(self, name: str | None) -> str:
        file = self.programs.logs / f"{name or 'scheduler'}.log"
        text = file.read_text(encoding="utf-8", errors="replace") if file.exists() else ""
        return text[-1000:].strip()


def _set(config: configparser.RawConfigParser, section: str, name: str, value: str) -> None:
    if not config.has_section(section):
        config.add_section(section)
    config.set(section, name, value)


# --- `make up` ------------------------------------------------------------------------------------


def saved_options(home: Path) -> StackOptions:
    """What ``save`` kept in the home folder; the repository's own DAGs where it kept nothing."""
    path = home / _SAVED
    if not path.exists():
        return StackOptions(schedules=True)
    kept = json.loads(path.read_text(encoding="utf-8"))
    return StackOptions(
        dags=Path(kept["dags"]),
        plugins=Path(kept["plugins"]),
        env=kept["env"],
        connections=kept["connections"],
        s3_data=Path(kept["s3_data"]) if kept["s3_data"] else None,
        schedules=True,
    )


def up(home: Path) -> None:
    """Run the stack of a home folder until Ctrl-C."""
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
