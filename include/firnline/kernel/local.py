"""Merge groups in threads of this process: the command line without Spark, and small tables."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path

from firnline.clock import Clock
from firnline.ids import Ids
from firnline.kernel.merge import merge_group
from firnline.kernel.task import KernelResult, KernelTask
from firnline.store.base import Store

TICK_S = 1.0
"""Seconds without a result after which the caller gets None (``Engine.run``)."""


@dataclass(frozen=True, slots=True)
class LocalEngine:
    """Runs kernels in threads; DuckDB works outside Python's lock.

    Args:
        open_store: opens a separate store for every task, so that requests are counted by task.
        scratch: local folder for staging and spilling.
        ids: source of the outputs' names.
        clock: source of dates and durations.
        parallel: number of concurrent tasks; memory is ``parallel`` x ``kernel_memory``.
    """

    open_store: Callable[[], Store]
    scratch: Path
    ids: Ids
    clock: Clock
    parallel: int = 1

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

        def one(task: KernelTask) -> KernelResult:
            store = self.open_store()
            return merge_group(task, store, self.scratch, self.ids, self.clock, stop.is_set)

        with ThreadPoolExecutor(self.parallel, "firnline-kernel") as pool:
            try:
                waiting: set[Future[KernelResult]] = {pool.submit(one, task) for task in tasks}
                while waiting:
                    done, waiting = wait(waiting, TICK_S, FIRST_COMPLETED)
                    yield from (future.result() for future in done)
                    if not done:
                        yield None
            finally:
                stop.set()
                pool.shutdown(wait=True, cancel_futures=True)
