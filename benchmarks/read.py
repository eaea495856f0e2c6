"""Reads of a table against plain reads of the same files, by DuckDB, pyarrow and Spark.

The parts of one table on local disk, 100,000 rows each; the plain reads are given their paths.
DuckDB and pyarrow are asked once more with parts of a million rows, since what a read of the log
takes does not depend on the rows. All in one process and one Spark session on two cores, the ways
in turn, one round before those that count. Nothing is deleted or updated: a plain read could not
give the right rows then.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa

import firnline
from benchmarks import data
from benchmarks.measure import Figures, watched
from benchmarks.sizes import Bench
from firnline.appends.append import Appender
from firnline.settings.load import TableSettings
from firnline.state.snapshot import read_snapshot
from firnline.store.access import StoreAccess
from firnline.table import Table, open_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_HOUR = "ts >= TIMESTAMPTZ '2026-01-01 02:00:00+00' AND ts < TIMESTAMPTZ '2026-01-01 02:20:00+00'"
_SPARK_HOUR = _HOUR.replace("TIMESTAMPTZ", "TIMESTAMP")
_SUM = "SELECT event, count(*), sum(value) FROM rows GROUP BY event"
_SOME = "SELECT count(*), sum(value) FROM rows WHERE "
_EVERYTHING = "SELECT count(*), max(ts), max(event), max(user_id), max(props), sum(value) FROM rows"
_SETTINGS = {
    "spark.log.level": "OFF",
    # What users of Spark have; firnline's own jobs switch both off for their tiny queries.
    "spark.sql.codegen.wholeStage": "true",
    "spark.sql.codegen.factoryMode": "FALLBACK",
    "spark.sql.adaptive.enabled": "true",
}
Ways = tuple[str, dict[str, Callable[[], object]]]
"""A question, and the ways to ask it; the last one is the plain one."""


def compare(bench: Bench) -> list[Figures]:
    """firnline and its peers in turn, question by question."""
    found: list[Figures] = []
    work, rounds, (files, rows) = bench.work, bench.rounds, bench.sizes.read_large
    table, paths = _filled(work / "large", files, rows)
    for name, ways in _duckdb(table, paths):
        found += _in_turn(f"{name}, {files * rows / 1_000_000:g} M rows", ways, rounds)
    shutil.rmtree(work / "large")
    table, paths = _filled(work / "read", *bench.sizes.read)
    spark = _session()
    try:
        for name, ways in [*_duckdb(table, paths), *_spark(spark, table, paths)]:
            found += _in_turn(name, ways, rounds)
    finally:
        spark.stop()
    shutil.rmtree(work / "read")
    return found


def _in_turn(name: str, ways: dict[str, Callable[[], object]], rounds: int) -> list[Figures]:
    every = [Figures(f"{way}, {name}", "") for way in ways]
    for number in range(rounds + 1):
        for figures, act in zip(every, ways.values(), strict=True):
            with watched(os.getpid()) as usage:
                act()
            if number:
                figures.rounds.append(usage)
    for figures in every:
        figures.notes["x plain"] = f"{figures.median / every[-1].median:.2f}"
        cpu = sum(usage.cpu_seconds for usage in figures.rounds)
        plain = sum(usage.cpu_seconds for usage in every[-1].rounds)
        figures.notes["CPU x plain"] = f"{cpu / plain:.2f}" if plain else ""
        print(f"  read      {figures.name:48s} {figures.median:6.2f} s {figures.notes}")
    return every


def _duckdb(table: Table, paths: list[str]) -> list[Ways]:
    import pyarrow.dataset as ds  # brings pandas, where that is installed

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

    def batches(rows: Iterable[pa.RecordBatch]) -> int:
        return sum(len(batch) for batch in rows)

    return [
        ("DuckDB, sums by event", {"firnline": ask(ours(), _SUM), "plain": ask(plain, _SUM)}),
        (
            "DuckDB, 20 minutes",
            {
                "firnline": ask(ours(hour), _SOME + "true"),
                "plain": ask(plain, _SOME + _HOUR),
            },
        ),
        (
            "all rows as Arrow batches (plain: pyarrow)",
            {
                "firnline": lambda: batches(firnline.scan(table).arrow_reader()),
                "firnline's dataset": lambda: batches(
                    firnline.scan(table).arrow_dataset().to_batches()
                ),
                "plain": lambda: batches(ds.dataset(paths).to_batches()),
            },
        ),
    ]


def _spark(spark: SparkSession, table: Table, paths: list[str]) -> list[Ways]:
    from firnline.spark.frame import frame

    def ask(make: Callable[[], DataFrame], query: str) -> Callable[[], object]:
        text = query.replace("FROM rows", "FROM {rows}")
        return lambda: spark.sql(text, rows=make()).collect()

    def source(**options: str) -> Callable[[], DataFrame]:
        read = spark.read.format("firnline").options(**options)
        return lambda: read.load(table.settings.root)

    def framed(where: str | None) -> Callable[[], DataFrame]:
        return lambda: frame(spark, table, where=where)

    def plain() -> DataFrame:
        return spark.read.parquet(*paths)

    hour = _HOUR.replace("TIMESTAMPTZ ", "")
    return [
        (
            f"Spark, {name}",
            {
                "firnline's frame": ask(framed(where), ours),
                "firnline's data source": ask(source(**options), ours),
                "plain": ask(plain, theirs),
            },
        )
        for name, where, options, ours, theirs in (
            ("sums by event", None, {"columns": "event,value"}, _SUM, _SUM),
            ("every value of every row", None, {}, _EVERYTHING, _EVERYTHING),
            (
                "20 minutes",
                hour,
                {"where": hour, "columns": "value"},
                _SOME + "true",
                _SOME + _SPARK_HOUR,
            ),
        )
    ]


def _session() -> SparkSession:
    from firnline.spark.session import open_session
    from firnline.spark.source import register

    session = open_session("read", _SETTINGS, "local[2]")
    register(session)
    return session


def _filled(folder: Path, files: int, rows: int) -> tuple[Table, list[str]]:
    """Return a table and the paths of its parts."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    declared = {"name": "t", "root": f"file://{folder.absolute()}/t"}
    # Bounds of ts in the log: without them a part is read to be ruled out.
    settings = TableSettings.model_validate({**declared, "sort_by": ["ts"]})
    table = open_table(settings, StoreAccess.from_env())
    appender = Appender(table)
    for file in range(files):
        appender.append(data.make_table(file, rows))
    live = read_snapshot(table.store, table.paths).live
    return table, [str(folder.absolute() / key) for key in live]
