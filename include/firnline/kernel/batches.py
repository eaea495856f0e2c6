"""Combine groups into batches, each of which one worker of an engine merges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from firnline.kernel.task import KernelTask

_BATCH_BYTES = 32 * 2**20
MOST_GROUPS = 64
"""A job costs 20 to 100 ms beyond its work (RFC 15), a small group 3 to 5: small ones share one."""
_ROUNDS = 4
"""Minimum number of jobs per slot, so that no slot waits long for another's last job."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Groups that one worker merges."""

    tasks: tuple[KernelTask, ...]
    tries: int = 0


def batches(tasks: Sequence[KernelTask], slots: int) -> list[Batch]:
    """Combine neighbouring groups into batches, more of them if they are small, within limits.

    Args:
        tasks: in the order of execution.
        slots: number of concurrent tasks.
    """
    sizes = [sum(source.bytes for source in task.inputs) for task in tasks]
    most_bytes = min(_BATCH_BYTES, sum(sizes) // (slots * _ROUNDS))
    most_groups = min(MOST_GROUPS, -(-len(tasks) // (slots * _ROUNDS)))
    found: list[Batch] = []
    gathered: list[KernelTask] = []
    total = 0
    for task, size in zip(tasks, sizes, strict=True):
        if gathered and (total + size > most_bytes or len(gathered) >= most_groups):
            found.append(Batch(tuple(gathered)))
            gathered, total = [], 0
        gathered.append(task)
        total += size
    return [*found, Batch(tuple(gathered))] if gathered else found
