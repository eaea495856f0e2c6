"""The process of a user's query: see ``query.process``. Request on stdin, answer on stdout."""

from __future__ import annotations

import resource
import sys
from pathlib import Path

import duckdb
import msgspec

from firnline.errors import UsageError
from firnline.kernel.duckdb import open_duckdb
from firnline.kernel.inputs import scan, write_no_rows
from firnline.kernel.query.check import check_opened, open_source, refuse_other_rows
from firnline.kernel.query.process import QueryAnswer, QueryRequest, memory_bound


def main() -> None:
    """Answer one request. A fault of the query is part of the answer; others end the process."""
    request = msgspec.json.decode(sys.stdin.buffer.read(), type=QueryRequest)
    bound = memory_bound(request.memory)
    # Allocated memory, not mapped memory: DuckDB maps much more than it uses.
    resource.setrlimit(resource.RLIMIT_DATA, (bound, bound))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.stdout.buffer.write(msgspec.json.encode(answer(request)))


def answer(request: QueryRequest) -> QueryAnswer:
    """Check the query, run its ``copy``; return UsageError and DuckDB's errors as the answer."""
    try:
        return QueryAnswer(rows=_run(request))
    except UsageError as error:
        return QueryAnswer(usage=(error.message, error.next_step))
    except duckdb.Error as error:
        return QueryAnswer(duckdb_error=(type(error).__name__, str(error)))


def _run(request: QueryRequest) -> int:
    folder = Path(request.folder)
    with open_duckdb(folder, request.memory, request.threads, spill="query") as connection:
        rows = request.rows
        if rows is None:
            path = folder / "none.parquet"
            write_no_rows(connection, request.columns, path)
            rows = f"SELECT * FROM {scan([path])}"  # noqa: S608 -- our own path, quoted
        open_source(connection, request.source, rows)
        for expression in request.expressions:
            refuse_other_rows(connection, expression)
        check_opened(connection, request.query, request.source)
        if request.copy is None:
            return 0
        return int(connection.execute(request.copy).fetchall()[0][0])


if __name__ == "__main__":
    main()
