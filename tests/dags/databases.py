"""A look into Airflow's metadata database."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg


def all_rows(address: str) -> Iterator[tuple[str, str]]:
    """Every row of every table as text, with the name of its table."""
    tables = "select tablename from pg_tables where schemaname = 'public'"
    with psycopg.connect(f"postgresql://{address}") as database:
        for (table,) in database.execute(tables).fetchall():
            for (row,) in database.execute(f'select r::text from "{table}" r'):
                yield table, row
