"""Run groups in the tasks of a Spark application."""

from __future__ import annotations

import logging
import os
import sys
import tempfile
import zipfile
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakSet

import msgspec

from firnline.clock import Clock, SystemClock
from firnline.ids import Ids, SystemIds
from firnline.kernel.batches import Batch
from firnline.kernel.task import KernelResult, KernelTask
from firnline.settings.spark_conf import OPT_OUT
from firnline.spark import preflight
from firnline.spark.capacity import Capacity, capacity_of, capacity_of_server
from firnline.spark.executors import READING, SPLITTING
from firnline.spark.reasons import TASK_MEMORY, reason
from firnline.spark.tasks import collect, is_connect
from firnline.spark.under_way import UnderWay
from firnline.spark.worker import KernelFunction
from firnline.store.access import StoreAccess

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from firnline.operations.prepared.pieces import Compare

_LOG = logging.getLogger(__name__)
# Created before there are threads, as in ``footer_process``.
_RESULT = msgspec.json.Decoder(KernelResult).decode

HEARTBEAT_S = 1.0
_ASKED = 8
"""Tasks that check the executors of a Connect server, whose slots it takes a job to learn."""
_TRIES = 2
"""Jobs for a group whose task died. Spark has retried before; local masters do not."""


@dataclass(frozen=True, slots=True)
class SparkEngine:
    """Runs kernels in Spark tasks: on a local master, a cluster, a Connect server.

    Every few groups (one, if they are large) are a separate Spark job, so that their results
    arrive while others run and a failure stays theirs. All slots of the cluster are used: as many
    jobs are under way as it has slots, and a quarter more (at least 32) in Spark's queue, within
    half of ``spark.driver.memory`` at 1 MiB for each job and 1 KiB for each part that it reads:
    512 jobs with Spark's default of 1 GiB. A job is a thread here and one in the JVM. The number of
    slots is read again while jobs run; with dynamic allocation, memory alone is the bound.

    Attempts that died or lost a race leave objects without a marker, under names of their own; the
    orphan sweep deletes them.

    Args:
        session: classic or Connect.
        root: root URL of the table.
        access: credentials for the executors; None: the cloud's default chain on the executors.
        scratch: local folder on the executors; None: the disks that Spark gives them.
    """

    session: SparkSession
    root: str
    access: StoreAccess | None = None
    scratch: str | None = None
    ids: Ids = field(default_factory=SystemIds)
    clock: Clock = field(default_factory=SystemClock)

    @property
    def application_id(self) -> str:
        """Return Spark's id of the application, for the table's history."""
        return str(self.session.conf.get("spark.app.id", "") or "")

    @property
    def at_once(self) -> int:
        """Return the slots of the cluster. A Connect server, which takes a job to ask, says 1."""
        return 1 if is_connect(self.session) else self._capacity().slots

    def run(self, tasks: Sequence[KernelTask]) -> Iterator[KernelResult | None]:
        """Yield results as groups complete; None at least once a second while none does.

        A task whose process dies is retried alone, and then reported as a KernelError of its
        group. Closing the iterator cancels the jobs.

        Raises EnvironmentFaultError: the executors' Python is of no use, see ``preflight.check``.
        """
        self.prepare(needed(tasks))
        warn_of_cores(self.session, tasks)
        tag = f"firnline-{self.ids.uuid7(self.clock.now_ms())}"
        jobs = UnderWay(tasks, self._capacity(), lambda batch: self._job(batch, tag))
        try:
            while jobs.left:
                heard = jobs.heard(HEARTBEAT_S)
                self._resize(jobs)
                if heard is None:
                    yield None
                    continue
                results, again = _outcome(*heard)
                jobs.again(again)
                yield from results
        finally:
            jobs.stop(lambda: self._cancel(tag))

    def prepare(self, more: Collection[str] = ()) -> None:
        """Send firnline and check the executors' Python packages, once per session.

        Args:
            more: packages that the work needs besides those of every kernel.
        """
        distribute(self.session)
        slots = _ASKED if is_connect(self.session) else self._capacity().slots
        preflight.check(self.session, self.root, self.access, slots, more)

    def comparison(self) -> Compare:
        """Return what compares the rows of a prepared change in the executors' tasks.

        Raises EnvironmentFaultError: the executors' Python is of no use, see ``preflight.check``.
        """
        # Executors load this module for other work, too, and need not have what this one imports.
        from firnline.spark.comparison import comparison_by

        self.prepare({READING})
        return comparison_by(self.session, self.root, self.access, self.scratch, self.at_once)

    def _job(self, batch: Batch, tag: str) -> list[KernelResult]:
        """Run one Spark job of one task. Raises the errors of pyspark."""
        self._tag(tag)
        access = None if self.access is None else self.access.to_json()
        tasks = tuple(msgspec.json.encode(task) for task in batch.tasks)
        kernel = KernelFunction(tasks, self.root, access, self.scratch)
        return [_RESULT(text) for text in collect(self.session, kernel, len(tasks), 1)]

    def _tag(self, tag: str) -> None:
        """Tag the jobs of this thread as this engine's."""
        if is_connect(self.session):
            self.session.addTag(tag)
        else:
            # The session's own tags do not reach the job that toArrow starts (observed on 4.3.0).
            self.session.sparkContext.addJobTag(tag)

    def _cancel(self, tag: str) -> None:
        if is_connect(self.session):
            self.session.interruptTag(tag)
        else:
            self.session.sparkContext.cancelJobsWithTag(tag)

    def _capacity(self) -> Capacity:
        found = capacity_of_server if is_connect(self.session) else capacity_of
        return found(self.session)

    def _resize(self, jobs: UnderWay) -> None:
        """Use slots that came later. A Connect server is asked once: that takes a job."""
        if not is_connect(self.session):
            # A session that has failed is reported by its jobs.
            with suppress(Exception):
                jobs.resize(capacity_of(self.session))


def needed(tasks: Sequence[KernelTask]) -> frozenset[str]:
    """Return the packages that tasks need besides those of every kernel."""
    return frozenset({SPLITTING} if any(map(_splits, tasks)) else ())


def warn_of_cores(session: SparkSession, tasks: Sequence[KernelTask]) -> None:
    """Log, once, that a Connect server gives a task fewer cores than a kernel has threads.

    A server that runs already does not take settings of a session.
    """
    if not is_connect(session) or session in _warned:
        return
    threads = max((task.threads for task in tasks), default=1)
    cores = int(session.conf.get("spark.task.cpus", "1") or "1")
    if threads > cores:
        _warned.add(session)
        _LOG.warning(
            "merge.kernel_threads is %d, and a task of this Spark Connect server takes %d of its "
            "cores, so that tasks compete for them; start the server with --conf "
            "spark.task.cpus=%d",
            threads,
            cores,
            threads,
        )


_warned: WeakSet[SparkSession] = WeakSet()


def _splits(task: KernelTask) -> bool:
    """Return True if the task splits rows by partition, or hashes them for a proof or clusters."""
    if task.intake is not None:
        return bool(task.intake.partition_by)
    by_hash = task.cluster is not None and task.cluster.method == "hash"
    return bool(task.proof == "rows" or task.buckets or by_hash)


def _outcome(
    future: Future[list[KernelResult]], batch: Batch
) -> tuple[list[KernelResult], list[Batch]]:
    """Return the results of a job, and jobs to run again.

    Raises EnvironmentFaultError if an executor's Python is of no use: no part is at fault.
    """
    error = future.exception()
    if error is None:
        found = {result.group: result for result in future.result()}
        missing = [task for task in batch.tasks if task.group not in found]
        if not missing:
            return list(found.values()), []
        error = RuntimeError(f"{len(missing)} of {len(batch.tasks)} results did not come back")
    if not isinstance(error, Exception):
        raise error
    fault = preflight.fault_of(str(error))
    if fault is not None:
        # An executor that started later: every other group would fail too.
        raise fault from error
    if len(batch.tasks) > 1:
        # One of them may kill its process: the others must not run together with it again.
        return [], [Batch((task,), batch.tries + 1) for task in batch.tasks]
    if batch.tries + 1 < _TRIES:
        return [], [Batch(batch.tasks, batch.tries + 1)]
    return [_lost(batch.tasks[0], error)], []


def _lost(task: KernelTask, error: Exception) -> KernelResult:
    return KernelResult(
        group=task.group,
        error=f"the Spark task of group {task.group} (partition {task.partition!r}) died: "
        f"{reason(str(error) or type(error).__name__)}",
        error_type="KernelError",
        error_next_step=TASK_MEMORY,
    )


_distributed: WeakSet[SparkSession] = WeakSet()
_folders: list[tempfile.TemporaryDirectory[str]] = []


def distribute(session: SparkSession) -> None:
    """Send the package, once per session, unless tasks run in this very Python, which has it.

    The packages of ``firnline.spark.executors`` must be on the executors already.
    """
    # Executors load this module for other work, and pyspark is what they load last.
    from firnline.spark.versions import send_package

    if session in _distributed:
        return
    if preflight.is_local(session):
        use_this_python(session)
    wanted = str(session.conf.get(OPT_OUT, "true") or "true").lower()
    if wanted != "false" and not preflight.is_this_python(session):
        folder = tempfile.TemporaryDirectory(prefix="firnline-")
        # Executors that start later fetch it from here; the folder is deleted with this process.
        _folders.append(folder)
        send_package(session, zip_package(Path(folder.name)))
    _distributed.add(session)


def use_this_python(session: SparkSession) -> None:
    """Let the Python workers of a local master be this very Python, which has firnline.

    Spark's default is the first ``python3`` on the PATH: another one than this, unless this one's
    environment is activated. A Python that somebody chose stays.
    """
    context = session.sparkContext
    chosen = os.environ.get("PYSPARK_PYTHON") or context.getConf().get("spark.pyspark.python")
    if not chosen:
        context.pythonExec = sys.executable


def zip_package(folder: Path) -> Path:
    """Write the package into an importable zip file."""
    import firnline

    package = Path(firnline.__file__).parent
    target = folder / "firnline.zip"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(package.rglob("*.py")):
            archive.write(path, path.relative_to(package.parent))
    return target
