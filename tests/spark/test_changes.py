"""The feed of changes in Spark: a stream that goes on at its checkpoint, and batch reads."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import firnline
from firnline.errors import UsageError
from firnline.operations.delete.run import run_delete
from firnline.operations.operation import Work
from firnline.operations.options import DeleteOptions
from firnline.spark.format.changes import change_schema, wanted
from firnline.spark.source import register
from tests.support.on_store import RUN, engine, filled, merge, opened
from tools.s3server import StoreRoot

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_stream_of_changes_goes_on_where_it_was_and_a_batch_reads_the_same(
    spark: SparkSession, tmp_path: Path
) -> None:
    register(spark)
    table = filled(opened(StoreRoot("file", f"file://{tmp_path}/tables", {})), 2)
    out = f"{tmp_path}/out"

    def poll() -> None:
        query = (
            spark.readStream.format("firnline")
            .options(changes="true", maxPartsPerBatch="3", columns="id")
            .load(table.settings.root)
            .writeStream.format("parquet")
            .options(checkpointLocation=f"{tmp_path}/check", path=out)
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(120)

    def delivered() -> Counter[Any]:
        rows = spark.read.parquet(out).collect()
        return Counter((r["_operation"], r["id"], r["_sequence"], r["_reason"]) for r in rows)

    poll()
    first = {("insert", n, None, "state"): 1 for n in range(8)}
    assert delivered() == first
    options = DeleteOptions(where="id in (1, 2)", mode="eager")
    run_delete(Work(table, RUN, lambda: engine(table, tmp_path / "s")), options)
    merge(table, tmp_path / "s")
    filled(table, 1, first=20)
    poll()
    since = {("delete", n, 1, "delete"): 1 for n in (1, 2)}
    assert delivered() == first | since | {("insert", n, None, "append"): 1 for n in range(20, 24)}
    poll()
    assert sum(delivered().values()) == 14, "nothing twice"
    read = spark.read.format("firnline").options(changes="true", since="1", where="id < 22")
    rows = read.load(table.settings.root).collect()
    assert sorted((row["_operation"], row["id"], row["day"]) for row in rows) == [
        ("insert", 20, "mo"),
        ("insert", 21, "tu"),
    ]
    then = spark.read.format("firnline").options(changes="true", since="0", until="1")
    assert then.load(table.settings.root).count() == len(
        list(firnline.changes(table, since=0, until=1))
    )


def test_options_that_do_not_go_together_are_refused() -> None:
    assert not wanted({"at": "3"})
    with pytest.raises(UsageError, match="is for a read of changes"):
        wanted({"since": "3"})
    with pytest.raises(UsageError, match="has no option at"):
        wanted({"changes": "true", "AT": "3"})
    with pytest.raises(UsageError, match="has a column _reason"):
        change_schema({"id": "BIGINT", "_reason": "VARCHAR"}, {})
