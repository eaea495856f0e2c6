"""The home folder of a local Airflow: its settings, keys and, with SQLite, its database."""

from __future__ import annotations

import configparser
import os
import secrets
import shutil
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tools.bootstrap import CACHE, REPO

SQLITE = "airflow.db"
"""Name of the database in a home folder that has no server of its own."""
_SQLITE_SECONDS = 60
"""Seconds for which a writer waits for its turn: longer than any transaction takes."""
_SQLITE_API_SECONDS = 1
"""The same in the API server.

Of two requests that write at once, one waits in the thread in which the other has to commit: the
whole server stands still until this time is up, and one of them fails.
"""

_MORE_CONNECTIONS = 100
"""Connections of a component beyond the five that it keeps.

The API server waits for a connection in the thread in which others give theirs back: with Airflow's
own ten, sixteen requests at once stand still for 30 s, and some of them fail.
"""

Config = Mapping[str, Mapping[str, object]]


@dataclass(frozen=True)
class StackOptions:
    """Options of a stack. All have defaults."""

    dags: Path = REPO / "dags"
    plugins: Path = REPO / "plugins"
    env: Mapping[str, str] = field(default_factory=dict)
    """For the components and all tasks, over this process's own environment."""
    connections: Mapping[str, str | Mapping[str, Any]] = field(default_factory=dict, repr=False)
    """By id: an Airflow connection URI, or its fields (``conn_type``, ``host``, ``extra`` ...)."""
    pools: Path | None = None
    """A file as `airflow pools import` reads it: its pools are there before a run is."""
    schedules: bool = False
    """True if cron schedules start runs; False: only triggered runs."""
    only: tuple[str, ...] = ()
    """Commands of `airflow` that run; empty for all that a stack needs."""
    triggerer: bool = False
    schedulers: int = 1
    """More than one want PostgreSQL: SQLite has no locks on rows."""
    database: str | None = field(default=None, repr=False)
    """``user:password@host:port/name`` of a PostgreSQL database with Airflow's tables, such as the
    server that the stack was given; None: SQLite."""
    config: Config = field(default_factory=dict)
    """Further settings by section, over the ones below."""


def base_config(home: Path, options: StackOptions, port: int) -> dict[str, dict[str, object]]:
    """Airflow's settings: quick to start, quick to notice, quiet to the outside."""
    url = f"http://127.0.0.1:{port}"
    database: dict[str, object] = {"sql_alchemy_max_overflow": _MORE_CONNECTIONS}
    if options.database is None:
        database |= {"sql_alchemy_conn": _sqlite_url(home, _SQLITE_SECONDS)}
    else:
        names = ("sql_alchemy_conn", "sql_alchemy_conn_async")
        database |= dict.fromkeys(names, f"postgresql+psycopg://{options.database}")
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
        "database": database,
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
        # A task that has ended is noticed after this many seconds at most: its supervisor sleeps as
        # long whenever the task's last words come before its end.
        "workers": {"min_heartbeat_interval": 1},
        # No call home.
        "usage_data_collection": {"enabled": False},
    }


def component_env(home: Path, options: StackOptions, component: str) -> dict[str, str]:
    """Return settings that one command of `airflow` has for itself, as environment."""
    if component != "api-server" or options.database is not None:
        return {}
    return {"AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": _sqlite_url(home, _SQLITE_API_SECONDS)}


def _sqlite_url(home: Path, seconds: int) -> str:
    return f"sqlite:///{home / SQLITE}?timeout={seconds}"


def write_config(home: Path, options: StackOptions, port: int) -> None:
    """Write airflow.cfg: our settings over what is there; keys are made once and stay.

    One complete file before anything starts: otherwise each component makes keys of its own.
    """
    path = home / "airflow.cfg"
    config = configparser.RawConfigParser()
    config.read(path, encoding="utf-8")
    keys = {
        ("core", "fernet_key"): urlsafe_b64encode(secrets.token_bytes(32)).decode(),
        ("api", "secret_key"): secrets.token_urlsafe(32),
        ("api_auth", "jwt_secret"): secrets.token_urlsafe(48),
    }
    wanted = base_config(home, options, port)
    for section, values in [*wanted.items(), *options.config.items()]:
        for name, value in values.items():
            _set(config, section, name, str(value))
    for (section, name), key in keys.items():
        if not config.has_option(section, name):
            _set(config, section, name, key)
    path.touch(mode=0o600)
    with path.open("w", encoding="utf-8") as file:
        config.write(file)


def _set(config: configparser.RawConfigParser, section: str, name: str, value: str) -> None:
    if not config.has_section(section):
        config.add_section(section)
    config.set(section, name, value)


# --- SQLite: migrated once per version of Airflow (12 s), then copied -----------------------------


def _empty_database() -> Path:
    return CACHE / f"airflow-{version('apache-airflow-core')}.db"


def copy_database(home: Path) -> bool:
    """Give the home an empty, migrated database; False when there is none to copy yet."""
    mine, empty = home / SQLITE, _empty_database()
    if not mine.exists():
        if not empty.exists():
            return False
        shutil.copyfile(empty, mine)
    return True


def keep_database(home: Path) -> None:
    """Keep the home's freshly migrated database for the next ones to copy."""
    CACHE.mkdir(exist_ok=True)
    copy = CACHE / f"airflow-{os.getpid()}.db"
    shutil.copyfile(home / SQLITE, copy)
    copy.replace(_empty_database())
