"""The code that runs inside a Spark task: a kernel. Imports no pyspark."""

from __future__ import annotations

import os
import tempfile
import threading
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from firnline.clock import SystemClock
from firnline.cores import Cores
from firnline.ids import SystemIds
from firnline.kernel.duckdb import never
from firnline.kernel.merge import merge_in
from firnline.kernel.task import KernelResult, KernelTask
from firnline.kernel.workplace import Workplace
from firnline.store.access import StoreAccess
from firnline.store.base import Store
from firnline.store.client import open_store


@dataclass(frozen=True)
class KernelFunction:
    """The function of a job (``spark.tasks``): takes a task's number, returns a result as JSON."""

    tasks: tuple[bytes, ...]
    """KernelTasks as JSON."""

    root: str
    """Root URL of the table."""
    access: str | None = field(repr=False)
    """``StoreAccess.to_json``; None: the executor's default chain."""
    scratch: str | None
    """Local folder; None: the disks that Spark gives the executor."""

    def __call__(self, number: int) -> list[str]:
        """Merge the group of this number."""
        result = self.run(msgspec.json.decode(self.tasks[number], type=KernelTask))
        return [msgspec.json.encode(result).decode()]

    def run(self, task: KernelTask) -> KernelResult:
        """Merge one group."""
        kept = _KEPT.of(self, task)
        return merge_in(kept.place, task, kept.store, never)


@dataclass(frozen=True, slots=True)
class _Tools:
    """The store of a table, and a workplace for its groups."""

    store: Store
    place: Workplace


class _Kept(threading.local):
    """The tools of the last group of a thread: Spark's Python workers live on between tasks."""

    def __init__(self) -> None:
        self._of: tuple[str, str | None, str | None, int] | None = None
        self._tools: _Tools | None = None

    def of(self, function: KernelFunction, task: KernelTask) -> _Tools:
        """Return the tools for the table of a group: those of the last group, or new ones."""
        wanted = function.root, function.access, function.scratch, task.threads
        if self._tools is None or self._of != wanted:
            if self._tools is not None:
                self._tools.place.close()
            access = StoreAccess.from_json(function.access) if function.access else None
            store = open_store(function.root, access, clock=SystemClock())
            scratch = scratch_of(function.scratch, task.group)
            cores = Cores(task.threads - 1)  # those that Spark gives a task (settings.spark_conf)
            self._tools = _Tools(store, Workplace(scratch, SystemIds(), SystemClock(), cores))
            self._of = wanted
        return self._tools


_KEPT = _Kept()


def scratch_of(scratch: str | None, number: int) -> Path:
    """Return the local folder for a task.

    Args:
        scratch: as the user wants it; None: the disks that Spark gives the executor.
        number: of the task: several disks are used in turn.
    """
    if scratch is not None:
        return Path(scratch)
    # Set by Spark in every Python worker.
    disks = [disk for disk in os.environ.get("SPARK_LOCAL_DIRS", "").split(",") if disk]
    disk = disks[number % len(disks)] if disks else tempfile.gettempdir()
    return Path(disk) / "firnline"
