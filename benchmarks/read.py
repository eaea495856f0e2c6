"""Reads of a table against plain reads of the same files, by DuckDB and by Spark.

    python -m benchmarks.read [files] [rows] [rounds]      as a table, without writing docs

The parts of one table on local disk, 100,000 rows each; the plain reads are given their paths. All
in one process and one Spark session on two cores, one round before those that count. Nothing is
deleted or updated: a plain read could not give the right rows then.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pyarrow.dataset as ds

import firnline
from benchmarks import data
from benchmarks.measure import Figures, Usage
from firnline.append.append import Appender
from firnline.settings.load import TableSettings
from firnline.state.snapshot import read_snapshot
from firnline.store.access import StoreAccess
from firnline.table import Table, open_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FILES, ROWS = 30, 100_000
_HOUR = "ts >= TIMESTAMPTZ '2026-01-01 02:00:00+00' AND ts < TIMESTAMPTZ '2026-01-01 02:20:00+00'"
_SPARK_HOUR = _HOUR.replace("TIMESTAMPTZ", "TIMESTAMP")
_SUM = "SELECT event, count(*), sum(value) FROM rows GROUP BY event"
_SOME = "SELECT count(*), sum(value) FROM rows WHERE "
Pair = tuple[str, Callable[[], object], Callable[[], object]]
"""Name, firnline's way, the plain way."""


def compare(work: Path, rounds: int, files: int = FILES, rows: int = ROWS) -> list[Figures]:
    """firnline and its peer in turn, question by question."""
    table = _filled(work / "read", files, rows)
    folder = (work / "read").absolute()
    paths = [str(folder / key) for key in read_snapshot(table.store, table.paths).live]
    spark = _session()
    try:
        found: list[Figures] = []
        for name, ours, plain in [*_duckdb(table, paths), *_spark(spark, table, paths)]:
            found += _pair(name, ours, plain, rounds)
    finally:
        spark.stop()
    shutil.rmtree(work / "read")
    return found


def _pair(
    name: str, ours: Callable[[], object], plain: Callable[[], object], rounds: int
) -> list[Figures]:
    pair = [Figures(f"firnline, {name}", ""), Figures(f"plain, {name}", "")]
    for number in range(rounds + 1):
        for figures, act in zip(pair, (ours, plain), strict=True):
            began = time.perf_counter()
            act()
            seconds = time.perf_counter() - began
            if number:
                figures.rounds.append(Usage(seconds, 0.0, 0))
    for figures in pair:
        figures.notes["x plain"] = f"{figures.median / pair[1].median:.2f}"
        print(f"  read      {figures.name:44s} {figures.median:6.2f} s {figures.notes}")
    return pair


def _duckdb(table: Table, paths: list[str]) -> list[Pair]:
    def ask(make: Callable[[], duckdb.DuckDBPyRelation], query: str) -> Callable[[], object]:
        def act() -> object:
            rows = make().query("rows", query)
            assert rows is not None
            return rows.fetchall()

        return act

    def plain() -> duckdb.DuckDBPyRelation:
        return duckdb.connect().read_parquet(paths)

    def ours(where: str | None = None) -> Callable[[], duckdb.DuckDBPyRelation]:
        return lambda: firnline.scan(table, where=where).duckdb()

    hour = _HOUR.replace("TIMESTAMPTZ ", "")
    return [
        ("DuckDB, sums by event", ask(ours(), _SUM), ask(plain, _SUM)),
        ("DuckDB, 20 minutes", ask(ours(hour), _SOME + "true"), ask(plain, _SOME + _HOUR)),
        (
            "all rows as Arrow batches (plain: pyarrow)",
            lambda: sum(len(b) for b in firnline.scan(table).arrow_reader()),
            lambda: sum(len(b) for b in ds.dataset(paths).to_batches()),
        ),
    ]


def _spark(spark: SparkSession, table: Table, paths: list[str]) -> list[Pair]:
    def ask(make: Callable[[], DataFrame], query: str) -> Callable[[], object]:
        return lambda: spark.sql(query, rows=make()).collect()

    def ours(**options: str) -> Callable[[], DataFrame]:
        read = spark.read.format("firnline").options(**options)
        return lambda: read.load(table.settings.root)

    def plain() -> DataFrame:
        return spark.read.parquet(*paths)

    hour, named = _HOUR.replace("TIMESTAMPTZ ", ""), {"columns": "event,value"}
    sums = _SUM.replace("FROM rows", "FROM {rows}")
    some = _SOME.replace("FROM rows", "FROM {rows}")
    return [
        ("Spark, sums by event", ask(ours(**named), sums), ask(plain, sums)),
        ("Spark, sums by event, no columns named", ask(ours(), sums), ask(plain, sums)),
        (
            "Spark, 20 minutes",
            ask(ours(where=hour, columns="value"), some + "true"),
            ask(plain, some + _SPARK_HOUR),
        ),
    ]


def _session() -> SparkSession:
    from firnline.spark.session import open_session
    from firnline.spark.source import register

    session = open_session("read", {"spark.log.level": "OFF"}, "local[2]")
    register(session)
    return session


def _filled(folder: Path, files: int, rows: int) -> Table:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    declared = {"name": "t", "root": f"file://{folder.absolute()}/t"}
    # Bounds of ts in the log: without them a part is read to be ruled out.
    settings = TableSettings.model_validate({**declared, "sort_by": ["ts"]})
    table = open_table(settings, StoreAccess.from_env())
    appender = Appender(table)
    for file in range(files):
        appender.append(data.make_table(file, rows))
    return table


if __name__ == "__main__":
    given = [int(text) for text in sys.argv[1:4]]
    sizes = given[:2] or [FILES, ROWS]
    place = Path(__file__).parents[1] / ".cache" / "bench" / "work"
    compare(place, given[2] if len(given) > 2 else 3, *sizes)
