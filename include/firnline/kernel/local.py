"""Merge groups on this machine: the command line without Spark, and small tables.

In threads of this process, since DuckDB and Arrow work outside of Python's lock; many small groups
in processes (``kernel.beside``).
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from queue import LifoQueue
from typing import Self

from firnline.clock import Clock
from firnline.cores import Cores
from firnline.ids import Ids
from firnline.kernel.batches import batches
from firnline.kernel.beside.process import END_S, FROM_GROUPS, Beside, Process
from firnline.kernel.merge import merge_in
from firnline.kernel.small import PER_KERNEL, is_small
from firnline.kernel.task import KernelResult, KernelTask
from firnline.kernel.workplace import Workplace
from firnline.store.base import Store

TICK_S = 1.0
"""Seconds without a result after which the caller gets None (``Engine.run``)."""


@dataclass(frozen=True, slots=True)
class LocalEngine:
    """Runs kernels in threads; DuckDB works outside Python's lock.

    Args:
        open_store: opens a separate store for each of the concurrent tasks, so that requests are
            counted by task.
        scratch: local folder for staging and spilling.
        ids: source of the outputs' names.
        clock: source of dates and durations.
        parallel: number of concurrent tasks; memory is ``parallel`` x ``kernel_memory``. Of small
            groups (``kernel.small``) ``PER_KERNEL`` are merged in place of one task.
        cores: cores for all of them, at least ``parallel``: those that no task needs help the
            others (``kernel.columns``).
        beside: what a process needs to merge groups; None: none is started.
    """

    open_store: Callable[[], Store]
    scratch: Path
    ids: Ids
    clock: Clock
    parallel: int = 1
    cores: int = 1
    beside: Beside | None = None

    @property
    def application_id(self) -> str:
        """Return an empty string: there is no cluster."""
        return ""

    @property
    def at_once(self) -> int:
        """Return the number of threads."""
        return self.parallel

    def run(self, tasks: Sequence[KernelTask]) -> Iterator[KernelResult | None]:
        """Run the tasks; see ``Engine.run``. Closing the iterator early stops running tasks."""
        stop = threading.Event()
        threads, cores = self.parallel * PER_KERNEL, Cores(max(self.cores, self.parallel))
        waiting, running = self._jobs(tasks), dict[Future[list[KernelResult]], int]()
        ended = 0
        with _Workers(self, cores, stop.is_set) as workers:
            pool = ThreadPoolExecutor(threads, "firnline-kernel")
            try:
                while waiting or running:
                    free = threads - sum(running.values())
                    while waiting and waiting[0].shares <= free:
                        job = waiting.popleft()
                        cores.take(job.shares / PER_KERNEL)
                        running[pool.submit(workers.merge, job)] = job.shares
                        free -= job.shares
                    # Not before: what is under way would take cores that the next ones need.
                    cores.give_back(ended / PER_KERNEL)
                    done, _ = wait(running, TICK_S, FIRST_COMPLETED)
                    ended = sum(map(running.pop, done))
                    if not waiting:
                        cores.give_back(ended / PER_KERNEL)
                        ended = 0
                    for future in done:
                        yield from future.result()
                    if not done:
                        yield None
            finally:
                stop.set()
                with workers.ending():
                    pool.shutdown(wait=True, cancel_futures=True)

    def _jobs(self, tasks: Sequence[KernelTask]) -> deque[_Job]:
        """Return the tasks in their order, each by itself; many small ones in batches."""
        small = [is_small(task) for task in tasks]
        elsewhere = self.beside is not None and self.parallel > 1 and sum(small) >= FROM_GROUPS
        jobs: deque[_Job] = deque()
        for are_small, some in groupby(zip(tasks, small, strict=True), itemgetter(1)):
            these = [task for task, _ in some]
            if are_small and elsewhere:
                found = batches(these, self.parallel)
                jobs += (_Job(batch.tasks, PER_KERNEL, elsewhere=True) for batch in found)
            else:
                jobs += (_Job((task,), 1 if are_small else PER_KERNEL) for task in these)
        return jobs


@dataclass(frozen=True, slots=True)
class _Job:
    """What one thread does at a time."""

    tasks: tuple[KernelTask, ...]
    shares: int
    """How much of the memory of a kernel it takes, in parts of ``PER_KERNEL``."""
    elsewhere: bool = False
    """True if a process merges them."""


class _Workers:
    """What the threads of a run need, which one task after the other uses."""

    def __init__(self, engine: LocalEngine, cores: Cores, stopped: Callable[[], bool]) -> None:
        self._stopped = stopped
        # The last one first: it has a database, or has been started.
        self._here, self._processes = LifoQueue[_Worker](), LifoQueue[Process]()
        for _ in range(engine.parallel * PER_KERNEL):
            self._here.put(_Worker(engine, cores))
        beside = () if engine.beside is None else (engine.beside,) * engine.parallel
        self._all = [Process(each) for each in beside]
        for process in self._all:
            self._processes.put(process)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        while not self._here.empty():
            self._here.get().close()
        for process in self._all:
            process.close()

    @contextmanager
    def ending(self) -> Iterator[None]:
        """Kill the processes that take too long to end: one may be stopped, or wait for a store."""

        def kill() -> None:
            for process in self._all:
                process.kill()

        timer = threading.Timer(END_S, kill)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def merge(self, job: _Job) -> list[KernelResult]:
        """Merge the groups of a job; here those for which a process has ended."""
        if job.elsewhere:
            process = self._processes.get()
            try:
                results = process.merge(job.tasks)
            finally:
                self._processes.put(process)
            if results is not None:
                return results
        worker = self._here.get()
        try:
            return [worker.merge(task, self._stopped) for task in job.tasks]
        finally:
            self._here.put(worker)


class _Worker:
    """A store and a workplace, which one task after the other uses."""

    def __init__(self, engine: LocalEngine, cores: Cores) -> None:
        self._open_store = engine.open_store
        self._store: Store | None = None
        self._place = Workplace(engine.scratch, engine.ids, engine.clock, cores)

    def merge(self, task: KernelTask, stopped: Callable[[], bool]) -> KernelResult:
        if self._store is None:
            self._store = self._open_store()
        return merge_in(self._place, task, self._store, stopped)

    def close(self) -> None:
        self._place.close()
