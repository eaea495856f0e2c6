"""What a seed is like: everything that is drawn once for the whole of it."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

REMOVING = ("delete", "rewrite", "erase", "replace")
"""What a reader of version 1 does not see in full."""
SHARES = {"columns": 10, "plain": 50, "clustered": 15, "keys": 16, "versions": 9}
"""Of the kinds of tables, in per cent of the seeds."""


@dataclass(frozen=True)
class Mix:
    """What this seed is like (a swarm: every seed has its own mix)."""

    steps: int
    busy: int
    """Actors at once, but for those that stand still."""
    crash: float
    pause: float
    nap: float
    """Chance of a long pause right behind a commit, before it is published."""
    jump: float
    """Chance of a leap of time, at each step."""
    fault: float
    """Chance of an error or a lost answer, at each request."""
    lost_log: float
    """Chance that the whole log is lost, at each step."""
    lost_part: float
    """Chance that some log files of transactions are, at each step."""
    tier: float
    """``fold.TIER``: which log files are folded is never a matter of correctness."""
    lazy: bool
    deletes: bool
    weights: dict[str, float]
    ahead: float = 0.0
    """Chance that the clock of a writer is years ahead."""
    differ: float = 0.0
    """Part of the processes that come with other settings, or with none."""
    kind: str = "plain"
    """Of table (``simulation.kinds``)."""

    @classmethod
    def of(cls, r: random.Random, operations: list[str]) -> Mix:
        """Drawn from a seed."""
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
        return replace(
            found,
            ahead=r.choice([0.0, 0.0, 0.0, 0.1]),
            lost_part=r.choice([0.0, 0.0, 0.0, 0.004]),
            differ=r.choice([0.0, 0.0, 0.3]),
            weights=found.weights | {"properties": r.choice([0.0, 0.0, 0.5])},
        )

    def _sleepy(self) -> Mix:
        """Little goes wrong but that processes sleep while others clean up behind them."""
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
