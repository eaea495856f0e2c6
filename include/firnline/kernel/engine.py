"""What runs merge kernels: this process, a Spark application, a simulation."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from firnline.kernel.task import KernelResult, KernelTask


class Engine(Protocol):
    """Distributes groups over whatever it has."""

    @property
    def application_id(self) -> str:
        """What the cluster calls this run, for the history; empty without a cluster."""
        ...

    def run(self, tasks: Sequence[KernelTask]) -> Iterator[KernelResult | None]:
        """Results as groups complete, in any order, one per task.

        None at least once a second while nothing completes: the caller commits what is done so
        far by the clock, and must not wait for the slowest group to do so. A group that fails is
        a result with an error; the others go on. Closing the iterator cancels what still runs.
        """
        ...


@contextmanager
def running(engine: Engine, tasks: Sequence[KernelTask]) -> Iterator[Iterator[KernelResult | None]]:
    """Give ``Engine.run`` of these tasks; what still runs at the end, or at an error, is stopped.

    By then: an iterator that is only dropped is closed once nobody holds the error any more.
    """
    results = engine.run(tasks)
    try:
        yield results
    finally:
        if isinstance(results, Generator):
            results.close()
