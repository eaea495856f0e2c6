"""A merge on a cluster whose tasks die: no row is lost or doubled, and the report says what failed.

A part is a named pipe until a test puts it there: whoever merges its group waits for it, so that a
test can kill what it waits in, and knows that the group was under way.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firnline.appends.append import Appender
from firnline.operations.options import SweepOptions
from firnline.operations.sweep import run as sweep
from firnline.state.snapshot import read_snapshot
from firnline.table import Table
from tests.spark.test_run import POLL_SECONDS, Pipe, holders
from tests.support.jobs import Done, run_job
from tests.support.on_store import opened
from tests.support.programs import HUNG_SECONDS
from tools.airflow_api import wait_until
from tools.s3server import StoreRoot
from tools.spark_cluster import SparkCluster

DAYS = 4
PARTS = 4
"""Of each day."""


LARGE_ROWS = 1_000_000
LARGE_MEMORY = "2GiB"
"""What a kernel takes for a day of four parts with so many rows each, where it may."""
LESS_MEMORY = "1500m"
"""Of the address space of an executor's Python, whose libraries alone reserve most of it."""


@dataclass
class Merge:
    """A table of four days, one of whose parts is held, and its merge on a cluster."""

    cluster: SparkCluster
    folder: Path
    rows: int = 1
    """Of each part of the first day; parts of the others have one."""
    table: Table = field(init=False)
    held: Pipe = field(init=False)
    pool: ThreadPoolExecutor = field(init=False)

    def __post_init__(self) -> None:
        self.pool = ThreadPoolExecutor(1)
        root = StoreRoot("file", f"file://{self.folder}/store")
        self.table = opened(root, sort_by=["w desc"])
        appender = Appender(self.table)
        for part in range(PARTS):
            for day in range(DAYS):
                ids = self.numbers(day)[part::PARTS]
                # Floats in descending order are not sorted in memory, where nothing is staged.
                turned = [-float(each) for each in ids]
                rows = {"id": ids, "day": [f"d{day}"] * len(ids), "w": turned}
                appender.append(pa.table(rows))
        live = read_snapshot(self.table.store, self.table.paths).live
        key = next(key for key in live if "day=d0" in key)
        self.held = Pipe(self.folder / "store" / key, key)
        self.held.path.rename(self.aside)
        os.mkfifo(self.held.path)

    def numbers(self, day: int) -> range:
        """Return the rows of a day, in their order."""
        return range(10 * day, 10 * day + PARTS * (1 if day else self.rows))

    @property
    def aside(self) -> Path:
        return self.folder / "aside.parquet"

    @property
    def scratch(self) -> Path:
        return self.folder / "scratch"

    def start(self, **conf: str) -> Future[Done]:
        """Run the job; ``conf`` has ``_`` for the dots of Spark's settings."""
        about = {f"spark.{name.replace('_', '.')}": text for name, text in conf.items()}
        settings = self.folder / "tables.json"
        one = {
            "root": self.table.settings.root,
            "partition_by": ["day"],
            "sort_by": ["w desc"],
            "merge": {
                "min_inputs": 2,
                "kernel_memory": "256MiB" if self.rows == 1 else LARGE_MEMORY,
            },
            "spark": {"conf": {**self.cluster.conf(), "spark.log.level": "OFF", **about}},
        }
        settings.write_text(json.dumps({"tables": {"t": one}}))
        options = (f"--settings={settings}", f"--scratch={self.scratch}")
        master = f"--master={self.cluster.master}"
        env = {"SPARK_LOCAL_IP": "127.0.0.1"}
        return self.pool.submit(lambda: run_job("merge", "t", *options, master, env=env))

    def waiting(self, but: frozenset[int] = frozenset()) -> int:
        """Return the process that waits for the held part; ``but`` are others that did before."""
        found: list[int] = []

        def one() -> bool:
            # All others are staged: only the held one keeps a group from its end.
            groups = [lock for lock in self.scratch.glob("*.lock") if self._is_held(lock)]
            found[:] = [pid for lock in groups for pid in holders(lock) if pid not in but]
            return bool(found)

        assert wait_until(one, HUNG_SECONDS, POLL_SECONDS)
        return found[0]

    @staticmethod
    def _is_held(lock: Path) -> bool:
        return len(list(lock.with_suffix("").glob("*.parquet"))) == PARTS - 1

    def put_back(self) -> None:
        """Put the held part where it belongs; who waits for the pipe goes on waiting."""
        kept = self.folder / "pipe"
        self.held.path.rename(kept)
        self.held.path = kept
        key = self.folder / "store" / self.held.key
        self.aside.rename(key)

    def right(self, missing: frozenset[int] = frozenset()) -> None:
        """Every row is there once, each day in one part but those that were not merged."""
        live = read_snapshot(self.table.store, self.table.paths).live
        for day in range(DAYS):
            found = [self._read(key) for key in live if f"day=d{day}/" in key]
            assert len(found) == (PARTS if day in missing else 1)
            ids = pa.concat_tables(found)["id"].combine_chunks().sort()
            assert ids.equals(pa.array(self.numbers(day)))

    def _read(self, key: str) -> pa.Table:
        return pq.read_table(io.BytesIO(self.table.store.get(key)), columns=["id"])

    def unnamed(self, folder: str) -> list[str]:
        """Return the objects of a folder that nothing names."""
        named = read_snapshot(self.table.store, self.table.paths).parts
        return [each.key for each in self.table.store.list(f"{folder}/") if each.key not in named]

    def orphans(self) -> int:
        """Return the number of objects that nothing names, however young."""
        return sweep.preview(self.table, SweepOptions()).young


@pytest.fixture
def merge(cluster: SparkCluster, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Merge]:
    """A parameter is the number of rows of a part of the first day."""
    found = Merge(cluster, tmp_path, getattr(request, "param", 1))
    try:
        yield found
    finally:
        found.held.release()
        found.pool.shutdown()


def gone(pid: int) -> bool:
    return wait_until(lambda: not psutil.pid_exists(pid), HUNG_SECONDS, POLL_SECONDS)


@pytest.mark.turn("tasks that die on a cluster")
def test_a_worker_killed_in_the_middle_costs_no_row_and_leaves_no_orphan(merge: Merge) -> None:
    cluster = merge.cluster
    # One task at a time on each host: Spark gives a core its next task once it has the result of
    # the one before, so nothing that another group has written is lost with the worker.
    done = merge.start(executor_cores="1", cores_max=str(len(cluster.hosts)))
    process = merge.waiting()
    host = cluster.host_of(process)
    assert host is not None
    try:
        merge.put_back()
        cluster.kill_worker(host)
        assert gone(process), "its executor has ended, and what that had started"
        report = done.result().report
    finally:
        cluster.repair()
    assert (report["groups_done"], report["failures"]) == (DAYS, [])
    assert report["counts"]["rows_out"] == DAYS * PARTS
    merge.right()
    assert merge.orphans() == 0


@pytest.mark.turn("tasks that die on a cluster")
def test_a_task_that_fails_twice_is_done_by_its_third_attempt(merge: Merge) -> None:
    done = merge.start()
    first = merge.waiting()
    psutil.Process(first).kill()
    second = merge.waiting(frozenset({first}))
    merge.put_back()
    psutil.Process(second).kill()
    report = done.result().report
    assert (report["groups_done"], report["failures"]) == (DAYS, [])
    merge.right()
    assert merge.orphans() == 0


@pytest.mark.turn("tasks that die on a cluster")
def test_a_group_that_kills_every_attempt_is_reported_and_the_others_are_merged(
    merge: Merge,
) -> None:
    done = merge.start(task_maxFailures="2")
    killed: set[int] = set()
    for _ in range(4):  # two jobs of two attempts
        process = merge.waiting(frozenset(killed))
        killed.add(process)
        psutil.Process(process).kill()
    result = done.result()
    assert result.code == 1
    report = result.printed
    assert report["groups_done"] == DAYS - 1
    (failure,) = report["failures"]
    assert failure["partition"] == "day=d0"
    assert failure["error"] == "KernelError"
    assert "died: " in failure["message"]
    assert "1.3 x merge.kernel_memory" in failure["message"]
    merge.put_back()
    merge.right(missing=frozenset({0}))
    assert merge.orphans() == 0
    assert merge.start().result().report["groups_done"] == 1
    merge.right()


@pytest.mark.turn("tasks that die on a cluster")
@pytest.mark.parametrize("merge", [LARGE_ROWS], indirect=True)
def test_a_group_that_exceeds_an_executors_memory_is_reported_and_merged_with_more(
    merge: Merge,
) -> None:
    merge.put_back()
    less = {"executor_cores": "1", "executor_pyspark_memory": LESS_MEMORY}
    result = merge.start(**less, task_maxFailures="1").result()
    assert result.code == 1
    report = result.printed
    assert report["groups_done"] == DAYS - 1
    (failure,) = report["failures"]
    assert failure["partition"] == "day=d0"
    assert failure["error"] == "KernelError"
    assert "1.3 x merge.kernel_memory" in failure["message"]
    merge.right(missing=frozenset({0}))
    assert merge.orphans() == 0
    assert merge.start(executor_cores="1").result().report["groups_done"] == 1
    merge.right()
    assert merge.orphans() == 0


@pytest.mark.turn("tasks that die on a cluster")
def test_a_speculative_attempt_ends_a_group_whose_first_one_hangs(merge: Merge) -> None:
    done = merge.start(
        speculation="true",
        speculation_interval="50ms",
        # Longer than it takes until the part is back, or both attempts wait for the pipe.
        speculation_task_duration_threshold="10s",
    )
    first = merge.waiting()
    merge.put_back()  # the first attempt waits for the pipe for ever
    report = done.result().report
    assert (report["groups_done"], report["failures"]) == (DAYS, [])
    assert gone(first)
    merge.right()
    # On a busy machine another group may take so long, too, that both of its attempts get through.
    assert not merge.unnamed(merge.held.key.rpartition("/")[0])
