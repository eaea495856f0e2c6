"""Groups over the tasks of a Spark application."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from firnline.clock import Clock, SystemClock
from firnline.ids import Ids, SystemIds
from firnline.kernel.task import KernelResult, KernelTask
from firnline.spark import preflight
from firnline.spark.batches import Bunch, bunches
from firnline.spark.distribute import is_connect, ship
from firnline.spark.worker import RESULT_SCHEMA, KernelFunction
from firnline.store.access import StoreAccess

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Made before there are threads, as in ``footer_process``.
_RESULT = msgspec.json.Decoder(KernelResult).decode

HEARTBEAT_S = 1.0
JOBS = 32
"""Spark jobs under way: what does not fit the cluster waits in Spark's own queue."""
_UNKNOWN_SLOTS = 8
"""Tasks at a time to plan with where a server does not say."""
_TRIES = 2
"""Jobs for a group whose task died. Spark has tried it by itself before; local masters do not."""
_REASONS = (
    re.compile(r"^.*(Python worker exited unexpectedly.*)$", re.MULTILINE),
    re.compile(r"^.*Reason: (.*)$", re.MULTILINE),  # a lost executor
    re.compile(r"^\s*(\w+(?:Error|Exception): \S.*)$", re.MULTILINE),  # Python's
    re.compile(r"^Caused by: (?:[\w.$]+: )?(.*)$", re.MULTILINE),
)


@dataclass(frozen=True, slots=True)
class SparkEngine:
    """Runs kernels in Spark tasks, through ``mapInArrow``: on a local master, a cluster, Connect.

    Every few groups (one, when they are large) are a Spark job of their own, so that their results
    come while others run and a failure stays theirs. Attempts that died or lost a race leave
    objects without a marker, under names of their own: the orphan sweep's business.

    Args:
        session: classic or Connect.
        root: root URL of the table.
        access: credentials for the executors; None: the usual chain, asked there.
        scratch: local folder on the executors; None for the disks Spark gives them.
    """

    session: SparkSession
    root: str
    access: StoreAccess | None = None
    scratch: str | None = None
    ids: Ids = field(default_factory=SystemIds)
    clock: Clock = field(default_factory=SystemClock)

    @property
    def application_id(self) -> str:
        """Spark's name of the application, for the table's history."""
        return str(self.session.conf.get("spark.app.id", "") or "")

    def run(self, tasks: Sequence[KernelTask]) -> Iterator[KernelResult | None]:
        """Results as groups complete; None at least once a second while none does.

        A task whose process dies is tried again, alone, and then reported as a KernelError of its
        group. Closing the iterator cancels the jobs.

        Raises EnvironmentFaultError: executors lack a Python module, see ``preflight.check``.
        """
        self.prepare()
        tag = f"firnline-{self.ids.uuid7(self.clock.now_ms())}"
        pool = ThreadPoolExecutor(JOBS, "firnline-spark")
        under_way = {
            pool.submit(self._job, bunch, tag): bunch for bunch in bunches(tasks, self._slots())
        }
        try:
            while under_way:
                done, _ = wait(under_way, HEARTBEAT_S, FIRST_COMPLETED)
                for future in done:
                    bunch = under_way.pop(future)
                    results, again = _outcome(future, bunch)
                    for retry in again:
                        under_way[pool.submit(self._job, retry, tag)] = retry
                    yield from results
                if not done:
                    yield None
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            if under_way:
                # Best effort: the session may be what failed.
                with suppress(Exception):
                    self._cancel(tag)
            pool.shutdown(wait=True)

    def prepare(self) -> None:
        """Send the package and ask the executors for the modules they need, once a session."""
        ship(self.session)
        preflight.check(self.session, self.root, self.access, self._slots())

    def _job(self, bunch: Bunch, tag: str) -> list[KernelResult]:
        """One Spark job of one task. Raises whatever pyspark does."""
        self._tag(tag)
        access = None if self.access is None else self.access.to_json()
        tasks = tuple(msgspec.json.encode(task) for task in bunch.tasks)
        kernel = KernelFunction(tasks, self.root, access, self.scratch)
        numbers = self.session.range(0, len(tasks), 1, numPartitions=1)
        found = numbers.mapInArrow(kernel, RESULT_SCHEMA).toArrow()
        return [_RESULT(text) for text in found["result"].to_pylist()]

    def _tag(self, tag: str) -> None:
        """Mark the jobs of this thread as ours."""
        if is_connect(self.session):
            self.session.addTag(tag)
        else:
            # The session's own tags do not reach the job that toArrow starts (seen on 4.3.0).
            self.session.sparkContext.addJobTag(tag)

    def _cancel(self, tag: str) -> None:
        if is_connect(self.session):
            self.session.interruptTag(tag)
        else:
            self.session.sparkContext.cancelJobsWithTag(tag)

    def _slots(self) -> int:
        if is_connect(self.session):
            return _UNKNOWN_SLOTS
        slots: int = self.session.sparkContext.defaultParallelism
        return max(1, slots)


def _outcome(
    future: Future[list[KernelResult]], bunch: Bunch
) -> tuple[list[KernelResult], list[Bunch]]:
    """What came of a job: results, and jobs to run again.

    Raises EnvironmentFaultError for a module that an executor lacks: no part is at fault.
    """
    error = future.exception()
    if error is None:
        found = {result.group: result for result in future.result()}
        missing = [task for task in bunch.tasks if task.group not in found]
        if not missing:
            return list(found.values()), []
        error = RuntimeError(f"{len(missing)} of {len(bunch.tasks)} results did not come back")
    if not isinstance(error, Exception):
        raise error
    fault = preflight.missing_module(str(error))
    if fault is not None:
        # An executor that came later: every other group would fail of it, too.
        raise fault from error
    if len(bunch.tasks) > 1:
        # One of them may kill its process: the others shall not be tried together with it again.
        return [], [Bunch((task,), bunch.tries + 1) for task in bunch.tasks]
    if bunch.tries + 1 < _TRIES:
        return [], [Bunch(bunch.tasks, bunch.tries + 1)]
    return [_lost(bunch.tasks[0], error)], []


def _lost(task: KernelTask, error: Exception) -> KernelResult:
    return KernelResult(
        group=task.group,
        error=f"the Spark task of group {task.group} (partition {task.partition!r}) died: "
        f"{reason(str(error) or type(error).__name__)}",
        error_type="KernelError",
        error_next_step="read the executor's log; if it ran out of memory, give executors "
        "1.3 x merge.kernel_memory per task outside the JVM (spark.executor.memoryOverhead)",
    )


def reason(text: str) -> str:
    """Of Spark's many lines the one that says why: what was found deepest down."""
    for pattern in _REASONS:
        found = [line.strip() for line in pattern.findall(text) if line.strip()]
        if found:
            return str(found[-1])[:300].rstrip(".:")
    first = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return first[:300].rstrip(".:") or "Spark does not say why"
