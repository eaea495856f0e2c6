"""One database for all kernels of a process: opening one takes longer than a small merge in it.

Each kernel gets a connection of its own to it, with temporary tables of its own, and the number of
threads that it asks for. It is neither confined to its folder nor bounded in memory: that a kernel
is both is for tests/kernel, which has the product open its databases.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import duckdb
import pytest


def _database() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(
        config={
            "threads": 1,
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            "python_enable_replacements": False,
        }
    )
    connection.execute("SET enable_external_file_cache = false")
    return connection


@pytest.fixture(scope="session")
def shared_duckdb() -> Iterator[duckdb.DuckDBPyConnection]:
    """The database."""
    with _database() as database:
        yield database


@pytest.fixture(scope="module", autouse=True)
def one_duckdb(shared_duckdb: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """For the tests of a folder whose conftest imports both, and for those alone.

    Not for a whole session: other folders' tests run in the same process.
    """
    database = shared_duckdb
    from firnline.kernel import convert, workplace
    from firnline.kernel.duckdb import ROW_HASH, open_duckdb

    used = threading.Lock()

    @contextmanager
    def opened(
        scratch: Path, memory: int, threads: int, spill: str = "spill"
    ) -> Iterator[duckdb.DuckDBPyConnection]:
        if not used.acquire(blocking=False):
            # Threads and functions are the database's: one kernel at a time has it.
            with open_duckdb(scratch, memory, threads, spill) as connection:
                yield connection
            return
        try:
            (scratch / spill).mkdir(exist_ok=True)
            with database.cursor() as connection:
                connection.execute("SET GLOBAL TimeZone = 'UTC'")
                connection.execute(f"SET threads = {threads}")
                try:
                    yield connection
                finally:
                    with suppress(duckdb.InvalidInputException):  # not every kernel makes it
                        connection.remove_function(ROW_HASH)
        finally:
            used.release()

    with pytest.MonkeyPatch.context() as patch:
        for module in (convert, workplace):
            patch.setattr(module, "open_duckdb", opened)
        yield
