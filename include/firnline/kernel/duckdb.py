"""DuckDB as a library in one task: set up, confined, and within its memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import duckdb

from firnline.watching import repeated

MEMORY_SHARE = 0.75
"""DuckDB's ``memory_limit`` as a fraction of ``kernel_memory``.

The rest is for the pages of DuckDB's own code (30 MiB), memory that its allocator keeps for a
second after it was freed (10 to 45 MiB) and the C library's heap (staging, compression; 20 to 60
MiB): measured, 70 to 130 MiB in all. They hardly depend on ``kernel_memory``. Still the smallest
``kernel_memory``, 128 MiB, gets its 96 MiB: with 80 a sort of 300 MiB of Parquet failed.
"""
_ROW_GROUP_SHARES = (1 / 16, 1 / 64)
"""Bytes of one row group in memory, as fractions of ``kernel_memory`` and shared by the threads: at
the first attempt, and at the second if memory did not suffice."""
_DICTIONARY_SHARE = 1 / 4
"""The same for the dictionaries of ``merge.bloom_filters.max_distinct``, at the first attempt."""
_MIN_LIMIT = 48 * 2**20
"""Bytes below which DuckDB cannot hold the pages of a single sort."""

CLOSED: Mapping[str, bool] = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "allow_community_extensions": False,
    "python_enable_replacements": False,  # a table name is not a Python variable
}
"""Settings of every database that is opened: it loads no code, and sees nothing of the process."""
ROW_HASH = "firnline_hash"
"""Function that ``kernel.hashes`` adds to a database for a group."""
SPILL = "spill"
"""Folder for spilled data below the scratch folder of a group."""
_POLL_S = 0.2
"""Interval in seconds at which a running query checks if it must stop."""


@contextmanager
def open_duckdb(
    scratch: Path, memory: int, threads: int, spill: str = SPILL
) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open an in-memory database that can access only ``scratch``, for spilling and reading.

    Args:
        scratch: the task's folder.
        memory: ``kernel_memory``, bytes.
        threads: worker threads.
        spill: folder in ``scratch`` for spilled data; each database needs its own.
    """
    spill_folder = scratch / spill
    spill_folder.mkdir(exist_ok=True)
    connection = duckdb.connect(
        config={
            "threads": threads,
            "memory_limit": f"{max(int(memory * MEMORY_SHARE), _MIN_LIMIT)}B",
            "temp_directory": str(spill_folder),
            **CLOSED,
        }
    )
    try:
        # Also of further connections to this database; locked below.
        connection.execute("SET GLOBAL TimeZone = 'UTC'")
        # Files are read once: a copy of them in memory would only push the sort to disk.
        connection.execute("SET enable_external_file_cache = false")
        connection.execute(f"SET allowed_directories = [{quote_text(str(scratch))}]")
        connection.execute("SET enable_external_access = false")
        connection.execute("SET allowed_configs = ['threads']")  # for ``tries``
        connection.execute("SET lock_configuration = true")
        yield connection
    finally:
        connection.close()


@dataclass(frozen=True, slots=True)
class Try:
    """Resource limits of one attempt to write an output."""

    threads: int
    row_group_bytes: int
    """Maximum bytes (in memory, not in the file) of a row group: rows of a kilobyte would otherwise
    make row groups of a gigabyte."""
    dictionary_bytes: int
    """Maximum bytes for the dictionaries of one row group, if they may exceed DuckDB's own limit;
    0: they may not."""


def tries(memory: int, threads: int) -> tuple[Try, Try]:
    """Return the limits of the first attempt, and of the second if memory did not suffice.

    A sort on disk keeps 2,048 rows of each run in memory, for every thread, and leaves the rest to
    the writer, which needs twice a row group. Measured: rows of 2 KB, 1.9 GiB, ``kernel_memory``
    512 MiB need the second attempt.
    """
    large, small = _ROW_GROUP_SHARES
    return (
        Try(
            threads,
            max(int(memory * large) // threads, 2**20),
            int(memory * _DICTIONARY_SHARE) // threads,
        ),
        Try(1, max(int(memory * small), 2**20), 0),
    )


def quote_text(text: str) -> str:
    """Return a string literal."""
    return "'" + text.replace("'", "''") + "'"


def quote_list(paths: list[Path]) -> str:
    """Return a list of file names as SQL."""
    return "[" + ", ".join(quote_text(str(path)) for path in paths) + "]"


def never() -> bool:
    """Return False, for callers that never stop a kernel."""
    return False


@contextmanager
def interrupted_when(
    stopped: Callable[[], bool], connection: duckdb.DuckDBPyConnection
) -> Iterator[None]:
    """Interrupt the connection as soon as ``stopped`` returns True."""
    if stopped is never:
        yield
        return

    def look() -> None:
        if stopped():
            connection.interrupt()

    with repeated(look, _POLL_S, "firnline-stop"):
        yield
