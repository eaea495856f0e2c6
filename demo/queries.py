"""Two questions about the flights, asked of the table the same way before and after its merge.

As any engine reads a table: the snapshot from the log, the parts that statistics do not rule out,
one GET for each, the rest in DuckDB. Time and requests count all of that.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow as pa

from firnline.errors import PartGoneError
from firnline.predicate.pruning import Pruner
from firnline.predicate.sql import parse_sql
from firnline.state.snapshot import Snapshot, read_snapshot
from firnline.table import Table

Row = tuple[object, ...]


@dataclass(frozen=True)
class Question:
    """A query in words and in SQL over ``flights``."""

    title: str
    select: str
    where: str
    """Condition for both firnline and DuckDB; determines the parts to fetch."""
    then: str = ""

    @property
    def sql(self) -> str:
        """The whole query."""
        return f"SELECT {self.select} FROM flights WHERE {self.where} {self.then}"  # noqa: S608 - ours


JULY = Question(
    title="delay by carrier in July",
    select="carrier, count(*), round(avg(dep_delay), 3)",
    where="sched_dep >= TIMESTAMPTZ '2013-07-01T00:00:00Z' "
    "AND sched_dep < TIMESTAMPTZ '2013-08-01T00:00:00Z'",
    then="GROUP BY carrier ORDER BY 3 DESC",
)
AIRCRAFT = Question(
    title="the year of aircraft N725MQ",
    select="sched_dep, origin, dest, arr_delay",
    where="tailnum = 'N725MQ'",
    then="ORDER BY sched_dep, flight",
)
QUESTIONS = (JULY, AIRCRAFT)


@dataclass(frozen=True)
class Answer:
    """The cost of a question, and its rows."""

    rows: tuple[Row, ...]
    requests: int
    """To the store: LIST, GET, HEAD."""
    bytes: int
    """Read from the store."""
    seconds: float
    log_files: int
    """Of them read."""
    parts: int
    """Of them read."""


@dataclass(frozen=True)
class Content:
    """All rows of a table, whatever their order."""

    rows: int
    checksum: int
    """Sum over all rows of a hash of all columns: neither order nor parts change it."""


def ask(table: Table, question: Question) -> Answer:
    """Ask one question. ``table`` is fresh: its counters are the answer's.

    Raises:
        PartGoneError: a part of the snapshot is not in the store.
        StoreError, LogCorruptError: as they say.
    """
    began = time.perf_counter()
    snapshot = read_snapshot(table.store, table.paths)
    keys = needed_parts(snapshot, question.where)
    with fetched(table, keys) as database:
        rows = tuple(database.execute(question.sql).fetchall())
    seconds = time.perf_counter() - began
    counters = table.store.counters
    return Answer(
        rows=rows,
        requests=counters.list + counters.get + counters.head,
        bytes=counters.bytes_in,
        seconds=seconds,
        log_files=len(snapshot.contents),
        parts=len(keys),
    )


def needed_parts(snapshot: Snapshot, where: str) -> list[str]:
    """Live parts whose statistics do not rule the condition out."""
    pruner = Pruner(parse_sql(where, snapshot.schema), snapshot.schema)
    return [
        key
        for key, marker in snapshot.live.items()
        if not pruner.matches_nothing(snapshot.stats_of(marker))
    ]


@contextmanager
def fetched(table: Table, keys: list[str]) -> Iterator[duckdb.DuckDBPyConnection]:
    """DuckDB with the rows of these parts as ``flights``."""
    with tempfile.TemporaryDirectory(prefix="firnline-demo-") as folder:
        files: list[str] = []
        for number, (key, data) in enumerate(table.store.get_many(keys)):
            if data is None:
                raise PartGoneError(
                    f"part {key} is in the snapshot and not in the store",
                    next_step="read the snapshot again",
                )
            file = Path(folder, f"{number}.parquet")
            file.write_bytes(data)
            files.append(str(file))
        with duckdb.connect() as database:
            database.execute("SET TimeZone = 'UTC'")
            database.execute("SET enable_progress_bar = false")
            database.read_parquet(files).create_view("flights")
            yield database


def content(table: Table) -> Content:
    """Count and checksum of all live rows; raises as ``ask``."""
    snapshot = read_snapshot(table.store, table.paths)
    with fetched(table, list(snapshot.live)) as database:
        return _checksum(database, sorted(snapshot.schema))


def content_of(flights: pa.Table) -> Content:
    """The same of rows in memory."""
    with duckdb.connect() as database:
        database.execute("SET TimeZone = 'UTC'")
        database.register("flights", flights)
        return _checksum(database, sorted(flights.column_names))


def _checksum(database: duckdb.DuckDBPyConnection, columns: list[str]) -> Content:
    values = ", ".join(f'"{name}"' for name in columns)
    # Not xor, in which a row that is there twice vanishes.
    sql = f"SELECT count(*), sum(hash({values})::HUGEINT) FROM flights"  # noqa: S608 - our columns
    rows, checksum = database.execute(sql).fetchall()[0]
    return Content(int(rows), int(checksum or 0))


def warm_up(columns: Mapping[str, str]) -> None:
    """Load the parser, so that the first answer does not pay for it. ``columns``: of the table."""
    for question in QUESTIONS:
        parse_sql(question.where, columns)
