"""One version of Spark: jobs of the command line, and a round trip of the data source or the frame.

It runs in an environment with this version, firnline and what firnline requires, and imports
nothing else of the repository.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import firnline
from firnline.errors import EnvironmentFaultError
from firnline.spark.frame import frame
from firnline.spark.session import open_session
from firnline.spark.versions import SPARK_4_0_PLUS, SPARK_4_1_PLUS, VERSION, release_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from firnline.table import Table

with_source = pytest.mark.skipif(
    not SPARK_4_0_PLUS, reason=f"Spark {VERSION} has no Python data sources (4.0)"
)
BEGIN = datetime(2013, 11, 3, 4, 30, tzinfo=UTC)
"""In New York, the night in which the clocks are set back: 0:30, and 1:30 twice."""


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    conf = {
        "spark.log.level": "OFF",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "America/New_York",
    }
    with pytest.MonkeyPatch.context() as patch:
        # Of the JVM, and of Python on driver and executors.
        patch.setenv("TZ", "America/New_York")
        session = open_session("firnline cell", conf, "local[2]")
        yield session
        session.stop()


def some_rows(first: int, count: int) -> pa.Table:
    ids = list(range(first, first + count))
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "day": [("mo", "tu")[i % 2] for i in ids],
            "at": pa.array(
                [BEGIN + timedelta(hours=i % 6) for i in ids], pa.timestamp("us", "UTC")
            ),
            "x": [None if i % 5 == 0 else i / 4 for i in ids],
        }
    )


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    """The settings of table ``t`` and of its copy."""
    found = tmp_path / "tables.yaml"
    common = "partition_by: [day], sort_by: [id], merge: {min_inputs: 2}"
    place = f"file://{tmp_path}/tables"
    found.write_text(
        "tables:\n"
        f"  t: {{root: '{place}/t', {common}}}\n"
        f"  copy: {{root: '{place}/copy', {common}}}\n"
    )
    return found


@pytest.fixture
def table(tables: Path) -> Table:
    """A table of 60 rows in six appends, each of two parts."""
    found = firnline.open_table("t", settings=tables)
    for first in range(0, 60, 10):
        firnline.append(found, some_rows(first, 10))
    return found


@pytest.fixture
def copy(tables: Path) -> Table:
    """Another one, of two rows: a sink has to know the columns of its table."""
    found = firnline.open_table("copy", settings=tables)
    firnline.append(found, some_rows(900, 2))
    return found


def copied(table: Table) -> list[dict[str, Any]]:
    return [row for row in expected(table) if row["id"] < 900]


def expected(table: Table, **options: Any) -> list[dict[str, Any]]:
    """The rows of a scan."""
    return plain(firnline.scan(table, **options).to_arrow())


def plain(rows: pa.Table) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = rows.to_pylist()
    return sorted(found, key=lambda row: row["id"])


def shown(rows: DataFrame) -> list[dict[str, Any]]:
    """The rows of a data frame; their times by the JVM, without the time zone of this process."""
    micros = rows.selectExpr("id", "day", "unix_micros(at) as at", "x").collect()
    found = [row.asDict() for row in micros]
    for row in found:
        row["at"] = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=row["at"])
    return sorted(found, key=lambda row: row["id"])


def test_this_is_the_spark_of_the_cell(spark: SparkSession) -> None:
    assert release_of(spark.version) == release_of(VERSION)


def test_jobs_of_the_command_line_change_a_table_as_they_do_without_spark(
    table: Table, tables: Path
) -> None:
    before = expected(table)
    merged = by_spark("merge", tables)
    assert (merged["groups_done"], merged["counts"]["rows_out"]) == (2, 60)
    assert expected(table) == before
    by_spark("delete", tables, "--where=id < 10", "--eager", "--yes")
    assert expected(table) == before[10:]


def by_spark(command: str, tables: Path, *arguments: str) -> dict[str, Any]:
    """The report of a command whose kernels run in Spark tasks, with a JVM of its own."""
    program = [sys.executable, "-m", "firnline", command, "t", f"--settings={tables}", *arguments]
    spark = ["--engine=spark", "--master=local[2]", "--json"]
    done = subprocess.run([*program, *spark], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_frame_has_the_rows_of_a_scan(spark: SparkSession, table: Table, tables: Path) -> None:
    firnline.delete(table, firnline.DeleteOptions(where="id in (3, 4)", mode="lazy"))
    assert shown(frame(spark, table)) == expected(table)
    assert len(expected(table)) == 58
    late = "at >= TIMESTAMPTZ '2013-11-03 06:00:00Z'"
    assert shown(frame(spark, table, where=late)) == expected(table, where=late)
    firnline.append(table, some_rows(0, 10))
    tables.write_text(tables.read_text().replace("{root", "{primary_key: [id], root"))
    keyed = firnline.open_table("t", settings=tables)
    assert shown(frame(spark, keyed)) == expected(keyed)
    assert len(expected(keyed)) == 60


@pytest.mark.skipif(SPARK_4_0_PLUS, reason=f"Spark {VERSION} has Python data sources")
def test_without_data_sources_one_sentence_says_from_which_version_on_there_are(
    spark: SparkSession,
) -> None:
    from firnline.spark.source import register

    with pytest.raises(EnvironmentFaultError, match=r"needs Spark 4\.0 or newer, and this is 3\.5"):
        register(spark)


@with_source
def test_the_source_reads_filters_and_writes(
    spark: SparkSession, table: Table, copy: Table
) -> None:
    rows = loaded(spark, table)
    assert shown(rows) == expected(table)
    half_past_one = "timestamp'2013-11-03T06:30:00Z'"
    for push in ("true", "false"):
        again = loaded(spark, table, pushFilters=push)
        found = again.filter(f"id > 20 and (x > 7 or x is null) and at < {half_past_one}")
        assert shown(found) == [
            row
            for row in expected(table)
            if row["id"] > 20
            and (row["x"] is None or row["x"] > 7)
            and row["at"] < datetime(2013, 11, 3, 6, 30, tzinfo=UTC)
        ]
    rows.write.format("firnline").mode("append").save(copy.settings.root)
    assert copied(copy) == expected(table)


def loaded(spark: SparkSession, table: Table, **options: str) -> DataFrame:
    from firnline.spark.source import register

    register(spark)
    return spark.read.format("firnline").options(**options).load(table.settings.root)


@with_source
@pytest.mark.parametrize("changes", ["false", "true"])
def test_a_stream_from_table_to_table_brings_every_row_once(
    spark: SparkSession, table: Table, copy: Table, tmp_path: Path, changes: str
) -> None:
    loaded(spark, table)

    def run() -> None:
        rows = spark.readStream.format("firnline").options(changes=changes, maxPartsPerBatch="5")
        query = (
            rows.load(table.settings.root)
            .select("id", "day", "at", "x")
            .writeStream.format("firnline")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start(copy.settings.root)
        )
        assert query.awaitTermination(60)

    run()
    assert copied(copy) == expected(table)
    firnline.merge(table)
    firnline.append(table, some_rows(60, 10))
    run()
    run()
    assert copied(copy) == expected(table)
    assert len(expected(copy)) == 72, "nothing twice"


@with_source
@pytest.mark.skipif(SPARK_4_1_PLUS, reason=f"Spark {VERSION} passes filters to a source")
def test_without_filters_that_are_passed_on_a_query_finds_the_same_rows(
    spark: SparkSession, table: Table
) -> None:
    rows = loaded(spark, table, pushFilters="true")
    assert [row["id"] for row in rows.filter("id = 7").collect()] == [7]
    assert rows.count() == 60
