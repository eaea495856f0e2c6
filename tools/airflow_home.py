"""The home folder of a local Airflow: its settings, keys, database and what it was started with."""

from __future__ import annotations

import configparser
import json
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

_SAVED = "stack.json"

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
    """A file for `airflow pools import`, imported while the stack starts."""
    schedules: bool = False
    """True if cron schedules start runs; False: only triggered runs."""
    only: tuple[str, ...] = ()
    """Commands of `airflow` that run; empty for all that a stack needs."""
    triggerer: bool = False
    schedulers: int = 1
    """More than one want a ``database``: SQLite has no locks on rows."""
    database: str | None = field(default=None, repr=False)
    """``user:password@host:port/name`` of an empty PostgreSQL database; None: SQLite."""
    migrated: bool = False
    """True where the ``database`` has Airflow's tables already."""
    s3_data: Path | None = None
    """Folder of an S3Server that `make up` starts beside the stack."""
    config: Config = field(default_factory=dict)
    """Further settings by section, over the ones below."""


def base_config(home: Path, options: StackOptions, port: int) -> dict[str, dict[str, object]]:
    """Airflow's settings: quick to start, quick to notice, quiet to the outside."""
    url = f"http://127.0.0.1:{port}"
    # SQLite takes one writer at a time, and its own 5 s of waiting are too few on a busy machine.
    database: dict[str, object] = {"sql_alchemy_conn": f"sqlite:///{home}/airflow.db?timeout=600"}
    if options.database is not None:
        names = ("sql_alchemy_conn", "sql_alchemy_conn_async")
        database = dict.fromkeys(names, f"postgresql+psycopg://{options.database}")
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
        # No call home.
        "usage_data_collection": {"enabled": False},
    }


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


# --- the database: migrated once per version of Airflow (12 s), then copied -----------------------


def _empty_database() -> Path:
    return CACHE / f"airflow-{version('apache-airflow-core')}.db"


def copy_database(home: Path) -> bool:
    """Give the home an empty, migrated database; False when there is none to copy yet."""
    mine, empty = home / "airflow.db", _empty_database()
    if not mine.exists():
        if not empty.exists():
            return False
        shutil.copyfile(empty, mine)
    return True


def keep_database(home: Path) -> None:
    """Keep the home's freshly migrated database for the next ones to copy."""
    CACHE.mkdir(exist_ok=True)
    copy = CACHE / f"airflow-{os.getpid()}.db"
    shutil.copyfile(home / "airflow.db", copy)
    copy.replace(_empty_database())


# --- what it was started with ---------------------------------------------------------------------


def save_options(home: Path, options: StackOptions) -> Path:
    """Keep the options in the home folder (they may hold credentials: for its owner only)."""
    kept = {
        "dags": str(options.dags),
        "plugins": str(options.plugins),
        "env": dict(options.env),
        "connections": dict(options.connections),
        "s3_data": str(options.s3_data) if options.s3_data else None,
    }
    path = home / _SAVED
    path.touch(mode=0o600)
    path.write_text(json.dumps(kept, indent=1), encoding="utf-8")
    return path


def saved_options(home: Path) -> StackOptions:
    """Return the options kept by ``save_options``; the repository's own DAGs without any."""
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
