"""What a group in slices costs on a real store: a footer for each part, then row groups."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from firnline.appends.append import Appender
from firnline.clock import SystemClock
from firnline.ids import SystemIds
from firnline.kernel.local import LocalEngine
from firnline.kernel.task import KernelInput, KernelResult, KernelTask
from firnline.operations.merge.run import run_merge
from firnline.operations.operation import Work
from firnline.operations.options import MergeOptions
from firnline.store.probe import forget
from tests.store.test_merge_accounting import RUN, opened, read
from tools.s3server import StoreRoot

PARTS, ROWS, GROUPS = 4, 16_384, 8
MERGE = {"row_group_rows": ROWS // GROUPS, "split_above": "4MiB"}
SETTINGS: dict[str, dict[str, Any]] = {
    "sorted": {"sort_by": ["id"], "merge": {**MERGE, "target_size": "64MiB"}},
    "zorder": {
        "cluster_by": {"columns": ["number", "id"], "method": "zorder", "run_size": "64MiB"},
        "merge": {**MERGE, "target_size": "1MiB"},
    },
}


class Recorded:
    """Keeps the tasks, and what each cost."""

    application_id = ""

    def __init__(self, root: StoreRoot, scratch: Path, settings: dict[str, Any]) -> None:
        self.tasks: list[KernelTask] = []
        self.results: list[KernelResult] = []
        self._inner = LocalEngine(
            lambda: opened(root, **settings).store, scratch, SystemIds(), SystemClock()
        )

    def run(self, tasks: Sequence[KernelTask]) -> Iterator[KernelResult | None]:
        self.tasks += tasks
        for result in self._inner.run(tasks):
            if result is not None:
                self.results.append(result)
            yield result


def gets(source: KernelInput) -> int:
    """One for a whole part; else one for the footer, and one for each stretch of row groups."""
    if source.row_groups is None:
        return 1
    stretches = sum(number - 1 not in source.row_groups for number in source.row_groups)
    return 1 + stretches


@pytest.mark.parametrize("order", SETTINGS)
def test_a_slice_is_a_get_for_each_footer_and_each_stretch_of_row_groups_that_it_needs(
    store_root: StoreRoot, tmp_path: Path, order: str
) -> None:
    settings = SETTINGS[order]
    appender = Appender(opened(store_root, **settings))
    chance = random.Random(1)
    for number in range(PARTS):
        ids = pa.array(range(number, ROWS * PARTS, PARTS), pa.int64())
        noise = pa.array([chance.randbytes(200) for _ in range(ROWS)], pa.binary())
        numbers = pa.array([chance.randrange(1_000) for _ in range(ROWS)], pa.int64())
        appender.append(pa.table({"id": ids, "noise": noise, "number": numbers}))
    forget()  # the probe is part of what a run costs
    table = opened(store_root, **settings)
    engine = Recorded(store_root, tmp_path / "scratch", settings)
    report = run_merge(Work(table, RUN, lambda: engine), MergeOptions())
    assert report.tasks == len(engine.tasks) == 4
    assert report.counts.rows_in == report.counts.rows_out == PARTS * ROWS
    of_tasks = [sum(map(gets, task.inputs)) for task in engine.tasks]
    found = {result.group: result.requests["get"] for result in engine.results}
    assert found == {task.group: count for task, count in zip(engine.tasks, of_tasks, strict=True)}
    # Log files, the probe's object, and a footer of each part before anything is read.
    assert report.requests["get"] == sum(of_tasks) + PARTS + PARTS + 1
    # No task reads much more than its share, and none a row group that is not its own.
    share = report.counts.bytes_in / len(engine.tasks)
    footers = PARTS * 64 * 1024
    assert all(r.requests["bytes_in"] <= 1.5 * share + footers for r in engine.results)
    rows = Counter(i for t in read(store_root, tmp_path) for i in t.column("id").to_pylist())
    assert rows == Counter(range(PARTS * ROWS))
