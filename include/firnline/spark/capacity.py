"""Find the number of Spark jobs that a driver keeps under way: by slots and by its own memory."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from firnline.kernel.batches import Batch

JOB_BYTES = 2**20
"""Memory of the driver for one job under way, with its threads."""
PART_BYTES = 1024
"""Memory of the driver for one part that such a job reads: its name, in several copies."""
LEAST_JOBS = 32
"""Jobs under way on a cluster with fewer slots, which may get more while they wait in its queue."""
_SPARE = 4
"""One job in so many waits in Spark's queue, so that a slot that becomes free has the next one."""
_SHARE = 2
"""A driver's jobs under way may take one half of its memory."""
_DRIVER_BYTES = 2**30
"""Spark's default, and what a driver on a Connect server is assumed to have."""
_SIZE = re.compile(r"(\d+)\s*([kmgt]?)b?", re.IGNORECASE)
_UNITS = {"": 2**20, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
"""Of ``spark.driver.memory``; a number alone is MiB."""


@dataclass(frozen=True, slots=True)
class Capacity:
    """Bounds of the jobs under way: slots, and bytes of the driver."""

    slots: int
    """Number of tasks that the cluster runs at a time now."""
    memory: int
    """Bytes of the driver's memory for jobs under way."""
    grows: bool = False
    """The cluster adds executors for tasks that wait (dynamic allocation)."""

    @property
    def threads(self) -> int:
        """Return the maximum number of jobs under way that memory allows, at least 1."""
        return max(1, self.memory // JOB_BYTES)

    @property
    def jobs(self) -> int:
        """Return the maximum number of jobs under way."""
        wanted = max(LEAST_JOBS, self.slots + -(-self.slots // _SPARE))
        return self.threads if self.grows else min(wanted, self.threads)


def job_bytes(batch: Batch) -> int:
    """Return the driver's memory for a job under way."""
    return JOB_BYTES + PART_BYTES * sum(len(task.inputs) for task in batch.tasks)


def capacity_of(session: SparkSession) -> Capacity:
    """Return the present capacity of a classic session; starts no job."""
    context = session.sparkContext
    slots: int = context.defaultParallelism
    conf = context.getConf()
    cpus = int(conf.get("spark.task.cpus", "1") or "1")
    grows = str(conf.get("spark.dynamicAllocation.enabled", "false")).lower() == "true"
    memory = _bytes(conf.get("spark.driver.memory", "") or "")
    return Capacity(max(1, slots // cpus), memory // _SHARE, grows)


def capacity_of_server(session: SparkSession) -> Capacity:
    """Return the present capacity of a Connect server, in one job with a task for each slot."""
    from pyspark.sql import functions as sf

    # The server cuts a range by its number of slots.
    placed = session.range(0, 2**16).select(sf.spark_partition_id().alias("place"))
    last: int = placed.agg(sf.max("place").alias("last")).toArrow()["last"][0].as_py()
    return Capacity(last + 1, _DRIVER_BYTES // _SHARE)


def _bytes(text: str) -> int:
    """Return bytes of a size as Spark writes it; its default for what is none."""
    found = _SIZE.fullmatch(text.strip())
    return int(found[1]) * _UNITS[found[2].lower()] if found else _DRIVER_BYTES
