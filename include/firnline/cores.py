"""Share the cores of a machine: work that can be split uses those that are idle.

Every piece of work has a core of its own. Where it can be split, it borrows idle ones, as soon as
there are any, and gives them back soon after other work has taken them: a single group of a merge
uses all cores, and of many each uses one.
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Generic, Self, TypeVar

Job = TypeVar("Job")
Done = TypeVar("Done")


@dataclass(slots=True)
class Cores:
    """The idle cores of a machine, or of one task of Spark.

    Args:
        idle: cores that nobody uses at the beginning; below 0 while more are used than there are.
    """

    idle: float = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _waiting: list[Callable[[], None]] = field(default_factory=list)

    def take(self, share: float = 1) -> None:
        """Use so many cores, idle or not, for new work."""
        with self._lock:
            self.idle -= share

    def give_back(self, share: float = 1) -> None:
        """Leave so many cores idle; work that waits for them takes them."""
        with self._lock:
            self.idle += share
            waiting = tuple(self._waiting)
        for offer in waiting:
            offer()

    @contextmanager
    def waiting(self, offer: Callable[[], None]) -> Iterator[None]:
        """Call ``offer`` whenever a core is given back, in the thread that does so."""
        with self._lock:
            self._waiting.append(offer)
        try:
            yield
        finally:
            with self._lock:
                self._waiting.remove(offer)

    def lend(self, work: Callable[[], object]) -> threading.Thread | None:
        """Do work on an idle core, in a thread that gives it back.

        Returns None, and does nothing, if there is no idle core, or the system starts no thread.
        """
        with self._lock:
            if self.idle < 1:
                return None
            self.idle -= 1
        thread = threading.Thread(target=self._lent, args=(work,), name="firnline-core")
        try:
            thread.start()
        except RuntimeError:  # it has no more: the work goes on without help
            with self._lock:
                self.idle += 1
            return None
        return thread

    def _lent(self, work: Callable[[], object]) -> None:
        try:
            work()
        finally:
            self.give_back()


def other_cores() -> Cores:
    """Return the cores of the machine but that of this thread."""
    return Cores((os.cpu_count() or 1) - 1)


class Aside(Generic[Done]):
    """Work that is done beside this thread if a core is idle, else once its result is wanted.

    A context manager: nothing of it is under way behind the block.

    Args:
        work: called once, or never.
        cores: lends the core.
    """

    def __init__(self, work: Callable[[], Done], cores: Cores) -> None:
        self._work = work
        self._cores = cores
        self._lock = threading.Lock()
        self._done: list[Done] = []
        self._error: BaseException | None = None
        self._thread: threading.Thread | None = None
        self._closed = False

    def __enter__(self) -> Self:
        try:
            self._thread = self._cores.lend(self._do)
        except BaseException:  # an interrupt: a thread may have started
            _though_interrupted(self._end)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        _though_interrupted(self._end)
        self._error = None  # its frames hold what the work held, and this

    def _end(self) -> None:
        if self._thread is not None:
            self._thread.join()
        with self._lock:  # held while the work is under way
            self._closed = True

    def result(self) -> Done:
        """Return what the work returns; raises what it raises. Any number of threads may ask."""
        if self._thread is not None:
            self._thread.join()
        self._do()
        if self._error is not None:
            raise self._error
        return self._done[0]

    def _do(self) -> None:
        with self._lock:
            if self._done or self._closed or self._error is not None:
                return
            try:
                self._done.append(self._work())
            except BaseException as error:  # noqa: BLE001 -- raised again for each that asks
                self._error = error


def _though_interrupted(wait: Callable[[], object]) -> None:
    """Wait to the end although an interrupt comes, which is raised then; a second one ends it."""
    try:
        wait()
    except BaseException:
        wait()
        raise


def side_by_side(
    jobs: Sequence[tuple[Job, int]],
    work: Callable[[Job], Done],
    cores: Cores,
    budget: int,
) -> list[Done]:
    """Do jobs in this thread, and in one more for each core that is idle; return their results.

    Args:
        jobs: each with the bytes of memory that it takes; begun in this order, as far as memory
            allows.
        work: does one job; called in several threads.
        cores: lends idle cores, also those that become idle while this runs.
        budget: bytes that all jobs under way may take. A job that takes more runs alone.

    Returns the results in the order of the jobs.

    Raises what ``work`` raises, the first one, or KeyboardInterrupt; then no further job is begun,
    and those under way are awaited.
    """
    return _Jobs(list(jobs), work, cores, budget).run()


class _Jobs(Generic[Job, Done]):
    """Jobs on their way.

    An interrupt may come between any two instructions of the thread that calls ``run``. So it
    enters only a plain lock, which is released then (a ``Condition`` enters its own by a function,
    at whose end the lock would stay), and waits by a queue.
    """

    def __init__(
        self,
        jobs: list[tuple[Job, int]],
        work: Callable[[Job], Done],
        cores: Cores,
        budget: int,
    ) -> None:
        self._jobs = jobs
        self._work = work
        self._cores = cores
        self._budget = budget
        self._waiting = list(range(len(jobs)))
        self._results: dict[int, Done] = {}
        self._error: BaseException | None = None
        self._under_way = 0
        self._held = 0
        self._helped: set[int] = set()
        """Jobs that helpers do now."""
        self._lock = threading.Lock()
        self._ends: queue.SimpleQueue[None] = queue.SimpleQueue()
        """Has something for each job that ends."""
        self._helpers: list[threading.Thread] = []

    def run(self) -> list[Done]:
        try:
            with self._cores.waiting(self._borrow):
                while (number := self._next()) is not None:
                    self._borrow()
                    self._do(number)
        finally:
            _though_interrupted(self._settle)
        # Its frames hold what the jobs held, and this: nothing keeps them once it is handled.
        error, self._error = self._error, None
        try:
            if error is not None:
                raise error
        finally:
            del error
        return [self._results[number] for number in range(len(self._jobs))]

    def _settle(self) -> None:
        """Begin no further job, and wait for those of helpers."""
        with self._lock:
            self._waiting.clear()
        while self._is_helped():  # also by one whose thread an interrupt kept from the list
            self._ends.get()
        for helper in self._helpers:
            helper.join()  # it gives its core back

    def _is_helped(self) -> bool:
        with self._lock:
            return bool(self._helped)

    def _borrow(self) -> None:
        """Begin jobs for which there is memory on the cores that are idle."""
        with self._lock:
            for _ in range(sum(map(self._fits, self._waiting))):
                helper = self._cores.lend(self._help)
                if helper is None:
                    return
                self._helpers.append(helper)

    def _help(self) -> None:
        while self._cores.idle >= 0 and (number := self._take(helps=True)) is not None:
            self._do(number)

    def _fits(self, number: int) -> bool:
        return not self._under_way or self._held + self._jobs[number][1] <= self._budget

    def _next(self) -> int | None:
        """Take the first job for which there is memory, once there is; None if none is left."""
        while (number := self._take(helps=False)) is None and self._waiting:
            self._ends.get()
        return number

    def _take(self, *, helps: bool) -> int | None:
        """Take the first job for which there is memory; None without one."""
        with self._lock:
            found = next(filter(self._fits, self._waiting), None)
            if found is not None:
                self._waiting.remove(found)
                self._under_way += 1
                self._held += self._jobs[found][1]
                if helps:
                    self._helped.add(found)
            return found

    def _do(self, number: int) -> None:
        job, size = self._jobs[number]
        try:
            self._results[number] = self._work(job)
        except BaseException as error:  # noqa: BLE001 -- raised again by ``run``, in its thread
            with self._lock:
                self._error = self._error or error
                self._waiting.clear()
        finally:
            with self._lock:
                self._under_way -= 1
                self._held -= size
                self._helped.discard(number)
            self._ends.put(None)
