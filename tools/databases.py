"""The metadata database of a local Airflow: PostgreSQL where it is to be had, else SQLite.

SQLite has one writer at a time. The API server waits for its turn in the thread that would have to
end the transaction of the other request, so that both wait until the time is up; and who has read,
and wants to write when another has written, is answered "database is locked" at once. With a few
runs at a time this is seldom seen; fifty triggers at once stand still.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from firnline.errors import EnvironmentFaultError
from tools.airflow_home import SQLITE, StackOptions, write_config
from tools.airflow_stack import AirflowStack
from tools.bootstrap import CACHE
from tools.postgres import Postgres, check_enterable, find_programs, major_version

_FOLDER = "postgres"


@dataclass(frozen=True)
class Database:
    """The database of a home folder."""

    server: Postgres | None
    """For ``AirflowStack``, which starts and stops it; None: SQLite."""
    words: str
    """``PostgreSQL``, or ``SQLite:`` and the reason for it."""


def migrated_template() -> Path:
    """Return data for ``Postgres`` that has Airflow's tables: made once per version (some 15 s).

    Raises:
        EnvironmentFaultError: there is no PostgreSQL here, or it does not run.
    """
    programs = find_programs()
    if programs is None:
        raise EnvironmentFaultError(
            "there is no PostgreSQL on this machine", next_step="install it"
        )
    versions = f"{version('apache-airflow-core')}-postgresql-{major_version(programs)}"
    template = CACHE / f"airflow-{versions}"
    if not template.exists():
        CACHE.mkdir(exist_ok=True)
        with Postgres() as server, tempfile.TemporaryDirectory() as folder:
            options = StackOptions(dags=Path(folder), database=server.address)
            write_config(Path(folder), options, 0)
            AirflowStack(Path(folder), options).airflow("db", "migrate")
            server.keep(template)
    return template


def database_of(home: Path, template: Callable[[], Path] = migrated_template) -> Database:
    """Return the database of a home folder: the one that it has, else PostgreSQL if possible.

    A home that was made with SQLite keeps it, and with it the runs that it knows.

    Args:
        home: of Airflow; need not be there yet.
        template: makes what a new server begins with.

    Raises:
        EnvironmentFaultError: its PostgreSQL cannot run here any more.
    """
    folder = home / _FOLDER
    if (folder / "data").exists():
        check_enterable(home)
        return Database(Postgres(folder=folder), "PostgreSQL")
    if (home / SQLITE).exists():
        return _sqlite(f"{home} was made with it")
    try:
        home.mkdir(parents=True, exist_ok=True)
        check_enterable(home)
        return Database(Postgres(template(), folder), "PostgreSQL")
    except EnvironmentFaultError as error:
        return _sqlite(error.message)


def _sqlite(reason: str) -> Database:
    return Database(None, f"SQLite: {reason}; good for a few runs at a time")


def temporary_server() -> Postgres | None:
    """Return a server, not started, with Airflow's tables, that leaves nothing; None: SQLite."""
    try:
        return Postgres(migrated_template())
    except EnvironmentFaultError:
        return None
