"""``verify --deep`` in the tasks of a Spark application."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from firnline.appends.append import Appender
from firnline.operations.operation import Work
from firnline.operations.options import VerifyOptions
from firnline.operations.verify.run import run_verify
from firnline.parquet.footers import FooterWanted
from firnline.settings.load import settings_for_root
from firnline.spark import footers
from firnline.spark.engine import SparkEngine
from firnline.spark.footers import footers_by
from firnline.store.access import StoreAccess
from firnline.table import Table, open_table
from tests.support.jobs import Jobs
from tools.s3server import StoreRoot

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def filled(root: StoreRoot) -> Table:
    """Seven parts with three rows each."""
    access = StoreAccess.from_env(root.env) if root.env else None
    table = open_table(settings_for_root(f"{root.url}/t"), access)
    appender = Appender(table)
    for number in range(7):
        appender.append(pa.table({"id": [number, 1, 2], "day": ["mo"] * 3}))
    return open_table(table.settings, access)


def test_spark_reads_the_footers_that_this_process_would(
    spark: SparkSession, store_root: StoreRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(footers, "PER_TASK", 3)  # three batches in two jobs
    monkeypatch.setattr(footers, "PER_JOB", 2)
    table = filled(store_root)
    broken = next(iter(table.store.list(table.paths.data_dir)))
    list(table.store.delete_many([broken.key]))
    table.store.put_new(broken.key, b"\0" * broken.size)
    engine = SparkEngine(spark, table.settings.root, StoreAccess.from_env(store_root.env))
    here = run_verify(Work(table), VerifyOptions(deep=True))
    there = run_verify(Work(table, footers=footers_by(lambda: engine)), VerifyOptions(deep=True))
    assert here.kinds == {"footer-unreadable": 1}
    assert (there.findings, there.checked) == (here.findings, here.checked)
    assert there.checked.footer_rows == 18
    assert there.requests["get"] == here.requests["get"] - 7, "no footer was read by the driver"


def test_no_job_starts_for_a_table_without_parts() -> None:
    def never() -> SparkEngine:
        raise AssertionError

    assert list(footers_by(never)([], FooterWanted())) == []


def test_the_job_prints_its_report_and_fails_for_a_finding(jobs: Jobs, tmp_path: Path) -> None:
    root = StoreRoot("file", f"file://{tmp_path}")
    table = filled(root)
    arguments = (table.settings.root, "--options", '{"deep": true}')
    done = jobs.run("verify", *arguments)
    assert done.report["checked"]["footers"] == 7
    list(table.store.delete_many([next(iter(table.store.list(table.paths.data_dir))).key]))
    done = jobs.run("verify", *arguments)
    assert done.code == 1
    assert done.printed["kinds"] == {"part-missing": 1}
    assert done.error["message"].startswith("table t has 1 error; the first: t/_data/")
