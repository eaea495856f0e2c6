"""A user's query in a process of its own, which can be ended at any moment.

DuckDB looks at interrupts and at its memory limit between chunks of rows. One call of a function
within a chunk (a list of a hundred million numbers) heeds neither, so a thread cannot end it. A
process can be killed, and the system counts its memory.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from typing import IO

import duckdb
import msgspec

from firnline.child_process import child_environment
from firnline.errors import KernelError, UsageError
from firnline.kernel.duckdb import never
from firnline.kernel.query.check import refuse_no_text

MEMORY_FACTOR = 1.3
"""What the process may use, as a part of the task's ``kernel_memory``: the bound that docs give."""
OVERHEAD = 512 * 2**20
"""Bytes it may use besides: Python, DuckDB, and stacks that are reserved and never touched."""
_POLL_S = 0.1
_CHECK_LIMIT_S = 30
_CHECK_MEMORY = 64 * 2**20


class QueryRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What the process is to do; travels as JSON."""

    folder: str
    """Scratch folder of the task, the only one that the query's database reaches."""
    memory: int
    threads: int
    source: str
    """What the query calls the rows."""
    query: str
    rows: str | None = None
    """SELECT over files in the folder that makes the rows; None: there are none."""
    columns: tuple[tuple[str, str], ...] = ()
    """The rows' columns where there are no rows."""
    copy: str | None = None
    """Statement that writes the query's result, run once the query is checked."""


class QueryAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it."""

    rows: int = 0
    """Written by ``copy``."""
    usage: tuple[str, str] | None = None
    """Message and next step of a UsageError."""
    duckdb_error: tuple[str, str] | None = None
    """Class and text of DuckDB's error."""


# Made before there are threads, as in ``footer_process``.
_ANSWER = msgspec.json.Decoder(QueryAnswer).decode


class QueryEndedError(Exception):
    """The process was killed because ``stopped`` said so; never leaves the kernel."""


def check_query(query: str, source: str, columns: Mapping[str, str]) -> None:
    """Everything that can be said of a query without rows, before any part is read.

    Args:
        query: the user's text.
        source: what it calls the rows.
        columns: the table's schema, column -> SQL type.

    Raises:
        UsageError: it is not one SELECT over ``source``, its result does not have the table's
            columns and types, or it cannot be looked at within half a minute.
    """
    with tempfile.TemporaryDirectory(prefix="firnline-") as folder:
        request = QueryRequest(
            folder=folder,
            memory=_CHECK_MEMORY,
            threads=1,
            source=source,
            query=query,
            columns=tuple(columns.items()),
        )
        try:
            run_query(request, never, _CHECK_LIMIT_S)
        except duckdb.Error as error:
            raise UsageError(
                f"the query cannot be checked: {error}", next_step="make it simpler"
            ) from error
        except (KernelError, subprocess.TimeoutExpired) as error:
            raise UsageError(
                "the query cannot even be looked at within its memory and "
                f"{_CHECK_LIMIT_S} s, without any rows",
                next_step="make it simpler: it may make a very large constant",
            ) from error


def run_query(
    request: QueryRequest, stopped: Callable[[], bool], limit_s: float | None = None
) -> int:
    """Check a query and run its ``copy`` in a process of its own; returns the rows written.

    Args:
        request: what to do.
        stopped: asked ten times a second; once it says True the process is killed.
        limit_s: kill it after this many seconds.

    Raises:
        UsageError: the query is refused or fails.
        KernelError: the process died, as a rule because it needed more memory than it may use.
        duckdb.Error: as DuckDB raised it, about a file or the disk.
        QueryEndedError: ``stopped`` said so.
        subprocess.TimeoutExpired: after ``limit_s``.
    """
    refuse_no_text(request.query, request.source)
    answer = _ask(request, stopped, limit_s)
    if answer.usage is not None:
        message, next_step = answer.usage
        raise UsageError(message, next_step=next_step)
    if answer.duckdb_error is not None:
        name, text = answer.duckdb_error
        kind = getattr(duckdb, name, duckdb.Error)
        raise kind(text)
    return answer.rows


def _ask(request: QueryRequest, stopped: Callable[[], bool], limit_s: float | None) -> QueryAnswer:
    with tempfile.TemporaryFile() as told, _start(told) as process:
        try:
            out = _talk(process, msgspec.json.encode(request), stopped, limit_s)
        finally:
            process.kill()  # a no-op for one that has ended
        process.wait()
        told.seek(0)
        said = told.read().decode(errors="replace")
    if process.returncode != 0:
        raise _died(process.returncode, said, request.memory)
    return _ANSWER(out)


def _start(told: IO[bytes]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "firnline.kernel.query.worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=told,
        env=child_environment(),
    )


def _talk(
    process: subprocess.Popen[bytes],
    request: bytes,
    stopped: Callable[[], bool],
    limit_s: float | None,
) -> bytes:
    waited, given = 0.0, request
    while True:
        try:
            return process.communicate(given or None, timeout=_POLL_S)[0]
        except subprocess.TimeoutExpired:
            given = b""  # on its way already
            waited += _POLL_S
            if stopped():
                raise QueryEndedError from None
            if limit_s is not None and waited > limit_s:
                raise


def memory_bound(memory: int) -> int:
    """Bytes that the process of a query may use, for a task of ``memory`` bytes."""
    return int(memory * MEMORY_FACTOR) + OVERHEAD


def _died(code: int, said: str, memory: int) -> KernelError:
    lines = [line for line in said.splitlines() if line.strip()]
    reason = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
    return KernelError(
        f"the query's process ended with {reason}"
        + (f" ({lines[-1][:200]})" if lines else "")
        + f"; it may use {memory_bound(memory) // 2**20} MiB",
        next_step="make the query need less memory, or raise merge.kernel_memory (and the "
        "executor's memory with it)",
    )
