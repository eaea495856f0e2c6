"""Groups over the tasks of a local Spark: real JVM, real Python workers, real stores."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from firnline.kernel.batches import batches
from firnline.kernel.task import KernelResult, KernelTask
from tests.spark.conftest import Parts
from tests.support.programs import HUNG_SECONDS
from tools.airflow_api import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


POLL_SECONDS = 0.05


def collect(results: Iterable[KernelResult | None]) -> dict[int, KernelResult]:
    return {result.group: result for result in results if result is not None}


def test_every_group_becomes_one_sorted_part(spark: SparkSession, parts: Parts) -> None:
    tasks = [parts.task(group, parts.put([group, 9], [5, 7], [])) for group in range(5)]
    results = collect(parts.engine(spark).run(tasks))
    assert sorted(results) == [0, 1, 2, 3, 4]
    assert all(parts.values(results[n]) == sorted([n, 9, 5, 7]) for n in results)
    assert {r.parts[0].key for r in results.values()} == parts.outputs()
    assert all((r.requests["get"], r.requests["put"]) == (3, 1) for r in results.values())
    assert not list(parts.scratch.glob("*"))


def sized(parts: Parts, group: int, keys: list[str], each: int) -> KernelTask:
    """A task whose inputs count as this many bytes each."""
    inputs = parts.task(group, keys).inputs
    return parts.task(
        group, keys, inputs=tuple(type(one)(key=one.key, bytes=each, rows=None) for one in inputs)
    )


def test_small_groups_share_a_job_and_still_have_a_result_each(
    spark: SparkSession, file_parts: Parts
) -> None:
    keys = file_parts.put([2], [1])
    small = [sized(file_parts, group, keys, 100) for group in range(24)]
    assert len(batches(small, slots=2)) == 8
    results = collect(file_parts.engine(spark).run(small))
    assert sorted(results) == list(range(24))
    assert len({r.parts[0].key for r in results.values()}) == 24


def test_one_group_that_fails_does_not_stop_the_others(spark: SparkSession, parts: Parts) -> None:
    broken = f"{parts.prefix}in-broken.parquet"
    parts.store.put_new(broken, b"this is no Parquet file at all")
    good = parts.put([1], [2])
    tasks = [parts.task(0, good), parts.task(1, [good[0], broken]), parts.task(2, good)]
    results = collect(parts.engine(spark).run(tasks))
    assert (results[1].error_type, results[1].error_key) == ("PartUnreadableError", broken)
    assert parts.values(results[0]) == parts.values(results[2]) == [1, 2]


@dataclass
class Pipe:
    """A named pipe in the place of a part: whoever reads the part waits until it is released."""

    path: Path
    key: str

    def release(self) -> None:
        """Let go whoever waits; the part has no object then."""
        if self.path.is_fifo():
            writer = os.open(self.path, os.O_RDWR | os.O_NONBLOCK)
            self.path.unlink()
            os.close(writer)


@pytest.fixture
def held(file_parts: Parts, tmp_path: Path) -> Iterator[Pipe]:
    key = f"{file_parts.prefix}in-held.parquet"
    pipe = Pipe(tmp_path / "store" / key, key)
    pipe.path.parent.mkdir(parents=True)
    os.mkfifo(pipe.path)
    # A reader that should have been killed fails the test instead of stopping it for ever.
    hung = threading.Timer(HUNG_SECONDS, pipe.release)
    hung.daemon = True
    hung.start()
    yield pipe
    hung.cancel()
    pipe.release()


def test_results_come_while_other_groups_still_run(
    spark: SparkSession, file_parts: Parts, held: Pipe
) -> None:
    quick = file_parts.put([1], [2])
    order = []
    tasks = [file_parts.task(0, [*quick, held.key]), file_parts.task(1, quick)]
    for result in file_parts.engine(spark).run(tasks):
        order.append(result and result.group)
        if 1 in order and order[-1] is None:  # heard while the other one still runs
            held.release()
    assert order.index(1) < order.index(0)
    assert None in order[order.index(1) :]


def holders(lock: Path) -> list[int]:
    """Processes that hold a lock file."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if any(link.resolve() == lock for link in (process / "fd").iterdir()):
                found.append(int(process.name))
    return found


class Killer:
    """Kills the Python worker that waits for the held part of its group, the last of seven.

    Args:
        scratch: of the workers.
        times: how often.
        before: called before each kill.
    """

    def __init__(
        self, scratch: Path, times: int, before: Callable[[], object] = lambda: None
    ) -> None:
        self.kills = 0
        self._scratch, self._times, self._before = scratch, times, before
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Killer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(POLL_SECONDS) and self.kills < self._times:
            for staged in self._scratch.glob("*/000005.parquet"):
                self._kill_holder(Path(f"{staged.parent}.lock"))

    def _kill_holder(self, lock: Path) -> None:
        for process in holders(lock):
            self._before()
            os.kill(process, signal.SIGKILL)
            self.kills += 1
            lock.unlink()


def test_a_group_whose_worker_is_killed_once_is_done_again(
    spark: SparkSession, file_parts: Parts, held: Pipe, tmp_path: Path
) -> None:
    *keys, last = file_parts.put(*[[n, 10 + n] for n in range(7)])
    task = file_parts.task(0, [*keys, held.key])

    def arrives() -> None:
        (tmp_path / "store" / last).replace(held.path)

    with Killer(file_parts.scratch, 1, arrives) as killer:
        results = collect(file_parts.engine(spark).run([task]))
    assert killer.kills == 1
    assert file_parts.values(results[0]) == [*range(7), *range(10, 17)]


def test_a_group_that_kills_every_worker_is_reported_and_the_others_are_done(
    spark: SparkSession, file_parts: Parts, held: Pipe
) -> None:
    good = file_parts.put([2], [1])
    poison = [*file_parts.put(*[[n] for n in range(6)]), held.key]
    tasks = [
        sized(file_parts, 1, poison, 1) if n == 1 else sized(file_parts, n, good, 10)
        for n in range(16)
    ]
    shared = next(b.tasks for b in batches(tasks, slots=2) if tasks[1] in b.tasks)
    assert len(shared) == 2, "the poison takes a neighbour with it the first time"
    with Killer(file_parts.scratch, 99) as killer:
        results = collect(file_parts.engine(spark).run(tasks))
    assert killer.kills >= 2
    assert results[1].error_type == "KernelError"
    assert "group 1" in str(results[1].error)
    assert "Traceback" not in str(results[1].error)
    assert sorted(results) == list(range(16))
    assert {n for n, result in results.items() if result.error is not None} == {1}


def test_leaving_the_results_cancels_what_still_runs_and_what_waits(
    spark: SparkSession, file_parts: Parts, held: Pipe
) -> None:
    keys = [*file_parts.put([2], [1]), held.key]
    results = file_parts.engine(spark).run([file_parts.task(n, keys) for n in range(5)])
    assert next(results) is None
    assert wait_until(lambda: bool(locked(file_parts)), HUNG_SECONDS, POLL_SECONDS)
    results.close()  # type: ignore[attr-defined] # a generator, which Iterator does not say
    assert wait_until(lambda: not locked(file_parts), HUNG_SECONDS, POLL_SECONDS)
    assert held.path.is_fifo(), "nobody let them go"
    assert not file_parts.outputs()


def locked(parts: Parts) -> list[Path]:
    """Scratch folders with a worker at work."""
    return [lock for lock in parts.scratch.glob("*.lock") if holders(lock)]


def test_a_table_that_executors_may_not_reach_is_an_error_of_its_groups(
    spark: SparkSession, file_parts: Parts
) -> None:
    keys = file_parts.put([1], [2])
    lost = Parts("file:///nowhere/at/all/table", None, file_parts.scratch)
    (result,) = collect(lost.engine(spark).run([lost.task(0, keys)])).values()
    assert result.error_type in {"PartGoneError", "StoreAccessError", "KernelError"}
    assert result.error_next_step
