from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from firnline.kernel.batches import Batch
from firnline.kernel.task import KernelResult
from firnline.spark import engine as module
from firnline.spark import preflight
from firnline.spark.capacity import JOB_BYTES, Capacity, capacity_of, job_bytes
from firnline.spark.engine import SparkEngine
from firnline.spark.worker import KernelFunction
from tests.kernel.test_batches import MIB, tasks
from tests.support.programs import HUNG_SECONDS

GIB = 2**30


@dataclass
class Context:
    """As much of a Spark context as a capacity takes."""

    defaultParallelism: int = 8  # noqa: N815 -- Spark's
    conf: dict[str, str] = field(default_factory=dict)

    @property
    def sparkContext(self) -> Context:  # noqa: N802 -- a session and its context in one
        return self

    def getConf(self) -> dict[str, str]:  # noqa: N802
        return self.conf


def capacity(slots: int = 8, **conf: str) -> Capacity:
    session: Any = Context(slots, {name.replace("_", "."): text for name, text in conf.items()})
    return capacity_of(session)


def test_every_slot_has_a_job_and_a_quarter_more_wait() -> None:
    assert capacity(200).jobs == 250
    assert capacity(2).jobs == 32, "executors that come later find work"


def test_a_task_of_several_cores_takes_several_slots() -> None:
    assert capacity(200, spark_task_cpus="4").slots == 50
    assert capacity(1, spark_task_cpus="4").slots == 1


@pytest.mark.parametrize(
    ("memory", "jobs"), [("", 512), ("2g", 1024), ("600m", 300), ("512", 256), ("65536k", 32)]
)
def test_half_of_the_drivers_memory_bounds_the_jobs(memory: str, jobs: int) -> None:
    conf = {"spark_driver_memory": memory} if memory else {}
    assert capacity(10_000, **conf).jobs == jobs


def test_a_cluster_that_grows_for_waiting_tasks_is_bounded_by_memory_alone() -> None:
    assert capacity(2, spark_dynamicAllocation_enabled="true").jobs == 512


def test_a_job_of_many_parts_takes_more_memory() -> None:
    (one,) = tasks(1)
    assert job_bytes(Batch((one,))) == JOB_BYTES + 1024
    assert job_bytes(Batch((one,) * 1024)) == 2 * JOB_BYTES


def test_some_job_runs_however_little_memory_there_is() -> None:
    assert Capacity(slots=4, memory=0).jobs == Capacity(slots=4, memory=0).threads == 1
    assert Capacity(slots=4, memory=GIB).threads == 1024


@dataclass(eq=False)
class Cluster(Context):
    """A session on a cluster whose jobs end once they are as many as its slots."""

    together: threading.Barrier = field(default_factory=lambda: threading.Barrier(1))
    tags: list[str] = field(default_factory=list)

    def addJobTag(self, tag: str) -> None:  # noqa: N802
        self.tags.append(tag)

    def parallelize(self, _numbers: range, tasks: int) -> Cluster:
        assert tasks == 1
        return self

    def flatMap(self, function: KernelFunction) -> Job:  # noqa: N802 -- Spark's
        return Job(self.together, function)


@dataclass
class Job:
    together: threading.Barrier
    function: KernelFunction

    def collect(self) -> list[str]:
        self.together.wait(HUNG_SECONDS)
        groups = [msgspec.json.decode(task)["group"] for task in self.function.tasks]
        return [msgspec.json.encode(KernelResult(group=group)).decode() for group in groups]


@pytest.mark.long
def test_an_engine_on_200_slots_has_200_spark_jobs_at_the_same_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "distribute", lambda _: None)
    monkeypatch.setattr(preflight, "check", lambda *_: None)
    # A barrier of 200 lets nobody go before the last of them is there.
    session: Any = Cluster(200, together=threading.Barrier(200))
    results = SparkEngine(session, "file:///t").run(tasks(*[500 * MIB] * 400))
    assert sorted(r.group for r in results if r is not None) == list(range(400))
    assert len(set(session.tags)) == 1
    assert len(session.tags) == 400
