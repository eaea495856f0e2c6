"""Imports with executors: the driver reads footers, and no row."""

from __future__ import annotations

import io
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from firnline.operations.import_files.run import run_import
from firnline.operations.import_options import ImportOptions
from firnline.operations.operation import Work
from firnline.settings.load import TableSettings, load_settings, settings_for_root
from firnline.spark.engine import SparkEngine
from firnline.state.snapshot import read_snapshot
from firnline.store.access import StoreAccess
from firnline.table import open_table
from tests.support.histories import parquet_bytes
from tests.support.jobs import Jobs, without_rows
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
    report = run_import(Work(driver, engine=lambda: engine), options)
    assert report.parts_written == 2 * 4
    assert list(read_snapshot(table.store, table.paths).partitions) == ["day=0", "day=1"]
    assert Counter(stored_ids(table)) == Counter(range(ROWS))


def test_a_job_takes_the_new_files_of_the_folders_that_the_settings_name(
    jobs: Jobs, s3_environ: StoreRoot, tmp_path: Path
) -> None:
    file = tmp_path / "tables.yaml"
    source = f"source: {s3_environ.url}/in, path_types: {{day: DATE}}"
    file.write_text(f"tables: {{t: {{root: '{s3_environ.url}/t', import: {{{source}}}}}}}")
    table = open_table(load_settings(file).table("t"))
    folder = table.paths.data_dir.removesuffix("t/_data/")
    arguments = ["t", f"--settings={file}", "--options={}"]
    for day in (1, 2):
        data = parquet_bytes(pa.table({"id": [day]}))
        table.store.put_new(f"{folder}in/day=2026-01-0{day}/a.parquet", data)
        report = jobs.run("import_files", *arguments, open_store=without_rows).report
        assert (report["files"], report["anew"], report["known"]) == (1, 1, day - 1)
    assert jobs.run("import_files", *arguments).report["log_files"] == []
    assert read_snapshot(table.store, table.paths).schema == {"id": "BIGINT", "day": "DATE"}
    assert Counter(stored_ids(table)) == Counter([1, 2])
