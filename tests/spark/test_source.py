"""The data source: batch reads and writes, on every kind of store."""

from __future__ import annotations

import datetime
import tempfile
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import firnline
from firnline.appends.append import Appender
from firnline.operations.delete.run import run_delete
from firnline.operations.operation import Work
from firnline.operations.options import DeleteOptions
from firnline.spark.source import register
from firnline.state.snapshot import read_snapshot
from firnline.store.access import StoreAccess
from firnline.table import Table
from tests.support.on_store import RUN, engine, filled, merge, opened
from tools.s3server import StoreRoot

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def source(spark: SparkSession, root: StoreRoot) -> SparkSession:
    register(spark, StoreAccess.from_env(root.env) if root.env else None)
    return spark


def load(spark: SparkSession, table: Table, **options: str) -> DataFrame:
    return spark.read.format("firnline").options(**options).load(table.settings.root)


def ids(rows: DataFrame) -> list[int]:
    return sorted(row["id"] for row in rows.collect())


def objects(table: Table) -> list[str]:
    return [meta.key for meta in table.store.list(table.paths.prefix + "/")]


@pytest.mark.turn
def test_visible_rows_are_read_filtered_and_written_on_every_store(
    spark: SparkSession, store_root: StoreRoot, tmp_path: Path
) -> None:
    source(spark, store_root)
    table = filled(opened(store_root), 3)
    options = DeleteOptions(where="id < 3", mode="lazy")
    run_delete(Work(table, RUN, lambda: engine(table, tmp_path)), options)
    rows = load(spark, table, bytesPerTask="1")
    assert rows.rdd.getNumPartitions() == 6
    assert ids(rows) == list(range(3, 12))
    assert ids(rows.filter("id > 9 and day = 'mo'")) == [10]
    assert ids(rows) == list(range(3, 12)), "filters of one query are not those of another"
    assert ids(load(spark, table, where="id in (2, 4)", columns="id")) == [4]
    more = spark.createDataFrame([(20, "mo"), (21, "tu")], "id long, day string")
    more.write.format("firnline").mode("append").save(table.settings.root)
    assert ids(load(spark, table)) == [*range(3, 12), 20, 21]
    assert ids(load(spark, table, at="1")) == list(range(3, 12))
    merge(table, tmp_path)
    assert ids(load(spark, table)) == [*range(3, 12), 20, 21]


def test_pushed_filters_are_those_of_spark(spark: SparkSession, tmp_path: Path) -> None:
    root = local(spark, tmp_path)
    moments = [datetime.datetime.fromisoformat(f"2013-01-0{day}T12:00:00Z") for day in (1, 2, 3)]
    rows = {
        "id": [1, 2, None],
        "x": [1.5, float("nan"), None],
        "s": ["a", None, "ä"],
        "at": pa.array(moments, pa.timestamp("us", "UTC")),
        "dec": [Decimal("1.50"), None, Decimal("-2.00")],
    }
    Appender(opened(root, partition_by=[])).append(pa.table(rows))
    url = f"{root.url}/t"
    whole = spark.read.format("firnline").load(url)
    for text in (
        "id = 1 or x > 3",
        "id in (1, 7) and s is not null",
        "x > 1.7",
        "not (s = 'a') and id is null",
        "s <=> null and not (id <=> 1)",
        "at >= timestamp'2013-01-02T12:00:00Z' and dec < 0",
        "s like 'ä%' and id is null",
    ):
        once = spark.read.format("firnline").option("pushFilters", "true").load(url)
        assert once.filter(text).toArrow().num_rows == whole.filter(text).toArrow().num_rows, text


def local(spark: SparkSession, folder: Path) -> StoreRoot:
    root = StoreRoot("file", f"file://{folder}/tables", {})
    source(spark, root)
    return root


def test_types_come_back_as_spark_has_them(spark: SparkSession, tmp_path: Path) -> None:
    root = local(spark, tmp_path)
    one: dict[str, Any] = {
        "u": pa.array([2**63], pa.uint64()),
        "n": pa.array([datetime.datetime.fromisoformat("2013-01-01T00:00:00.5")]),
        "m": pa.array([[("k", 1.5)]], pa.map_(pa.string(), pa.float64())),
        "st": [{"x": [1, None], "y": b"\x00"}],
        "t": pa.array([datetime.time(1, 2, 3)]),
        "b": pa.array([7], pa.int8()),
    }
    Appender(opened(root, partition_by=[], sort_by=[])).append(pa.table(one))
    (row,) = spark.read.format("firnline").load(f"{root.url}/t").collect()
    assert row.asDict(recursive=True) == {
        "u": Decimal(2**63),
        "n": datetime.datetime.fromisoformat("2013-01-01T00:00:00.5"),
        "m": {"k": 1.5},
        "st": {"x": [1, None], "y": b"\x00"},
        "t": "01:02:03",
        "b": 7,
    }
    (few,) = spark.read.format("firnline").schema("B long").load(f"{root.url}/t").collect()
    assert few.asDict() == {"B": 7}


def test_one_row_per_key_over_whole_partitions(spark: SparkSession, tmp_path: Path) -> None:
    root = local(spark, tmp_path)
    settings = tmp_path / "tables.yaml"
    settings.write_text(
        f"tables:\n  t: {{root: '{root.url}/t', primary_key: [id], partition_by: [day]}}\n"
    )
    table = opened(root, primary_key=["id"])
    for value in (1, 2):
        rows = {"id": [1, 2], "day": ["mo", "tu"], "v": [value, value]}
        Appender(table).append(pa.table(rows))
    found = load(spark, table, settings=str(settings), bytesPerTask="1")
    assert found.rdd.getNumPartitions() == 2
    assert [row["v"] for row in found.collect()] == [2, 2]
    assert load(spark, table, settings=str(settings), dedup="false").count() == 4


def test_a_write_of_which_a_task_fails_shows_nothing_and_takes_back_what_the_others_wrote(
    spark: SparkSession, tmp_path: Path
) -> None:
    root = local(spark, tmp_path)
    table = filled(opened(root), 1)
    before = objects(table)
    broken = spark.range(0, 100, 1, 4).selectExpr(
        "id", "if(id = 99, raise_error('broken'), 'mo') as day"
    )
    with pytest.raises(Exception, match="broken"):
        broken.write.format("firnline").mode("append").save(table.settings.root)
    left = [key for key in objects(table) if key not in before]
    # Of four tasks on two cores one may be under way beside the last, which is the broken one.
    assert len(left) <= 1
    assert all("/_data/" in key for key in left)
    assert ids(load(spark, table)) == [0, 1, 2, 3]


def test_an_overwrite_replaces_an_interval_in_one_transaction(
    spark: SparkSession, tmp_path: Path
) -> None:
    root = local(spark, tmp_path)
    table = filled(opened(root), 3)
    new = spark.createDataFrame([(5, "mo"), (6, "tu")], "id long, day string").repartition(2)
    interval = {"replaceColumn": "id", "replaceStart": "4", "replaceEnd": "10"}
    writer = new.write.format("firnline").mode("overwrite")
    writer.options(**interval).save(table.settings.root)
    assert ids(load(spark, table)) == [0, 1, 2, 3, 5, 6, 10, 11]
    assert read_snapshot(table.store, table.paths).seq == 1
    before = objects(table)
    with pytest.raises(Exception, match="do not lie in"):
        new.write.format("firnline").mode("overwrite").options(
            **{**interval, "replaceEnd": "6"}
        ).save(table.settings.root)
    with pytest.raises(Exception, match="and none is given"):
        new.write.format("firnline").mode("overwrite").save(table.settings.root)
    assert objects(table) == before
    nothing = spark.createDataFrame([], "id long, day string").write.format("firnline")
    nothing.mode("overwrite").options(**interval).save(table.settings.root)
    assert sorted(firnline.scan(table).to_arrow()["id"].to_pylist()) == [0, 1, 2, 3, 10, 11]


def test_a_batch_of_a_stream_is_there_once_however_often_it_is_tried(
    spark: SparkSession, tmp_path: Path
) -> None:
    root = local(spark, tmp_path)
    table = opened(root, partition_by=[], sort_by=[])
    place, checkpoint = tmp_path / "in", tmp_path / "checkpoint"

    def run() -> None:
        batches = spark.readStream.schema("id long").option("maxFilesPerTrigger", 1)
        query = (
            batches.parquet(str(place))
            .writeStream.format("firnline")
            .option("checkpointLocation", str(checkpoint))
            .trigger(availableNow=True)
            .start(table.settings.root)
        )
        query.awaitTermination()

    for first in (0, 10):
        numbers = spark.range(first, first + 10, 1, 1)
        numbers.write.mode("append").parquet(str(place))
        run()
    assert stored(table) == list(range(20))
    merge(table, tmp_path / "scratch")  # folds the log files of both
    forget_the_end_of_the_last_batch(checkpoint)
    parts = [meta.key for meta in table.store.list(table.paths.data_dir)]
    run()
    assert stored(table) == list(range(20))
    assert [meta.key for meta in table.store.list(table.paths.data_dir)] == parts
    other = tempfile.mkdtemp(dir=tmp_path)
    query = spark.readStream.schema("id long").parquet(str(place)).writeStream.format("firnline")
    started = query.option("checkpointLocation", other).trigger(availableNow=True)
    started.start(table.settings.root).awaitTermination()
    assert len(stored(table)) == 40, "another query is another query"


def test_a_stream_reads_every_append_once_over_restarts_and_merges(
    spark: SparkSession, tmp_path: Path
) -> None:
    root = local(spark, tmp_path)
    table = filled(opened(root), 2)
    merge(table, tmp_path / "scratch")
    filled(table, 1, first=8)
    place, checkpoint = tmp_path / "out", tmp_path / "checkpoint"

    def run() -> list[int]:
        """What the sink has after another run of the query."""
        rows = spark.readStream.format("firnline").option("maxPartsPerBatch", 2)
        query = (
            rows.load(table.settings.root)
            .writeStream.format("parquet")
            .option("checkpointLocation", str(checkpoint))
            .trigger(availableNow=True)
            .start(str(place))
        )
        query.awaitTermination()
        return ids(spark.read.parquet(str(place)))

    assert run() == list(range(12))
    filled(table, 2, first=12)
    # The driver dies after the batch was planned, and its appends are merged meanwhile.
    forget_the_end_of_the_last_batch(checkpoint)
    merge(table, tmp_path / "scratch")
    filled(table, 1, first=20)
    assert run() == list(range(24))


def stored(table: Table) -> list[int]:
    return sorted(firnline.scan(table).to_arrow()["id"].to_pylist())


def forget_the_end_of_the_last_batch(checkpoint: Path) -> None:
    """As when the driver died between the sink's commit and Spark's own note of it."""
    commits = checkpoint / "commits"
    last = max(int(path.name) for path in commits.iterdir() if path.name.isdigit())
    for path in commits.iterdir():
        if path.name in (str(last), f".{last}.crc"):
            path.unlink()
