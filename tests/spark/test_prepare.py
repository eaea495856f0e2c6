"""A prepared rewrite whose rows are compared in the tasks of a Spark application."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
import pytest

from firnline.appends.append import Appender
from firnline.clock import SystemClock
from firnline.errors import PartGoneError
from firnline.ids import SystemIds
from firnline.kernel.engine import Engine
from firnline.kernel.local import LocalEngine
from firnline.kernel.task import KernelResult, KernelTask
from firnline.log.txn_file import RunIdentity
from firnline.operations.operation import Work
from firnline.operations.options import RewriteOptions
from firnline.operations.prepared import compare, objects
from firnline.operations.prepared.pieces import Compare, Piece, Wanted
from firnline.operations.rewrite.prepare import PrepareReport, run_prepare
from firnline.read.task import ReadPart, ReadTask
from firnline.settings.load import TableSettings
from firnline.spark import comparison
from firnline.spark.engine import SparkEngine
from firnline.store.access import StoreAccess
from firnline.store.client import open_store
from firnline.store.probe import forget
from firnline.table import Table, open_table
from tests.support.jobs import Jobs
from tools.s3server import StoreRoot

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RUN = RunIdentity(run_id="r")
DAYS = ("mo", "th", "tu")
REWRITE = {
    "sql": "select * replace (if(v < 2, upper(s), s) as s, if(v = 3, null, x) as x)"
    " from _rows where n <> 4 union all select day, 100 + n, v, s, x from _rows where n = 5",
    "samples": 3,
}


def filled(root: StoreRoot, **settings: Any) -> Table:
    """Three parts in each of three partitions; rows, nulls and NaN that occur more than once."""
    access = StoreAccess.from_env(root.env) if root.env else None
    named = {"name": "t", "root": f"{root.url}/t", "partition_by": ["day"], **settings}
    table = open_table(TableSettings.model_validate(named), access)
    for first in (0, 2, 4):
        rows = [
            {"day": day, "n": n, "v": n % 4, "s": "é" * n or None, "x": float("nan" if n else "1")}
            for day in DAYS
            for n in (first, first, first + 1)
        ]
        Appender(table).append(pa.Table.from_pylist(rows))
    return open_table(table.settings, access)


@dataclass(frozen=True)
class ComparesThere:
    """Writes parts here, without a Spark job, and compares rows in tasks."""

    local: LocalEngine
    spark: SparkEngine
    application_id = "there"

    def run(self, tasks: Sequence[KernelTask]) -> Iterator[KernelResult | None]:
        return self.local.run(tasks)

    def comparison(self) -> Compare:
        return self.spark.comparison()


def local(table: Table, scratch: Path) -> LocalEngine:
    root, access = table.settings.root, table.access
    return LocalEngine(lambda: open_store(root, access), scratch, SystemIds(), SystemClock())


def prepare(table: Table, engine: Engine, options: dict[str, Any]) -> PrepareReport:
    return run_prepare(Work(table, RUN, lambda: engine), RewriteOptions(prepare=True, **options))


@pytest.mark.parametrize("case", ["no key", "named key", "primary key"])
def test_executors_find_the_evidence_that_this_process_would_to_the_byte(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    table = filled(
        StoreRoot("file", f"file://{tmp_path}"),
        **({"primary_key": ["day", "n"]} if case == "primary key" else {}),
    )
    options = {**REWRITE, **({"keys": ("n",)} if case == "named key" else {})}
    writer = local(table, tmp_path / "scratch")
    expected = prepare(table, writer, options).evidence
    monkeypatch.setattr(comparison, "TASK_PIECES", 2)  # two tasks in two jobs
    monkeypatch.setattr(comparison, "JOB_TASKS", 1)
    monkeypatch.setattr(compare, "_compare_here", None)
    there = SparkEngine(spark, table.settings.root, None, str(tmp_path / "scratch"))
    engine = ComparesThere(writer, there)
    found = prepare(table, engine, options).evidence
    assert msgspec.json.encode(found) == msgspec.json.encode(expected)
    assert [each.partition for each in found.partitions] == [f"day={day}" for day in DAYS]
    assert found.removed
    assert found.added
    assert (found.changed > 0, "s" in found.columns) == (case != "no key",) * 2
    assert {s.kind for s in found.samples} >= {"removed", "added"}


def test_a_prepare_reads_rows_by_the_access_of_the_executors_and_counts_their_requests(
    spark: SparkSession, s3_root: StoreRoot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = filled(s3_root, primary_key=["day", "n"])
    expected = prepare(table, local(table, tmp_path), REWRITE)
    monkeypatch.setattr(compare, "_compare_here", None)
    forget()  # the probe is part of what a run costs
    found = prepare(
        table, SparkEngine(spark, table.settings.root, table.access, str(tmp_path)), REWRITE
    )
    assert found.evidence == expected.evidence
    assert found.requests["get"] == expected.requests["get"]


def test_the_job_asserts_over_all_rows_before_and_after(jobs: Jobs, tmp_path: Path) -> None:
    table = filled(StoreRoot("file", f"file://{tmp_path}"))
    asserted = ["select count(*) = 27 from before", "select count(*) > 0 from after"]
    options = {**REWRITE, "prepare": True, "assertions": asserted}
    report = jobs.run("rewrite", table.settings.root, f"--options={json.dumps(options)}").report
    assert report["evidence"]["assertions"] == asserted
    assert report["evidence"]["rows_before"] == 27
    (entry,) = objects.entries(table)
    assert entry.id == report["id"]


def test_an_error_of_a_task_is_that_of_the_read(spark: SparkSession, tmp_path: Path) -> None:
    kinds = (("n", "BIGINT"),)
    gone = ReadPart(key="t/_data/no-such.parquet", bytes=9, place=0, partition=0)
    task = ReadTask(parts=(gone,), columns=kinds, needed=kinds)
    (tmp_path / "store").mkdir()
    engine = SparkEngine(spark, f"file://{tmp_path}/store/t", None, str(tmp_path / "scratch"))
    wanted = Wanted(keys=(), samples=0, memory=2**26, threads=1)
    with pytest.raises(PartGoneError, match=r"part t/_data/no-such.parquet has no object any more"):
        list(engine.comparison()([Piece("", task, task)], wanted))
    assert not list((tmp_path / "scratch").glob("*")), "nothing is left on the executors' disks"
