# ruff: noqa: S608 -- a text is run only after ``refuse_reach`` has found one SELECT over two names
"""Assertions of a user on the rows before and after a change, each a SELECT that must be true.

They are checked and run like a user's query (``kernel.query.check``, ``.process``): one SELECT over
known names, in a database that reaches two local files and nothing else, in a process that is ended
after a time and has a limit of memory. This module is also that process: request on stdin, answer
on stdout.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import duckdb
import msgspec

from firnline.child_process import child_environment, own_python
from firnline.errors import AssertionFailedError, KernelError, UsageError
from firnline.kernel.duckdb import open_duckdb
from firnline.kernel.faults import first_line
from firnline.kernel.inputs import scan, write_no_rows
from firnline.kernel.query.check import in_brackets, open_source, refuse_no_text, refuse_reach
from firnline.kernel.query.process import memory_bound

BEFORE, AFTER = "before", "after"
_NULL = '"NULL"'
"""DuckDB's type of what has none: a bare null, or a function that only raises."""
_CHECK_MEMORY, _CHECK_LIMIT_S = 64 * 2**20, 30
_RULE = (
    "write each as one SELECT with one value, in DuckDB's dialect over before and after alone, "
    "such as `select count(*) = 0 from after where amount < 0`"
)


class _Request(msgspec.Struct, frozen=True, kw_only=True):
    folder: str
    memory: int
    threads: int
    texts: tuple[str, ...]
    columns: tuple[tuple[str, str], ...]
    files: tuple[str, str] | None = None
    """Parquet files of the rows before and after; None: only check the texts."""


class _Answer(msgspec.Struct, frozen=True, kw_only=True):
    number: int = -1
    """Of the first text that is at fault; -1: none."""
    problem: str = ""
    refused: bool = False
    """The text is at fault, whatever the rows are."""


def check_assertions(texts: Sequence[str], columns: Sequence[tuple[str, str]]) -> None:
    """Check assertions as far as possible without rows. Raises UsageError."""
    if texts:
        with tempfile.TemporaryDirectory(prefix="firnline-") as folder:
            _run(
                _Request(
                    folder=folder,
                    memory=_CHECK_MEMORY,
                    threads=1,
                    texts=tuple(texts),
                    columns=tuple(columns),
                ),
                _CHECK_LIMIT_S,
            )


def assert_rows(
    texts: Sequence[str],
    columns: Sequence[tuple[str, str]],
    files: tuple[Path, Path],
    *,
    memory: int,
    threads: int,
    limit_s: float,
) -> None:
    """Run assertions on the rows of two Parquet files in one folder: before and after.

    Args:
        texts: the user's texts.
        columns: SQL type by column.
        files: local files with the rows.
        memory: ``kernel_memory``, bytes; the process may use ``memory_bound`` of it.
        threads: of DuckDB.
        limit_s: the process is ended after this many seconds.

    Raises:
        AssertionFailedError: one of them is false or null, fails, or takes too long.
        UsageError: one of them is not a SELECT over the two relations with one value.
        KernelError: the process died.
    """
    if texts:
        request = _Request(
            folder=str(files[0].parent),
            memory=memory,
            threads=threads,
            texts=tuple(texts),
            columns=tuple(columns),
            files=(str(files[0]), str(files[1])),
        )
        _run(request, limit_s)


def _run(request: _Request, limit_s: float) -> None:
    for text in request.texts:
        refuse_no_text(text, BEFORE)
    try:
        done = subprocess.run(
            own_python("firnline.kernel.query.assertions"),
            input=msgspec.json.encode(request),
            capture_output=True,
            env=child_environment(),
            timeout=limit_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise AssertionFailedError(
            f"the assertions take longer than {limit_s:g} s",
            next_step="make them simpler, or raise rewrite.time_limit",
        ) from None
    if done.returncode != 0:
        raise KernelError(
            f"the process of the assertions ended with exit code {done.returncode}; it may use "
            f"{memory_bound(request.memory) // 2**20} MiB",
            next_step="reduce the memory that they need, or raise merge.kernel_memory",
        )
    answer = msgspec.json.decode(done.stdout, type=_Answer)
    if answer.number < 0:
        return
    text = " ".join(request.texts[answer.number].split())
    if answer.refused:
        raise UsageError(f"the assertion `{text}` {answer.problem}", next_step=_RULE)
    raise AssertionFailedError(
        f"the assertion `{text}` {answer.problem}",
        next_step="look at the rows that it is about; nothing was prepared, the table is as it was",
    )


def main() -> None:
    """Answer one request. A fault of an assertion is the answer; others end the process."""
    request = msgspec.json.decode(sys.stdin.buffer.read(), type=_Request)
    bound = memory_bound(request.memory)
    resource.setrlimit(resource.RLIMIT_DATA, (bound, bound))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.stdout.buffer.write(msgspec.json.encode(_answer(request)))


def _answer(request: _Request) -> _Answer:
    folder = Path(request.folder)
    with open_duckdb(folder, request.memory, request.threads, spill="asserted") as connection:
        files = [Path(name) for name in request.files or ()]
        if not files:
            files = [folder / "none.parquet"] * 2
            write_no_rows(connection, request.columns, files[0])
        for name, path in zip((BEFORE, AFTER), files, strict=True):
            open_source(connection, name, f"SELECT * FROM {scan([path])}")
        for number, text in enumerate(request.texts):
            answer = _one(connection, number, text, run=request.files is not None)
            if answer is not None:
                return answer
    return _Answer()


def _one(
    connection: duckdb.DuckDBPyConnection, number: int, text: str, *, run: bool
) -> _Answer | None:
    """Check one assertion, and run it; None if it holds, or may hold."""
    try:
        # Of the two names one is known to the check as the source, the other as an expression.
        reach = f"WITH {AFTER} AS (SELECT * FROM {BEFORE}) SELECT * FROM {in_brackets(text)}"
        refuse_reach(connection, reach, BEFORE)
        described = connection.execute(f"DESCRIBE {in_brackets(text)}").fetchall()
    except UsageError as error:
        reason = error.message.rpartition(" is refused: ")[2]
        return _Answer(number=number, problem=f"is refused: {reason}", refused=True)
    except duckdb.Error as error:
        return _Answer(number=number, problem=f"fails: {first_line(error)}", refused=True)
    kinds = [str(row[1]) for row in described]
    if kinds == [_NULL]:
        problem = "is null, or an error, for any rows"
        return _Answer(number=number, problem=problem, refused=True)
    if kinds != ["BOOLEAN"]:
        problem = f"returns {', '.join(kinds)}, not one BOOLEAN"
        return _Answer(number=number, problem=problem, refused=True)
    return _verdict(connection, number, text) if run else None


def _verdict(connection: duckdb.DuckDBPyConnection, number: int, text: str) -> _Answer | None:
    try:
        rows = connection.execute(f"SELECT * FROM {in_brackets(text)} LIMIT 2").fetchall()
    except duckdb.Error as error:
        return _Answer(number=number, problem=f"fails: {first_line(error)}")
    if len(rows) != 1:
        rows_returned = "no row" if not rows else "more than one row"
        return _Answer(number=number, problem=f"returns {rows_returned} instead of true")
    if rows[0][0] is not True:
        return _Answer(number=number, problem=f"is {'null' if rows[0][0] is None else 'false'}")
    return None


if __name__ == "__main__":
    main()
