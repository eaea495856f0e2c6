"""One large group over several tasks of Spark: its rows, in one transaction."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firnline.appends.append import Appender
from firnline.kernel.batches import batches
from firnline.kernel.task import KernelResult, KernelTask
from firnline.log.txn_file import RunIdentity
from firnline.operations.merge.run import run_merge
from firnline.operations.operation import Work
from firnline.operations.options import MergeOptions
from firnline.settings.load import TableSettings
from firnline.spark.engine import SparkEngine
from firnline.state.snapshot import read_snapshot
from firnline.table import open_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTS, ROWS = 4, 16_384
MERGE = {"row_group_rows": 2_048, "split_above": "6MiB"}
SETTINGS: dict[str, dict[str, Any]] = {
    "sorted": {"sort_by": ["id"], "merge": {**MERGE, "target_size": "64MiB"}},
    "zorder": {
        "sort_by": ["id"],
        "cluster_by": {"columns": ["number", "id"], "method": "zorder", "run_size": "64MiB"},
        "merge": {**MERGE, "target_size": "1MiB"},
    },
}


class Recorded(SparkEngine):
    """Keeps the tasks."""

    def run(self, tasks: Sequence[KernelTask]) -> Iterator[KernelResult | None]:
        tasks_of[id(self)] = list(tasks)
        yield from super().run(tasks)


tasks_of: dict[int, list[KernelTask]] = {}


@pytest.mark.parametrize("order", SETTINGS)
def test_the_slices_of_a_group_are_jobs_of_their_own_and_one_transaction(
    spark: SparkSession, tmp_path: Path, order: str
) -> None:
    (tmp_path / "store").mkdir()
    settings = TableSettings.model_validate(
        {"name": "t", "root": f"file://{tmp_path}/store/t", **SETTINGS[order]}
    )
    table = open_table(settings, None)
    appender, chance = Appender(table), random.Random(1)
    for number in range(PARTS):
        ids = pa.array(range(number, ROWS * PARTS, PARTS), pa.int64())
        noise = pa.array([chance.randbytes(200) for _ in range(ROWS)], pa.binary())
        numbers = pa.array([chance.randrange(1_000) for _ in range(ROWS)], pa.int64())
        appender.append(pa.table({"id": ids, "noise": noise, "number": numbers}))
    engine = Recorded(spark, settings.root, None, str(tmp_path / "scratch"))
    report = run_merge(Work(table, RunIdentity(run_id="r"), lambda: engine), MergeOptions())
    assert (report.groups, report.tasks, len(report.transactions)) == (1, 3, 1)
    assert len(batches(tasks_of[id(engine)], slots=2)) == 3
    live = read_snapshot(table.store, table.paths).live.values()
    parts = [pq.read_table(tmp_path / "store" / m.p)["id"].to_pylist() for m in live]
    found = sorted(parts, key=lambda ids: int(ids[0]))
    assert all(ids == sorted(ids) for ids in found)
    if order == "sorted":
        assert all(before[-1] < after[0] for before, after in pairwise(found))
    assert Counter(i for ids in found for i in ids) == Counter(range(PARTS * ROWS))
