"""Run in the environment of ``tools.duckdbreader``: answers queries until its input ends.

    python duckdb_program.py EXTENSION ...

Each request and each answer is pickled. A request is ``(secret, query)``: the access to a store as
clauses of CREATE SECRET, or nothing, and SQL; an answer is rows as dictionaries, or the text of an
error.
"""

from __future__ import annotations

import datetime as dt
import pickle
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import duckdb


def connected(extensions: list[str]) -> duckdb.DuckDBPyConnection:
    """Connect, with extensions from their packages and from nowhere else."""
    found = duckdb.connect(config={"autoinstall_known_extensions": "false"})
    found.execute("SET TimeZone = 'UTC'")
    for name in extensions:
        spec = find_spec(f"duckdb_extension_{name}")
        assert spec is not None
        assert spec.origin is not None
        folder = Path(spec.origin).parent / "extensions" / f"v{duckdb.__version__}"
        found.execute(f"LOAD '{folder / name}.duckdb_extension'")
    return found


def plain(value: Any) -> Any:
    """Return a value as Arrow's ``to_pylist`` gives it: UTC without another library's zone."""
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        return value.astimezone(dt.UTC)
    return value


def ask(connection: duckdb.DuckDBPyConnection, secret: str, query: str) -> Any:
    try:
        if secret:
            connection.execute(f"CREATE OR REPLACE SECRET store ({secret})")
        answer = connection.execute(query)
        names = [column[0] for column in answer.description]
        return [dict(zip(names, map(plain, row), strict=True)) for row in answer.fetchall()]
    except duckdb.Error as error:
        return str(error)


def main(extensions: list[str]) -> None:
    connection = connected(extensions)
    while True:
        try:
            secret, query = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        pickle.dump(ask(connection, secret, query), sys.stdout.buffer)
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
