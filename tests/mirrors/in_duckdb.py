"""DuckDB with its own extensions for Delta and Iceberg, as a reader of mirrors."""

from __future__ import annotations

import atexit
import functools
import pickle
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from firnline.errors import EnvironmentFaultError
from tools import duckdbreader

COLUMNS = frozenset({"DuckDB, Delta", "DuckDB, Iceberg"})
"""As the table of docs/testing.md names it."""


@functools.cache
def _why_absent() -> str:
    try:
        duckdbreader.ensure()
    except EnvironmentFaultError as error:
        return str(error)
    return ""


def absent() -> frozenset[str]:
    """Its columns, if it cannot be had here; none if it can."""
    return COLUMNS if _why_absent() else frozenset()


def skip_if_absent() -> None:
    """At the end of a test that has asked all other readers."""
    if why := _why_absent():
        pytest.skip(f"DuckDB was not asked, the other readers were: {why}")


@functools.cache
def _process() -> subprocess.Popen[bytes]:
    """One for this process: it takes longer to start than any answer does."""
    program = Path(__file__).with_name("duckdb_program.py")
    found = subprocess.Popen(
        [duckdbreader.ensure(), program, *duckdbreader.EXTENSIONS],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    atexit.register(found.communicate)
    return found


def ask(query: str, options: dict[str, str]) -> list[dict[str, Any]]:
    """The rows of a query.

    Args:
        query: SQL.
        options: access to the store, as deltalake takes it; empty for a disk.
    """
    process = _process()
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(pickle.dumps((_secret(options), query)))
    process.stdin.flush()
    answer = pickle.load(process.stdout)
    assert isinstance(answer, list), answer
    return answer


def _secret(options: dict[str, str]) -> str:
    if not options:
        return ""
    where = urlsplit(options["AWS_ENDPOINT_URL"])
    clauses = {
        "KEY_ID": options["AWS_ACCESS_KEY_ID"],
        "SECRET": options["AWS_SECRET_ACCESS_KEY"],
        "REGION": options["AWS_REGION"],
        "ENDPOINT": where.netloc,
        "USE_SSL": str(where.scheme == "https").lower(),
        "URL_STYLE": "path",
    }
    return ", ".join(["TYPE s3", *(f"{name} '{value}'" for name, value in clauses.items())])
