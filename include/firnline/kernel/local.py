"""Merge groups in threads of this process: the command line without Spark, and small tables."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from queue import LifoQueue

from firnline.clock import Clock
from firnline.cores import Cores
from firnline.ids import Ids
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
    """

    open_store: Callable[[], Store]
    scratch: Path
    ids: Ids
    clock: Clock
    parallel: int = 1
    cores: int = 1

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
        workers = LifoQueue[_Worker]()  # the last one first: it has a database
        threads, cores = self.parallel * PER_KERNEL, Cores(max(self.cores, self.parallel))
        for _ in range(threads):
            workers.put(_Worker(self, cores))

        def one(task: KernelTask) -> KernelResult:
            worker = workers.get()
            try:
                return worker.merge(task, stop.is_set)
            finally:
                workers.put(worker)

        waiting, running = deque(tasks), dict[Future[KernelResult], int]()
        with ThreadPoolExecutor(threads, "firnline-kernel") as pool:
            try:
                while waiting or running:
                    free = threads - sum(running.values())
                    while waiting and (share := _shares(waiting[0])) <= free:
                        cores.take(share / PER_KERNEL)
                        running[pool.submit(one, waiting.popleft())] = share
                        free -= share
                    done, _ = wait(running, TICK_S, FIRST_COMPLETED)
                    for future in done:
                        cores.give_back(running.pop(future) / PER_KERNEL)
                    yield from (future.result() for future in done)
                    if not done:
                        yield None
            finally:
                stop.set()
                pool.shutdown(wait=True, cancel_futures=True)
                for _ in range(threads):
                    workers.get().close()


def _shares(task: KernelTask) -> int:
    """Return how much of the memory of a kernel a task takes, in parts of ``PER_KERNEL``."""
    return 1 if is_small(task) else PER_KERNEL


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
