"""Groups merged by threads of this process: the command line without Spark, and small tables."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

from firnline.clock import Clock
from firnline.ids import Ids
from firnline.kernel.merge import merge_group
from firnline.kernel.model import KernelResult, KernelTask
from firnline.store.base import Store


@dataclass(frozen=True, slots=True)
class LocalEngine:
    """Runs kernels in threads; DuckDB does its work outside Python's lock.

    Args:
        open_store: makes a store of its own for every task, so that requests are counted by task.
        scratch: local folder for staging and spilling.
        ids: names outputs.
        clock: dates and measures.
        parallel: tasks at a time; memory is ``parallel`` x ``kernel_memory``.
    """

    open_store: Callable[[], Store]
    scratch: Path
    ids: Ids
    clock: Clock
    parallel: int = 1

    def run(self, tasks: Sequence[KernelTask]) -> Iterator[KernelResult]:
        """Results as they complete. Leaving the iterator early stops what still runs."""
        stop = threading.Event()

        def one(task: KernelTask) -> KernelResult:
            store = self.open_store()
            return merge_group(task, store, self.scratch, self.ids, self.clock, stop.is_set)

        with ThreadPoolExecutor(self.parallel, "firnline-kernel") as pool:
            try:
                for future in as_completed([pool.submit(one, task) for task in tasks]):
                    yield future.result()
            finally:
                stop.set()
                pool.shutdown(wait=True, cancel_futures=True)
