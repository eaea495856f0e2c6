"""Airflow's metadata database for tests: PostgreSQL where it is to be had, else SQLite.

SQLite answers "database is locked" at once where a transaction has read, another has written, and
the first wants to write. Airflow's API then answers 500, and our guard of pools fails a run rather
than let it go on with pools that it could not see: on a busy machine tests of runs then fail for a
reason that has nothing to do with them.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psycopg

from firnline.errors import EnvironmentFaultError
from tools.airflow_home import StackOptions, write_config
from tools.airflow_stack import AirflowStack
from tools.bootstrap import CACHE
from tools.postgres import Postgres, install, major_version


@contextmanager
def metadata_database() -> Iterator[str | None]:
    """Yield a new database with Airflow's tables, for ``StackOptions.database``; None: SQLite."""
    with ExitStack() as ends:
        try:
            address = ends.enter_context(_migrated())
        except EnvironmentFaultError:
            address = None
        yield address


@contextmanager
def _migrated() -> Iterator[str]:
    """Airflow makes its tables once per version (some 15 s); then they are copied."""
    versions = f"{version('apache-airflow-core')}-postgresql-{major_version(install())}"
    template = CACHE / f"airflow-{versions}"
    if template.exists():
        with Postgres(template) as server:
            yield server.address
        return
    with Postgres() as server, tempfile.TemporaryDirectory() as folder:
        options = StackOptions(dags=Path(folder), database=server.address)
        write_config(Path(folder), options, 0)
        AirflowStack(Path(folder), options).airflow("db", "migrate")
        server.keep(template)
        yield server.address


def make_pools(address: str, pools: Mapping[str, Mapping[str, Any]]) -> None:
    """Do what `airflow pools import` does, without the seconds that it takes to start."""
    insert = (
        "insert into slot_pool (pool, slots, description, include_deferred)"
        " values (%(name)s, %(slots)s, %(description)s, %(include_deferred)s)"
    )
    with psycopg.connect(f"postgresql://{address}") as database, database.cursor() as cursor:
        cursor.executemany(insert, [{"name": name, **pool} for name, pool in pools.items()])


def all_rows(address: str) -> Iterator[tuple[str, str]]:
    """Every row of every table as text, with the name of its table."""
    tables = "select tablename from pg_tables where schemaname = 'public'"
    with psycopg.connect(f"postgresql://{address}") as database:
        for (table,) in database.execute(tables).fetchall():
            for (row,) in database.execute(f'select r::text from "{table}" r'):
                yield table, row
