"""Worlds in which processes append with keys, try again and beside each other, and sleep.

Only worlds of ``KEYED`` seeds have them. Of all tries with one key the rows of one count.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from firnline.log import keyed
from firnline.log.records import LogContent
from simulation.mix import Mix
from simulation.world import Violation

KEYED = range(19_000, 20_000)
"""Seeds of worlds with keys."""
ONCE_MS = 86_400_000
"""``append.once`` of these worlds."""
OPERATION = "append with a key"
STEPS = 120
"""Steps in which a key is new."""


def weights_of(mix: Mix) -> dict[str, float]:
    """Return the weights of a world with keys: what folds and deletes, beside the tries."""
    more = {OPERATION: 15.0, "append": 1.0, "merge": 2.0, "cleanup": 2.0, "sweep": 1.0}
    return mix.weights | more


@dataclass
class Keys:
    """The keys whose rows count."""

    since: dict[str, int] = field(default_factory=dict)
    """Digest of the key -> time when the append became visible, by the store's clock."""
    _of: dict[str, str] = field(default_factory=dict)
    """Log file -> digest of its key."""

    def lands(self, log: str, content: LogContent, now: int) -> None:
        """Take in the log file of an append that counts."""
        for digest, _ in keyed.named(content.other):
            if now - self.since.get(digest, now - ONCE_MS) < ONCE_MS:
                raise Violation(f"two appends with key {digest} count")
            self.since[digest], self._of[log] = now, digest

    def withdraw(self, log: str) -> None:
        """Take back a log file that counts for nobody any more."""
        self.since.pop(self._of.pop(log, ""), None)

    def answers(self, key: str) -> None:
        """Check that an append is there which a try was told of."""
        if keyed.digest_of(key) not in self.since:
            raise Violation(f"a try with {key} ends well, and its rows are not there")
