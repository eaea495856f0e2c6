"""Interface of the engines that run merge kernels: this process, Spark, a simulation."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol, runtime_checkable

from firnline.kernel.task import KernelResult, KernelTask


class Engine(Protocol):
    """Distributes groups over its workers."""

    @property
    def application_id(self) -> str:
        """The cluster's id of this run, for the history; empty without a cluster."""
        ...

    def run(self, tasks: Sequence[KernelTask]) -> Iterator[KernelResult | None]:
        """Yield results as groups complete, in any order, one per task.

        None at least once a second while nothing completes: the caller commits finished groups by
        the clock, and must not wait for the slowest group to do so. A group that fails is a result
        with an error; the others continue. Closing the iterator cancels unfinished groups.
        """
        ...


@runtime_checkable
class Parallel(Protocol):
    """An engine that says how many groups it works on at the same time."""

    @property
    def at_once(self) -> int:
        """The number of groups, at least 1; it may change while the engine runs."""
        ...


def at_once(engine: Engine) -> int:
    """Return how many groups an engine works on at the same time; 1 if it does not say."""
    return max(1, engine.at_once) if isinstance(engine, Parallel) else 1


@contextmanager
def running(engine: Engine, tasks: Sequence[KernelTask]) -> Iterator[Iterator[KernelResult | None]]:
    """Yield the iterator of ``Engine.run``; unfinished groups are stopped at the end or on error.

    Closed explicitly: an iterator that is only dropped lives as long as the error refers to it.
    """
    results = engine.run(tasks)
    try:
        yield results
    finally:
        if isinstance(results, Generator):
            results.close()
