"""``firnline.spark.frame`` over S3, read by Spark's own connector in a session of its own."""

from __future__ import annotations

import json
import sys
from typing import Any

import pyarrow as pa
import pytest

import firnline
from firnline.appends.append import Appender
from firnline.operations.delete.run import run_delete
from firnline.operations.operation import Work
from firnline.operations.options import DeleteOptions
from firnline.settings.load import TableSettings
from firnline.store.access import StoreAccess
from firnline.table import Table, open_table
from tests.support.evolving import RUN
from tests.support.programs import run_program
from tools import sparks3
from tools.maven import spark_jars
from tools.s3server import StoreRoot

PROGRAM = """
import json
import os
import sys

from pyspark.sql import SparkSession

import firnline

root, jars = sys.argv[1:]
spark = (
    SparkSession.builder.master("local[2]")
    .config("spark.jars", jars)
    .config("spark.ui.enabled", "false")
    .config("spark.hadoop.fs.s3a.endpoint", os.environ["AWS_ENDPOINT_URL"])
    .config("spark.hadoop.fs.s3a.endpoint.region", os.environ["AWS_REGION"])
    .config("spark.hadoop.fs.s3a.path.style.access", "true")
    .getOrCreate()
)
frame = firnline.spark.frame(spark, root, where="id >= 5")
parts = frame.inputFiles()
rows = [row.asDict() for row in frame.orderBy("id").collect()]
print(json.dumps({"rows": rows, "parts": parts}))
"""


def opened(root: StoreRoot) -> Table:
    declared = {"name": "t", "root": f"{root.url}/t", "partition_by": ["day"], "deletes": "lazy"}
    return open_table(TableSettings.model_validate(declared), StoreAccess.from_env(root.env))


def rows_of(scan: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = scan.to_arrow().sort_by("id").to_pylist()
    return rows


def test_the_connector_is_of_the_hadoop_that_pyspark_brings() -> None:
    assert [jar.name for jar in spark_jars().glob("hadoop-client-api-*.jar")] == [
        f"hadoop-client-api-{sparks3.HADOOP}.jar"
    ]


@pytest.mark.full(sparks3.WHY_FULL)
def test_a_table_on_s3_is_read_by_sparks_own_connector(s3_root: StoreRoot) -> None:
    table = opened(s3_root)
    for number in range(4):
        rows = {"id": range(number * 4, number * 4 + 4), "day": ["a b", "c"] * 2}
        Appender(table).append(pa.table(rows))
    hide = DeleteOptions(where="id = 7", mode="lazy")
    run_delete(Work(table, RUN, lambda: pytest.fail("no part is read")), hide)
    expected = rows_of(firnline.scan(table, where="id >= 5"))
    assert len(expected) == 10
    command = [sys.executable, "-c", PROGRAM, table.settings.root, sparks3.ensure()]
    done = run_program(command, s3_root.env)
    assert done.returncode == 0, done.stderr[-3_000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["rows"] == expected
    assert {path.partition("://")[0] for path in found["parts"]} == {"s3a"}
