"""Run a user's query in a separate process, which can be killed at any moment.

DuckDB checks interrupts and its memory limit between chunks of rows. One call of a function within
a chunk (a list of a hundred million numbers) checks neither, so a thread cannot end it. A process
can be killed, and the system limits its memory.
"""

from __future__ import annotations

import signal
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import IO

import duckdb
import msgspec

from firnline.child_process import child_environment, own_python
from firnline.clock import Clock
from firnline.errors import KernelError, UsageError
from firnline.kernel.duckdb import never
from firnline.kernel.query.check import refuse_no_text

MEMORY_FACTOR = 1.3
"""Memory limit of the process, as a factor of the task's ``kernel_memory``: as documented."""
OVERHEAD = 512 * 2**20
"""Additional bytes: Python, DuckDB, and stacks that are reserved but not used."""
_POLL_S = 0.1
_CHECK_LIMIT_S = 30
_CHECK_MEMORY = 256 * 2**20


class QueryRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The work of the process; sent as JSON."""

    folder: str
    """Scratch folder of the task, the only one that the query's database reaches."""
    memory: int
    threads: int
    source: str
    """Name of the rows in the query."""
    query: str
    rows: str | None = None
    """SELECT over files in the folder that returns the rows; None: there are none."""
    columns: tuple[tuple[str, str], ...] = ()
    """Columns of the rows, if there are no rows."""
    expressions: tuple[str, ...] = ()
    """Parts of the query that must be expressions over one row."""
    copy: str | None = None
    """Statement that writes the query's result, run after the query is checked."""


class QueryAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The result of the process."""

    rows: int = 0
    """Number of rows written by ``copy``."""
    usage: tuple[str, str] | None = None
    """Message and next step of a UsageError."""
    duckdb_error: tuple[str, str] | None = None
    """Class and text of a DuckDB error."""


# Created before there are threads, as in ``footer_process``.
_ANSWER = msgspec.json.Decoder(QueryAnswer).decode


class QueryTooLargeError(UsageError):
    """A query that cannot even be checked within the bounds of a check."""


class QueryEndedError(Exception):
    """The process was killed because of ``stopped``; never leaves the kernel."""


def check_query(
    query: str,
    source: str,
    columns: Mapping[str, str],
    clock: Clock,
    expressions: Sequence[str] = (),
) -> None:
    """Check a query as far as possible without rows, before any part is read.

    Args:
        query: the user's text.
        source: name of the rows in it.
        columns: the table's schema, SQL type by column.
        clock: measures the half minute.
        expressions: parts of the query that a user has given, each an expression over one row.

    Raises:
        UsageError: an expression is none; the query is not one SELECT over ``source``, its result
            does not have the table's columns and types.
        QueryTooLargeError: it cannot be checked within half a minute and 256 MiB.
    """
    with tempfile.TemporaryDirectory(prefix="firnline-") as folder:
        request = QueryRequest(
            folder=folder,
            memory=_CHECK_MEMORY,
            threads=1,
            source=source,
            query=query,
            columns=tuple(columns.items()),
            expressions=tuple(expressions),
        )
        try:
            run_query(request, never, clock, _CHECK_LIMIT_S)
        except (KernelError, subprocess.TimeoutExpired, duckdb.OutOfMemoryException) as error:
            raise QueryTooLargeError(
                "the query cannot be checked within its memory and "
                f"{_CHECK_LIMIT_S} s, even without any rows",
                next_step="make it simpler: it may list very many values, or make a large constant",
            ) from error
        except duckdb.Error as error:
            raise UsageError(
                f"the query cannot be checked: {error}", next_step="make it simpler"
            ) from error


def run_query(
    request: QueryRequest,
    stopped: Callable[[], bool],
    clock: Clock,
    limit_s: float | None = None,
) -> int:
    """Check a query and run its ``copy`` in a separate process; return the number of rows written.

    Args:
        request: the work.
        stopped: called ten times a second, or as often as it answers; if it returns True, the
            process is killed.
        clock: its monotonic clock measures ``limit_s``.
        limit_s: the process is killed once more than this many seconds have passed since its start,
            on whatever they were spent.

    Raises:
        UsageError: the query is refused or fails.
        KernelError: the process died, usually because it exceeded its memory.
        duckdb.Error: as DuckDB raised it, about a file or the disk.
        QueryEndedError: ``stopped`` returned True.
        subprocess.TimeoutExpired: after ``limit_s``.
    """
    for text in (*request.expressions, request.query):
        refuse_no_text(text, request.source)
    answer = _ask(request, stopped, clock, limit_s)
    if answer.usage is not None:
        message, next_step = answer.usage
        raise UsageError(message, next_step=next_step)
    if answer.duckdb_error is not None:
        name, text = answer.duckdb_error
        kind = getattr(duckdb, name, duckdb.Error)
        raise kind(text)
    return answer.rows


def _ask(
    request: QueryRequest, stopped: Callable[[], bool], clock: Clock, limit_s: float | None
) -> QueryAnswer:
    # A file and no pipe: a pipe holds 64 KiB, and Python (3.11) sends the rest of a longer request
    # only if ``communicate`` ends before its first time-out.
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as stderr:
        given.write(msgspec.json.encode(request))
        given.seek(0)
        with _start(given, stderr) as process:
            try:
                out = _wait(process, stopped, clock, limit_s)
            finally:
                process.kill()  # no effect if it has ended
        stderr.seek(0)
        printed = stderr.read().decode(errors="replace")
    if process.returncode != 0:
        raise _died(process.returncode, printed, request.memory)
    return _ANSWER(out)


def _start(given: IO[bytes], stderr: IO[bytes]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        own_python("firnline.kernel.query.worker"),
        stdin=given,
        stdout=subprocess.PIPE,
        stderr=stderr,
        env=child_environment(),
    )


def _wait(
    process: subprocess.Popen[bytes],
    stopped: Callable[[], bool],
    clock: Clock,
    limit_s: float | None,
) -> bytes:
    began_ms = clock.elapsed_ms()
    while True:
        try:
            return process.communicate(timeout=_POLL_S)[0]
        except subprocess.TimeoutExpired:
            if stopped():
                raise QueryEndedError from None
            # Not the number of waits: each takes longer on a busy machine, and so may ``stopped``.
            if limit_s is not None and clock.elapsed_ms() - began_ms > limit_s * 1000:
                raise


def memory_bound(memory: int) -> int:
    """Return the bytes that the process of a query may use, for a task of ``memory`` bytes."""
    return int(memory * MEMORY_FACTOR) + OVERHEAD


def _died(code: int, printed: str, memory: int) -> KernelError:
    lines = [line for line in printed.splitlines() if line.strip()]
    reason = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
    return KernelError(
        f"the query's process ended with {reason}"
        + (f" ({lines[-1][:200]})" if lines else "")
        + f"; it may use {memory_bound(memory) // 2**20} MiB",
        next_step="reduce the memory that the query needs, or raise merge.kernel_memory (and the "
        "executor's memory with it)",
    )
