"""What an output says of itself when only some of the inputs went into it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress

from msgspec.structs import replace

from firnline.errors import KernelError
from firnline.kernel.task import KernelTask
from firnline.parquet.part import read_pairs


def metadata_of(task: KernelTask, taken: Sequence[bool]) -> dict[str, str]:
    """The task's metadata with ``replaces`` and ``o`` of the inputs that are taken.

    Whoever rebuilds the log drops every part that another one replaces: an input that stays as it
    is must not be among those.

    Args:
        task: the group.
        taken: for every input whether it goes into the output.
    """
    if all(taken):
        return dict(task.metadata)
    pairs = {name.encode(): text.encode() for name, text in task.metadata.items()}
    known = read_pairs(f"group {task.group}", pairs)
    orders = [source.order for source in compress(task.inputs, taken)]
    if known is None or None in orders or len(known.replaces) != len(task.inputs):
        raise KernelError(
            f"group {task.group} does not say what its output is made from",
            next_step="report this with the log of the run",
        )
    spans = [order for order in orders if order is not None]
    whole = min(first for first, _ in spans), max(last for _, last in spans)
    replaces = tuple(compress(known.replaces, taken))
    return replace(known, o=whole, replaces=replaces).to_pairs()
