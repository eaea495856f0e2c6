"""How groups are put into Spark jobs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from firnline.kernel.task import KernelTask

_BUNCH_BYTES = 32 * 2**20
_BUNCH_GROUPS = 16
"""A job costs about 0.1 s beyond its work: small groups share one, large ones are alone."""
_ROUNDS = 4
"""Jobs per slot at least, so that no slot waits long for the last job of another."""


@dataclass(frozen=True, slots=True)
class Bunch:
    """Groups that one Spark task merges, one after the other."""

    tasks: tuple[KernelTask, ...]
    tries: int = 0


def bunches(tasks: Sequence[KernelTask], slots: int) -> list[Bunch]:
    """Put neighbouring groups together, small ones more, none above bounds.

    Args:
        tasks: in the order to do them.
        slots: tasks that run at a time.
    """
    sizes = [sum(source.bytes for source in task.inputs) for task in tasks]
    most_bytes = min(_BUNCH_BYTES, sum(sizes) // (slots * _ROUNDS))
    most_groups = min(_BUNCH_GROUPS, -(-len(tasks) // (slots * _ROUNDS)))
    found: list[Bunch] = []
    gathered: list[KernelTask] = []
    total = 0
    for task, size in zip(tasks, sizes, strict=True):
        if gathered and (total + size > most_bytes or len(gathered) >= most_groups):
            found.append(Bunch(tuple(gathered)))
            gathered, total = [], 0
        gathered.append(task)
        total += size
    return [*found, Bunch(tuple(gathered))] if gathered else found
