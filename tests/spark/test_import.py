"""``firnline import --split`` with executors: the driver reads footers, and no row."""

from __future__ import annotations

import io
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from firnline.operations.import_files.options import ImportOptions
from firnline.operations.import_files.run import run_import
from firnline.settings.load import TableSettings, settings_for_root
from firnline.spark.engine import SparkEngine
from firnline.state.snapshot import read_snapshot
from firnline.store.access import StoreAccess
from firnline.table import open_table
from tests.support.jobs import without_rows
from tests.support.reading import stored_ids
from tools.s3server import StoreRoot

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 200_000


def test_executors_split_files_that_span_partitions(
    spark: SparkSession, s3_environ: StoreRoot
) -> None:
    access = StoreAccess.from_env(s3_environ.env)
    known = settings_for_root(f"{s3_environ.url}/t")
    (day,) = TableSettings.model_validate(
        {"name": "t", "root": known.root, "partition_by": ["day"]}
    ).partition_by
    append = known.append.model_copy(update={"part_bytes": 2**20})
    settings = known.model_copy(update={"partition_by": (day,), "append": append})
    table = open_table(settings)
    sink = io.BytesIO()
    rows = pa.table({"id": range(ROWS), "day": [n % 2 for n in range(ROWS)]})
    pq.write_table(rows, sink, row_group_size=ROWS // 4, use_dictionary=False, compression="none")
    folder = table.paths.prefix.rpartition("/")[0]
    table.store.put_new(f"{folder}/in/large.parquet".removeprefix("/"), sink.getvalue())
    engine = SparkEngine(spark, settings.root, access)
    options = ImportOptions(source=f"{s3_environ.url}/in", split=True)
    driver = replace(table, store=without_rows(settings.root, access))
    report = run_import(driver, options, engine=lambda: engine)
    assert report.parts_written == 2 * 4
    assert list(read_snapshot(table.store, table.paths).partitions) == ["day=0", "day=1"]
    assert Counter(stored_ids(table)) == Counter(range(ROWS))
