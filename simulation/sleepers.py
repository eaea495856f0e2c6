"""Worlds in which a process may sleep between its last check and its put (RFC 16).

Only worlds of ``SLEEPING`` seeds have them. Half of the processes that maintain do not know
afterwards how long they slept, as in a paused virtual machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from firnline.log.fence import fence_of
from firnline.log.records import LogContent
from simulation.mix import Mix

SLEEPING = range(18_000, 19_000)
"""Seeds of worlds with sleepers."""
SLEEP = 0.04
"""Probability of a sleep, per put."""
WEIGHTS: dict[str, float] = {"append": 2.0, "merge": 2.0, "cleanup": 2.0, "sweep": 2.0}


def weights_of(mix: Mix) -> dict[str, float]:
    """Return the weights of a world with sleepers: all that deletes, beside all that commits."""
    return mix.weights | WEIGHTS


def fence(contents: Iterable[LogContent]) -> int:
    """Return the highest fence that log files state."""
    return max((fence_of(content.other).seq for content in contents), default=0)


def behind(
    appends: Mapping[str, LogContent], committed: Iterable[LogContent], passed: int
) -> list[str]:
    """Return the appends that count for nobody: unfolded, and with a sequence before the fence.

    Args:
        appends: log files of appends that have landed and counted so far.
        committed: log files of all transactions.
        passed: the fence.
    """
    folded = {stone.p for content in committed for stone in content.tombstones}
    return [
        key
        for key, content in appends.items()
        if key not in folded and content.markers and (content.markers[0].q or 0) < passed
    ]
