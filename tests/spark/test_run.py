"""Groups over the tasks of a local Spark: real JVM, real Python workers, real stores."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from firnline.kernel.model import KernelResult
from tests.spark.conftest import Parts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def collect(results: Iterable[KernelResult | None]) -> dict[int, KernelResult]:
    return {result.group: result for result in results if result is not None}


def test_every_group_becomes_one_sorted_part(spark: SparkSession, parts: Parts) -> None:
    tasks = [parts.task(group, parts.put([group, 9], [5, 7], [])) for group in range(5)]
    results = collect(parts.engine(spark).run(tasks))
    assert sorted(results) == [0, 1, 2, 3, 4]
    assert all(parts.values(results[n]) == sorted([n, 9, 5, 7]) for n in results)
    assert {r.parts[0].key for r in results.values()} == parts.outputs()
    assert all((r.requests["get"], r.requests["put"]) == (3, 1) for r in results.values())
    assert not list(parts.scratch.iterdir())


def test_small_groups_share_a_job_and_still_have_a_result_each(
    spark: SparkSession, parts: Parts
) -> None:
    keys = parts.put([2], [1])
    small = [
        parts.task(
            n,
            keys,
            inputs=tuple(
                type(source)(key=source.key, bytes=100, rows=1)
                for source in parts.task(n, keys).inputs
            ),
        )
        for n in range(40)
    ]
    results = collect(parts.engine(spark).run(small))
    assert sorted(results) == list(range(40))
    assert len({r.parts[0].key for r in results.values()}) == 40


def test_one_group_that_fails_does_not_stop_the_others(spark: SparkSession, parts: Parts) -> None:
    broken = f"{parts.prefix}in-broken.parquet"
    parts.store.put_new(broken, b"this is no Parquet file at all")
    good = parts.put([1], [2])
    tasks = [parts.task(0, good), parts.task(1, [good[0], broken]), parts.task(2, good)]
    results = collect(parts.engine(spark).run(tasks))
    assert (results[1].error_type, results[1].error_key) == ("PartUnreadableError", broken)
    assert parts.values(results[0]) == parts.values(results[2]) == [1, 2]


def test_results_come_while_other_groups_still_run(spark: SparkSession, parts: Parts) -> None:
    quick, slow = parts.put([1], [2]), parts.random(4, 1_500_000)
    order = [
        r and r.group
        for r in parts.engine(spark).run(
            [parts.task(0, slow, row_group_rows=2048), parts.task(1, quick)]
        )
    ]
    assert order.index(1) < order.index(0)
    assert None in order[order.index(1) :], "the caller hears something while the slow one runs"


class Killer:
    """Kills the Python worker that works on a group of this many inputs, whenever it sees it."""

    def __init__(self, scratch: Path, inputs: int, times: int) -> None:
        self.kills = 0
        self._scratch, self._last, self._times = scratch, f"{inputs - 1:06d}.parquet", times
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Killer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(0.01) and self.kills < self._times:
            for staged in self._scratch.glob(f"*/{self._last}"):
                self._kill_owner(Path(f"{staged.parent}.lock"))

    def _kill_owner(self, lock: Path) -> None:
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if any(link.resolve() == lock for link in (process / "fd").iterdir()):
                    os.kill(int(process.name), signal.SIGKILL)
                    self.kills += 1
                    lock.unlink()
                    return


@pytest.fixture
def file_parts(tmp_path: Path) -> Parts:
    (tmp_path / "store").mkdir()
    return Parts(f"file://{tmp_path}/store/table", None, tmp_path / "scratch")


def test_a_group_whose_worker_is_killed_once_is_done_again(
    spark: SparkSession, file_parts: Parts
) -> None:
    keys = file_parts.random(7, 200_000)
    with Killer(file_parts.scratch, 7, times=1) as killer:
        results = collect(file_parts.engine(spark).run([file_parts.task(0, keys)]))
    assert killer.kills == 1
    assert len(file_parts.values(results[0])) == 1_400_000


def test_a_group_that_kills_every_worker_is_reported_and_the_others_are_done(
    spark: SparkSession, file_parts: Parts
) -> None:
    poison, good = file_parts.random(7, 200_000), file_parts.put([2], [1])
    small = file_parts.task(0, poison).inputs
    # All in one job, so that the poison takes its neighbours with it the first time.
    tasks = [
        file_parts.task(
            n,
            good,
            inputs=tuple(
                type(source)(key=key, bytes=1, rows=None)
                for source, key in zip(small, poison if n == 1 else good, strict=False)
            ),
        )
        for n in range(16)
    ]
    with Killer(file_parts.scratch, 7, times=99) as killer:
        results = collect(file_parts.engine(spark).run(tasks))
    assert killer.kills >= 2
    assert results[1].error_type == "KernelError"
    assert "group 1" in str(results[1].error)
    assert "Traceback" not in str(results[1].error)
    assert [n for n, r in results.items() if r.error is None] == [
        n for n in sorted(results, key=list(results).index) if n != 1
    ]
    assert sorted(results) == list(range(16))


def test_leaving_the_results_cancels_what_still_runs(
    spark: SparkSession, file_parts: Parts
) -> None:
    slow = file_parts.random(4, 1_500_000)
    results = file_parts.engine(spark).run(
        [file_parts.task(n, slow, row_group_rows=2048) for n in range(12)]
    )
    next(iter(results))
    results.close()  # type: ignore[attr-defined] # a generator, which Iterator does not say
    assert len(file_parts.outputs()) < 12


def test_a_table_that_executors_may_not_reach_is_an_error_of_its_groups(
    spark: SparkSession, file_parts: Parts
) -> None:
    keys = file_parts.put([1], [2])
    lost = Parts("file:///nowhere/at/all/table", None, file_parts.scratch)
    (result,) = collect(lost.engine(spark).run([lost.task(0, keys)])).values()
    assert result.error_type in {"PartGoneError", "StoreAccessError", "KernelError"}
    assert result.error_next_step
