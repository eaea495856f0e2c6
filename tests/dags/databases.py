"""Airflow's metadata database for tests: PostgreSQL where it is to be had, else SQLite.

SQLite answers "database is locked" at once where a transaction has read, another has written, and
the first wants to write. Airflow's API then answers 500, and our guard of pools fails a run rather
than let it go on with pools that it could not see: on a busy machine tests of runs then fail for a
reason that has nothing to do with them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from firnline.errors import EnvironmentFaultError
from firnline_dev.postgres import Postgres


@contextmanager
def metadata_database(given: str | None = None) -> Iterator[str | None]:
    """For ``StackOptions.database``: the one that is given, or a new one meanwhile."""
    if given is not None:
        yield given
        return
    try:
        server = Postgres().__enter__()
    except EnvironmentFaultError:
        yield None
        return
    try:
        yield server.address
    finally:
        server.stop()


def all_rows(address: str) -> Iterator[tuple[str, str]]:
    """Every row of every table as text, with the name of its table."""
    tables = "select tablename from pg_tables where schemaname = 'public'"
    with psycopg.connect(f"postgresql://{address}") as database:
        for (table,) in database.execute(tables).fetchall():
            for (row,) in database.execute(f'select r::text from "{table}" r'):
                yield table, row
