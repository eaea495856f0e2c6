"""Random decisions that can be replayed with some of them left out.

Every decision is drawn from the seed and its own name alone, never from a stream that all share:
so a seed can be played again without one actor or one fault, and the rest stays as it was. That is
what makes a trace short (``simulation.shrink``).
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from zlib import crc32

Event = tuple[str, int, int]
"""Kind and two numbers: ("spawn", step, 0), ("crash", actor, index of its chance), ..."""
_MASK = (1 << 64) - 1


@dataclass
class Chance:
    """The random decisions of one seed."""

    seed: int
    kept: frozenset[Event] | None = None
    """The only events that may happen; None for all."""
    events: list[Event] = field(default_factory=list)
    """The events that happened."""

    def roll(self, *what: int) -> float:
        """Return a number in [0, 1), the same for the same arguments."""
        x = hash((self.seed, *what)) & _MASK
        # The last steps of splitmix64: hash() of small numbers is not uniformly distributed.
        x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _MASK
        return (x ^ (x >> 31)) / (1 << 64)

    def stream(self, *what: int) -> random.Random:
        """Return a generator for choices that are never left out individually."""
        return random.Random(hash((self.seed, *what)))

    def happens(self, kind: str, first: int, second: int, probability: float) -> bool:
        """Return True if an event happens, and record it then."""
        if probability <= 0 or self.roll(crc32(kind.encode()), first, second) >= probability:
            return False
        event = (kind, first, second)
        if self.kept is not None and event not in self.kept:
            return False
        self.events.append(event)
        return True
