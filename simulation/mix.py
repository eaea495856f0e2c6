"""Parameters of a seed that are drawn once for the whole run."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

REMOVING = ("delete", "rewrite", "erase", "replace")
"""Operations whose effect a reader of version 1 does not fully see."""
SHARES = {"columns": 10, "plain": 50, "clustered": 15, "keys": 16, "versions": 9}
"""Shares of the kinds of tables, in percent of the seeds."""
_CALM = 4
"""Concurrent actors up to which merges work on all of their plan at once."""
MOVING = 0.2
"""Share of the plain tables whose layout changes instead (kind ``layouts``)."""


@dataclass(frozen=True)
class Mix:
    """Parameters of a seed (swarm testing: every seed has its own mix)."""

    steps: int
    busy: int
    """Maximum concurrent actors, not counting paused ones."""
    crash: float
    pause: float
    nap: float
    """Probability of a long pause after a commit, before it is published."""
    jump: float
    """Probability of a jump in time, per step."""
    fault: float
    """Probability of an error or a lost answer, per request."""
    lost_log: float
    """Probability that the whole log is lost, per step."""
    lost_part: float
    """Probability that some log files of transactions are lost, per step."""
    tier: float
    """``fold.TIER``: the choice of log files to fold must not affect correctness."""
    lazy: bool
    deletes: bool
    weights: dict[str, float]
    lost_history: float = 0.0
    """Probability that objects under ``_txn/`` are lost, per step; the log is not, then."""
    ahead: float = 0.0
    """Probability that the clock of a writer is years ahead."""
    differ: float = 0.0
    """Share of processes with other settings, or with none."""
    kind: str = "plain"
    """Kind of table (``simulation.kinds``)."""
    mirror: bool = False
    """The table has a mirror, if its kind can have one."""
    vectors: bool = False
    """Its mirror has deletion vectors; else it waits for merges."""
    catalog: bool = False
    """Its mirror is in an Iceberg catalog."""
    sleep: float = 0.0
    """Probability that a process sleeps right before a put, after all of its checks."""
    once_ms: int | None = None
    """``append.once``, in ms; None: nobody appends with a key."""

    @property
    def merges(self) -> int:
        """``merge.slots``: in the busiest worlds merges take turns."""
        return 2 if self.busy > _CALM else 1

    @classmethod
    def of(cls, r: random.Random, operations: list[str]) -> Mix:
        """Draw a mix from a seed."""
        (kind,) = r.choices(list(SHARES), list(SHARES.values()))
        deletes = r.random() < 0.6
        weights = {name: r.choice([0.0, 0.5, 1.0, 3.0]) for name in operations}
        if not deletes:
            weights |= {name: 0.0 for name in REMOVING if name in weights}
        weights["append"] = r.choice([1.0, 3.0])
        weights["cleanup"] = r.choice([0.0, 1.0, 3.0])
        if kind == "columns":
            weights["evolve"] = 1.0
        found = cls(
            steps=r.choice([100, 200, 300, 500, 900]),
            busy=r.choice([2, 4, 7]),
            crash=r.choice([0.0, 0.01, 0.03]),
            pause=r.choice([0.0, 0.02, 0.1]),
            nap=r.choice([0.0, 0.0, 0.3]),
            tier=r.choice([2.0, 2.0, 0.5, 0.1]),
            jump=r.choice([0.002, 0.006, 0.02, 0.06]),
            fault=r.choice([0.0, 0.0, 0.02, 0.06]),
            lost_log=r.choice([0.0, 0.0, 0.0, 0.002]),
            lost_part=0.0,
            lazy=r.random() < 0.6,
            deletes=deletes,
            weights=weights,
            kind=kind,
        )
        found = found._sleepy() if r.random() < 0.2 else found
        found = replace(
            found,
            ahead=r.choice([0.0, 0.0, 0.0, 0.1]),
            lost_part=r.choice([0.0, 0.0, 0.0, 0.004]),
            differ=r.choice([0.0, 0.0, 0.3]),
            weights=found.weights | {"properties": r.choice([0.0, 0.0, 0.5])},
        )
        # Drawn last, so that the others are what they were without it.
        return _moving(found) if r.random() > 1 - MOVING and kind == "plain" else found

    def _sleepy(self) -> Mix:
        """Return a mix with few faults except processes that sleep while others clean up."""
        weights = {name: weight / 4 for name, weight in self.weights.items()}
        weights |= {"append": 1.0, "merge": 1.0, "drop": 0.7, "cleanup": 1.5}
        return replace(
            self,
            steps=900,
            busy=2,
            crash=0.0,
            fault=0.0,
            pause=0.01,
            nap=0.2,
            jump=0.02,
            lost_log=0.0,
            weights=weights,
        )


def _moving(mix: Mix) -> Mix:
    """Return a mix for a table whose layout and statistics change."""
    more = {"properties": 0.5, "repartition": 1.0, "analyze": 1.0}
    return replace(mix, kind="layouts", weights=mix.weights | more)
