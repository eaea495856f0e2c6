"""Two merges of one table at the same time, each with its own process' view of a real store."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest

from firnline.appends.append import Appender
from firnline.clock import SystemClock
from firnline.ids import SystemIds
from firnline.kernel.engine import Engine
from firnline.kernel.local import LocalEngine
from firnline.kernel.task import KernelResult, KernelTask
from firnline.log.txn_file import RunIdentity
from firnline.operations.merge.run import MergeReport, run_merge
from firnline.operations.operation import Work
from firnline.operations.options import MergeOptions
from firnline.state.history import history
from firnline.state.snapshot import read_snapshot
from firnline.table import Table
from tests.support.on_store import opened
from tests.support.reading import visible_ids
from tools.s3server import StoreRoot

DAYS = ("fr", "mo", "th", "tu", "we")
ROWS = 20


@dataclass
class Meeting:
    """An engine that begins its first turn when the other merge has planned too."""

    engine: LocalEngine
    both: threading.Barrier
    met: bool = False

    @property
    def application_id(self) -> str:
        return ""

    def run(self, tasks: Sequence[KernelTask]) -> Iterator[KernelResult | None]:
        if not self.met:
            self.met = True
            self.both.wait(60)
        yield from self.engine.run(tasks)


def _opened(root: StoreRoot) -> Table:
    merge = {"min_inputs": 2, "slots": 2, "commit_every": "0s"}
    return opened(root, partition_by=["day"], sort_by=["id"], merge=merge)


def _filled(root: StoreRoot) -> None:
    appender = Appender(_opened(root))
    for first in range(0, 4 * ROWS, ROWS):
        ids = list(range(first, first + ROWS))
        appender.append(pa.table({"id": ids, "day": [DAYS[i % len(DAYS)] for i in ids]}))


def _both(
    root: StoreRoot, scratch: Path, one: Sequence[str], two: Sequence[str]
) -> list[MergeReport]:
    """Merge these partitions (empty: all) by two runs at once; return their reports."""
    met = threading.Barrier(2)

    def merge(name: str, partitions: Sequence[str]) -> MergeReport:
        local = LocalEngine(lambda: _opened(root).store, scratch, SystemIds(), SystemClock())
        engine: Engine = Meeting(local, met)
        run = RunIdentity(dag_id="merge__t", run_id=name, try_number=1)
        return run_merge(
            Work(_opened(root), run, lambda: engine), MergeOptions(partitions=tuple(partitions))
        )

    with ThreadPoolExecutor(2) as threads:
        return list(threads.map(merge, ("one", "two"), (one, two)))


def _complete(root: StoreRoot) -> None:
    """Every row is there once, a part in each partition, and no object that no marker names."""
    table = _opened(root)
    state = read_snapshot(table.store, table.paths, everything=True)
    assert sorted(visible_ids(table).elements()) == list(range(4 * ROWS))
    assert [len(parts) for parts in state.partitions.values()] == [1] * len(DAYS)
    objects = {meta.key for meta in table.store.list(table.paths.data_dir)}
    assert objects == state.parts.keys(), "the outputs of a group that lost are deleted"


def test_two_merges_at_once_over_different_partitions_both_commit(
    store_root: StoreRoot, tmp_path: Path
) -> None:
    _filled(store_root)
    reports = _both(store_root, tmp_path, ["day=mo", "day=tu"], ["day=we", "day=th", "day=fr"])
    assert [(r.groups_done, r.groups_lost, r.replans) for r in reports] == [(2, 0, 0), (3, 0, 0)]
    headers = list(history(_opened(store_root), 99))
    assert {header.run.run_id for header in headers if header.op == "merge"} == {"one", "two"}
    _complete(store_root)


@pytest.mark.parametrize("partitions", [["day=mo"], []])
def test_two_merges_at_once_over_the_same_partitions_keep_every_row_once(
    store_root: StoreRoot, tmp_path: Path, partitions: list[str]
) -> None:
    """Both have planned the same; of one partition it is certain that both merge it."""
    _filled(store_root)
    reports = _both(store_root, tmp_path, partitions, partitions)
    if partitions:
        assert sorted((r.groups_done, r.groups_lost) for r in reports) == [(0, 1), (1, 0)]
        reports += _both_of_the_rest(store_root, tmp_path)
    assert sum(report.groups_done for report in reports) == len(DAYS)
    assert sum(report.counts.rows_in for report in reports) == 4 * ROWS
    _complete(store_root)


def _both_of_the_rest(root: StoreRoot, scratch: Path) -> list[MergeReport]:
    rest = [f"day={day}" for day in DAYS if day != "mo"]
    return _both(root, scratch, rest, rest)
