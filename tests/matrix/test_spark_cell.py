"""One version of Spark: jobs in its tasks, and a round trip of the data source or the frame.

It runs in an environment with this version, firnline and what firnline requires, and imports
nothing else of the repository.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import firnline
from firnline.cli.app import run
from firnline.errors import EnvironmentFaultError
from firnline.spark import session
from firnline.spark.frame import frame
from firnline.spark.versions import SPARK_4_0_PLUS, VERSION, release_of

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
        found = session.open_session("firnline cell", conf, "local[2]")
        yield found
        found.stop()


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
    """The settings of table ``t``, of its copy, and of one with a primary key."""
    found = tmp_path / "tables.yaml"
    common = "partition_by: [day], sort_by: [id], merge: {min_inputs: 2}"
    place = f"file://{tmp_path}/tables"
    found.write_text(
        "tables:\n"
        f"  t: {{root: '{place}/t', {common}}}\n"
        f"  copy: {{root: '{place}/copy', {common}}}\n"
        f"  keyed: {{root: '{place}/keyed', primary_key: [id], {common}}}\n"
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


class Lent:
    """The session of all tests, which a command cannot end."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session

    def stop(self) -> None:
        """Leave the session to the other tests."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)


@pytest.fixture
def command(
    spark: SparkSession,
    tables: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Callable[..., Any]:
    """Runs a command whose kernels run in Spark tasks, in this process; returns its report."""
    lent: list[Lent] = []

    def lend(*_: object, **_named: object) -> Lent:
        lent.append(Lent(spark))
        return lent[-1]

    def command(name: str, *arguments: str) -> Any:
        lent.clear()
        capsys.readouterr()
        where = [f"--settings={tables}", "--engine=spark", "--master=local[2]", "--json"]
        code = run([name, "t", *arguments, *where])
        said = capsys.readouterr()
        assert code == 0, said.err
        assert lent, "it has asked for a session"
        return json.loads(said.out)

    monkeypatch.setattr(session, "open_session", lend)
    return command


def test_jobs_change_a_table_as_they_do_without_spark(
    table: Table, command: Callable[..., Any], tmp_path: Path
) -> None:
    rows = expected(table)
    merged = command("merge")
    assert (merged["groups_done"], merged["counts"]["rows_out"]) == (2, 60)
    assert expected(table) == rows
    command("delete", "--where=id < 5", "--eager", "--yes")
    assert expected(table) == rows[5:]
    command("erase", "--column=id", "--key=5", "--yes")
    assert expected(table) == rows[6:]
    command("rewrite", "--sql=select * replace (x * 2 as x) from _rows", "--yes")
    doubled = [{**row, "x": None if row["x"] is None else row["x"] * 2} for row in rows[6:]]
    assert expected(table) == doubled
    new = tmp_path / "new.parquet"
    pq.write_table(some_rows(20, 3), new)
    interval = ["--column=id", "--start=20", "--end=30"]
    command("replace", str(new), *interval, "--yes")
    kept = [row for row in doubled if not 20 <= row["id"] < 30]
    assert expected(table) == sorted([*kept, *rows[20:23]], key=lambda row: row["id"])
    assert command("verify", "--deep")["findings"] == []


def test_a_frame_has_the_rows_of_a_scan(spark: SparkSession, table: Table, tables: Path) -> None:
    firnline.delete(table, firnline.DeleteOptions(where="id in (3, 4)", mode="lazy"))
    assert shown(frame(spark, table)) == expected(table)
    assert len(expected(table)) == 58
    late = "at >= TIMESTAMPTZ '2013-11-03 06:00:00Z'"
    assert shown(frame(spark, table, where=late)) == expected(table, where=late)
    keyed = firnline.open_table("keyed", settings=tables)
    for first in (0, 5):
        firnline.append(keyed, some_rows(first, 10))
    assert shown(frame(spark, keyed)) == expected(keyed)
    assert len(expected(keyed)) == 15


if not SPARK_4_0_PLUS:

    def test_without_data_sources_one_sentence_says_from_which_version_on_there_are(
        spark: SparkSession,
    ) -> None:
        from firnline.spark.source import register

        said = r"needs Spark 4\.0 or newer, and this is 3\.5"
        with pytest.raises(EnvironmentFaultError, match=said):
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
        assert query.awaitTermination(150)

    run()
    assert copied(copy) == expected(table)
    firnline.merge(table)
    firnline.append(table, some_rows(60, 10))
    run()
    run()
    assert copied(copy) == expected(table)
    assert len(expected(copy)) == 72, "nothing twice"
