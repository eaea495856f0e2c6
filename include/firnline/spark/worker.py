"""The code that runs inside a Spark task: a kernel. Imports no pyspark."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from firnline.clock import SystemClock
from firnline.ids import SystemIds
from firnline.kernel.merge import merge_group
from firnline.kernel.task import KernelResult, KernelTask
from firnline.store.access import StoreAccess
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
        """Merge one group, with a store and a scratch folder of its own."""
        access = StoreAccess.from_json(self.access) if self.access else None
        clock = SystemClock()
        store = open_store(self.root, access, clock=clock)
        return merge_group(task, store, scratch_of(self.scratch, task.group), SystemIds(), clock)


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
