"""The Spark jobs of one run: as many under way as there is capacity for, the others wait here."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from queue import Empty, SimpleQueue

from firnline.kernel.batches import Batch, batches
from firnline.kernel.task import KernelResult, KernelTask
from firnline.locks import lock_and_condition
from firnline.spark.capacity import Capacity, job_bytes

_CANCEL_S = 1.0
"""Seconds after which jobs that are to end are cancelled again: one may have begun meanwhile."""


class UnderWay:
    """Runs each batch in a thread, which waits for its Spark job.

    A job that ends makes room for the next at once, whatever the caller does meanwhile. The
    threads are as many as jobs under way, each with one more in the driver's JVM.

    Args:
        tasks: the groups, in the order of execution.
        capacity: its memory holds for the whole run.
        run: runs the job of a batch.
    """

    def __init__(
        self,
        tasks: Sequence[KernelTask],
        capacity: Capacity,
        run: Callable[[Batch], list[KernelResult]],
    ) -> None:
        self._run = run
        self._capacity = capacity
        self._waiting = deque(batches(tasks, capacity.slots))
        self._running = 0
        self._bytes = 0
        self._ended: SimpleQueue[tuple[Future[list[KernelResult]], Batch]] = SimpleQueue()
        self._unheard = 0
        self._lock, self._changed = lock_and_condition()
        self._pool = ThreadPoolExecutor(capacity.threads, "firnline-spark")
        with self._lock:
            self._fill()

    @property
    def left(self) -> int:
        """Return the number of jobs that wait, run, or have ended and not been heard of."""
        with self._lock:
            return len(self._waiting) + self._running + self._unheard

    def heard(self, seconds: float) -> tuple[Future[list[KernelResult]], Batch] | None:
        """Return a job that has ended, and its batch; None if none does within the time."""
        try:
            found = self._ended.get(timeout=seconds)
        except Empty:
            return None
        with self._lock:
            self._unheard -= 1
        return found

    def resize(self, capacity: Capacity) -> None:
        """Adapt to a cluster that has got or lost slots: what waits is cut anew."""
        with self._lock:
            if capacity.slots != self._capacity.slots:
                tried = [batch for batch in self._waiting if batch.tries]
                fresh = [task for batch in self._waiting if not batch.tries for task in batch.tasks]
                self._waiting = deque([*tried, *batches(fresh, capacity.slots)])
            self._capacity = capacity
            self._fill()

    def again(self, failed: Sequence[Batch]) -> None:
        """Run batches before those that wait."""
        with self._lock:
            self._waiting.extendleft(reversed(failed))
            self._fill()

    def stop(self, cancel: Callable[[], None]) -> None:
        """Start no further job, cancel those under way, and wait for their end.

        Args:
            cancel: cancels the jobs that have begun; its errors are not those of the run.
        """
        with self._lock:
            self._waiting.clear()
        while self._running:
            # Best effort: the session itself may have failed.
            with suppress(Exception):
                cancel()
            with self._lock:
                self._changed.wait_for(lambda: not self._running, _CANCEL_S)
        self._pool.shutdown(wait=True)

    def _fill(self) -> None:
        """Start jobs while there is room; the lock is held."""
        while self._waiting and self._fits(self._waiting[0]):
            batch = self._waiting.popleft()
            self._running += 1
            self._bytes += job_bytes(batch)
            self._pool.submit(self._work, batch)

    def _fits(self, batch: Batch) -> bool:
        if not self._running:
            return True
        room = self._capacity.memory - self._bytes
        return self._running < self._capacity.jobs and job_bytes(batch) <= room

    def _work(self, batch: Batch) -> None:
        future: Future[list[KernelResult]] = Future()
        try:
            future.set_result(self._run(batch))
        except BaseException as error:  # noqa: BLE001 -- raised again by whoever asks the future
            future.set_exception(error)
        with self._lock:
            self._running -= 1
            self._bytes -= job_bytes(batch)
            self._unheard += 1
            self._ended.put((future, batch))
            self._fill()
            self._changed.notify_all()
