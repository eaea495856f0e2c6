"""Fields that came inside a column: Spark reads them as every other reader does, and adds them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql import Row

import firnline
from firnline.spark.frame import frame
from firnline.spark.source import register
from tests.support.spark_versions import as_arrow, with_source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OLD: list[dict[str, Any]] = [
    {"id": 1, "p": {"a": 1, "q": {"x": 1}}, "l": [{"a": 1}]},
    {"id": 2, "p": None, "l": []},
    {"id": 3, "p": {"a": None, "q": None}, "l": None},
]
NEW: list[dict[str, Any]] = [{"id": 4, "p": {"c": "c", "q": {"y": 2.5}}, "l": [{"c": True}, None]}]


def by_frame(spark: SparkSession, root: str) -> DataFrame:
    return frame(spark, root)


def by_source(spark: SparkSession, root: str) -> DataFrame:
    register(spark)
    return spark.read.format("firnline").load(root)


def in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: row["id"])


@pytest.mark.parametrize("read", [by_frame, pytest.param(by_source, marks=with_source)])
def test_parts_without_them_are_read_with_nulls(
    spark: SparkSession, tmp_path: Path, read: Any
) -> None:
    root = f"file://{tmp_path}/t"
    firnline.append(root, OLD)
    firnline.append(root, NEW)
    rows = read(spark, root)
    scanned = in_order(firnline.scan(root).to_arrow().to_pylist())
    assert in_order(as_arrow(rows).to_pylist()) == scanned
    for condition, ids in {
        "p is null": [2],
        "p.c is null": [1, 2, 3],
        "p.c = 'c'": [4],
        "p.q.y > 2": [4],
        "p.q.x = 1": [1],
        "p is not null and p.q.y is null": [1, 3],
        "exists(l, one -> one.c)": [4],
    }.items():
        found = rows.filter(condition)
        assert sorted(row["id"] for row in found.collect()) == ids, condition
        assert sorted(row["id"] for row in found.select("id").collect()) == ids, condition
    pruned = rows.select("id", "p.c", "p.q.y").collect()
    assert sorted(pruned) == sorted(
        [*(Row(id=n, c=None, y=None) for n in (1, 2, 3)), Row(id=4, c="c", y=2.5)]
    )
    # Of a structure only fields that parts of before do not have.
    there = rows.selectExpr("id", "p is null as gone").collect()
    assert sorted((row["id"], row["gone"]) for row in there) == [
        (1, False),
        (2, True),
        (3, False),
        (4, False),
    ]


@pytest.mark.parametrize("read", [by_frame, pytest.param(by_source, marks=with_source)])
def test_values_of_maps_get_them(spark: SparkSession, tmp_path: Path, read: Any) -> None:
    root = f"file://{tmp_path}/t"
    kind = pa.map_(pa.string(), pa.struct([("a", pa.int64())]))
    firnline.append(root, pa.table({"id": [1], "m": pa.array([[("k", {"a": 1})]], kind)}))
    firnline.append(root, [{"id": 2, "m": {"k": {"c": [1.5]}}}])
    scanned = in_order(firnline.scan(root).to_arrow().to_pylist())
    assert [row["m"] for row in scanned] == [
        [("k", {"a": 1, "c": None})],
        [("k", {"a": None, "c": [1.5]})],
    ]
    assert in_order(as_arrow(read(spark, root)).to_pylist()) == scanned


@with_source
def test_a_write_adds_them(spark: SparkSession, tmp_path: Path) -> None:
    root = f"file://{tmp_path}/t"
    firnline.append(root, OLD)
    register(spark)
    kind = "id long, p struct<a: long, late: string>"
    rows = spark.createDataFrame([(5, (7, "x")), (6, (None, "y"))], kind).repartition(2)
    rows.write.format("firnline").mode("append").save(root)
    found = in_order(firnline.scan(root).to_arrow().to_pylist())
    assert [row["p"] and row["p"]["late"] for row in found] == [None, None, None, "x", "y"]
    assert found[0]["p"] == {"a": 1, "q": {"x": 1}, "late": None}
    assert in_order(as_arrow(frame(spark, root)).to_pylist()) == found
