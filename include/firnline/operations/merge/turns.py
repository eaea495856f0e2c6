"""Turns of a merge beside other merges of its table (``merge.slots``).

Merges that work at the same time do not know of each other and agree on nothing. Each takes the
partitions of its plan in an order of its own, which a hash of its run gives, a few at a time, and
reads the log again before it takes more. What another one has committed by then is left out, so
two merges do the same work only where both have the same partition in a turn; there one commits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import replace
from hashlib import sha256
from math import ceil

from firnline.log.txn_file import RunIdentity
from firnline.operations.merge.plan import MergePlan

_PARTS = 4
"""A turn takes one of so many parts of a merge's share, unless the engine works on more at once.
More parts mean less work that two do, and more readings of the log (docs/rfcs/0009)."""


def partitions_of(plan: MergePlan) -> frozenset[str]:
    """Return the partitions in which a plan does something."""
    return frozenset(group.partition for group in (*plan.groups, *plan.hidden))


def limited(plan: MergePlan, partitions: Collection[str]) -> MergePlan:
    """Return what a plan does in these partitions."""
    return replace(
        plan,
        groups=tuple(group for group in plan.groups if group.partition in partitions),
        hidden=tuple(group for group in plan.hidden if group.partition in partitions),
    )


def next_turn(plan: MergePlan, run: RunIdentity, slots: int, at_once: int) -> MergePlan:
    """Return the part of a plan that a run works on before it plans again.

    Whole partitions, the first in the order of the run, until they have ``at_once`` tasks and a
    quarter of a merge's share of the plan. A group in slices is as many tasks.

    Args:
        plan: what is left to do.
        run: whose order it is; a retry beside its predecessor has another one.
        slots: merges that may work at the same time.
        at_once: tasks that the engine works on at the same time.
    """
    tasks: Counter[str] = Counter()
    for group in (*plan.groups, *plan.hidden):
        tasks[group.partition] += group.slices
    least = max(at_once, ceil(tasks.total() / (_PARTS * slots)))
    chosen: set[str] = set()
    taken = 0
    for partition in sorted(tasks, key=lambda name: _place(run, name)):
        if taken >= least:
            break
        chosen.add(partition)
        taken += tasks[partition]
    return limited(plan, chosen)


def _place(run: RunIdentity, partition: str) -> bytes:
    text = f"{run.dag_id}\n{run.run_id}\n{run.try_number}\n{run.host}\n{partition}"
    return sha256(text.encode()).digest()
