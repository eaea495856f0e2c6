"""As many jobs at a time as there are slots, and as the driver's memory allows."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

from firnline.kernel.batches import MOST_GROUPS, Batch
from firnline.kernel.task import KernelResult, KernelTask
from firnline.spark.capacity import JOB_BYTES, Capacity
from firnline.spark.under_way import UnderWay
from tests.kernel.test_batches import MIB, tasks
from tests.support.programs import HUNG_SECONDS

LARGE = 512 * MIB
"""Bytes of a group that is alone in its job."""
GIB = 2**30


def done(batch: Batch) -> list[KernelResult]:
    return [KernelResult(group=task.group) for task in batch.tasks]


@dataclass
class Cluster:
    """Runs jobs that end when they are let go; counts those that run at a time."""

    running: int = 0
    most: int = 0
    ran: list[int] = field(default_factory=list)
    """Groups, in the order of their jobs' begins."""
    _go: threading.Event = field(default_factory=threading.Event)
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def run(self, batch: Batch) -> list[KernelResult]:
        with self._changed:
            self.running += 1
            self.most = max(self.most, self.running)
            self.ran += [task.group for task in batch.tasks]
            self._changed.notify_all()
        assert self._go.wait(HUNG_SECONDS)
        with self._changed:
            self.running -= 1
        return done(batch)

    def wait_for(self, running: int) -> bool:
        """Wait until at least so many jobs run at the same time."""
        with self._changed:
            return self._changed.wait_for(lambda: self.running >= running, HUNG_SECONDS)

    def let_go(self) -> None:
        self._go.set()


@contextmanager
def under_way(
    found: list[KernelTask], capacity: Capacity, run: Callable[[Batch], list[KernelResult]]
) -> Iterator[UnderWay]:
    jobs = UnderWay(found, capacity, run)
    try:
        yield jobs
    finally:
        jobs.stop(lambda: None)


def groups(jobs: UnderWay) -> list[int]:
    """Hear of all jobs; return the groups of their results, sorted."""
    results = []
    while jobs.left:
        heard = jobs.heard(HUNG_SECONDS)
        assert heard is not None
        results += heard[0].result()
    return sorted(result.group for result in results)


@pytest.mark.long
def test_200_slots_run_200_groups_at_the_same_time() -> None:
    cluster = Cluster()
    with under_way(tasks(*[LARGE] * 200), Capacity(200, GIB), cluster.run) as jobs:
        assert cluster.wait_for(200)
        cluster.let_go()
        assert groups(jobs) == list(range(200))
    assert cluster.most == 200


@pytest.mark.long
@pytest.mark.parametrize(
    # With the part that it reads, a job takes more than JOB_BYTES.
    ("capacity", "most"),
    [(Capacity(40, GIB), 50), (Capacity(200, 8 * JOB_BYTES), 7)],
)
def test_slots_and_memory_bound_what_runs(capacity: Capacity, most: int) -> None:
    cluster = Cluster()
    with under_way(tasks(*[LARGE] * 200), capacity, cluster.run) as jobs:
        assert cluster.wait_for(most)
        cluster.let_go()
        assert groups(jobs) == list(range(200))
    assert cluster.most == most


@pytest.mark.long
def test_slots_that_come_later_are_used_and_small_groups_spread_over_them() -> None:
    cluster = Cluster()
    first = 32 * MOST_GROUPS
    with under_way(tasks(*[100] * (first + 288)), Capacity(2, GIB), cluster.run) as jobs:
        assert cluster.wait_for(32)
        assert len(cluster.ran) == first, "few slots: many groups in a job"
        jobs.resize(Capacity(200, GIB))
        assert cluster.wait_for(250)
        cluster.let_go()
        assert groups(jobs) == list(range(first + 288))


def test_a_job_that_ends_makes_room_whatever_the_caller_does() -> None:
    turns = threading.Semaphore(0)
    began = threading.Semaphore(0)

    def run(batch: Batch) -> list[KernelResult]:
        began.release()
        assert turns.acquire(timeout=HUNG_SECONDS)
        return done(batch)

    with under_way(tasks(*[LARGE] * 3), Capacity(1, JOB_BYTES + 1024), run) as jobs:
        for _ in range(3):  # the caller hears of none of them
            assert began.acquire(timeout=HUNG_SECONDS)
            turns.release()
        assert groups(jobs) == [0, 1, 2]


def test_what_is_tried_again_runs_before_what_waits() -> None:
    order: list[tuple[int, int]] = []

    def run(batch: Batch) -> list[KernelResult]:
        order.append((batch.tasks[0].group, batch.tries))
        return done(batch)

    held = threading.Event()

    def first(batch: Batch) -> list[KernelResult]:
        if not order:
            order.append((batch.tasks[0].group, batch.tries))
            raise RuntimeError
        assert held.wait(HUNG_SECONDS)
        return run(batch)

    with under_way(tasks(*[LARGE] * 4), Capacity(1, JOB_BYTES + 1024), first) as jobs:
        heard = jobs.heard(HUNG_SECONDS)
        assert heard is not None
        assert isinstance(heard[0].exception(), RuntimeError)
        jobs.again([Batch(heard[1].tasks, 1)])
        held.set()
        assert groups(jobs) == [0, 1, 2, 3]
    # The second was under way already.
    assert order == [(0, 0), (1, 0), (0, 1), (2, 0), (3, 0)]


@pytest.mark.long
def test_nothing_begins_after_the_end_and_what_began_is_cancelled_until_it_ends() -> None:
    cluster = Cluster()
    cancelled = 0

    def cancel() -> None:
        nonlocal cancelled
        cancelled += 1
        if cancelled == 2:
            cluster.let_go()
        raise RuntimeError("the session is gone")

    jobs = UnderWay(tasks(*[LARGE] * 64), Capacity(2, GIB), cluster.run)
    assert cluster.wait_for(32)
    jobs.stop(cancel)
    assert cancelled == 2
    assert len(cluster.ran) == 32
