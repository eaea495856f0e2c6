"""What runs merge kernels: this process, a Spark application, a simulation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from firnline.kernel.model import KernelResult, KernelTask


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
