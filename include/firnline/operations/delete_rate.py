"""The rate of a run's deletes: bounded for each prefix, and less where the store asks for less.

S3 takes at least 3,500 writes and deletes a second for each of its partitions, which are ranges of
keys, and each key of a batch delete counts. It splits a range after minutes of load, tells nobody
where, and a new bucket has a single one. The folders of a table's partitions may thus lie in one
range or in many. So what counts as a prefix here is that of the table, below which all keys of a
run are: the only choice that never exceeds the bound of one range. It does not add up what other
processes, or other tables of the bucket, send at the same time, nor does it use ranges that S3 has
split: for the former the store asks to slow down, for the latter the setting may be raised.

The rate falls at once and rises slowly (additive increase, multiplicative decrease), so that all
that share a range find their share of it.
"""

from __future__ import annotations

from firnline.clock import Clock

FLOOR = 100
"""Keys per second below which a store that asks to slow down is not followed."""
_RISES_MS = 60_000
"""Time in which the rate would rise from 0 to where it was before the store asked."""
_SECOND_MS = 1_000


class DeleteRate:
    """Bounds the keys that a run sends per second, lower while the store asks for less.

    Args:
        clock: its monotonic clock counts.
        limit: keys per second at most, at least 1.
    """

    def __init__(self, clock: Clock, limit: int) -> None:
        self._clock, self._limit = clock, limit
        self._now = float(limit)
        self._rise = 0.0
        """Keys per second that the rate rises in a second without a refusal."""
        self._next_ms = self._since_ms = clock.elapsed_ms()
        self._sent = 0
        """Keys sent since ``_since_ms``."""
        self.turn = 0
        """Number of times that the rate has fallen."""

    @property
    def per_second(self) -> int:
        """Keys per second at most, now."""
        return int(self._now)

    @property
    def slowed(self) -> bool:
        """True while the rate is below its limit because the store asked for it."""
        return self._now < self._limit

    def wait_ms(self) -> int:
        """Return how long the next batch has to wait, ms; 0 or less: not at all."""
        return self._next_ms - self._clock.elapsed_ms()

    def send(self, keys: int) -> int:
        """Note that a batch of this many keys is sent now; return the turn in which it was."""
        now = self._clock.elapsed_ms()
        # What a slow answer has left unused is not made up for: the store would see a burst.
        self._next_ms = max(now, self._next_ms) + round(_SECOND_MS * keys / self._now)
        self._sent += keys
        return self.turn

    def went_well(self, keys: int) -> None:
        """Raise the rate after a batch of this many keys without a refusal."""
        if self.slowed:
            self._now = min(self._limit, self._now + self._rise * keys / self._now)

    def refused(self, turn: int) -> bool:
        """Halve the rate, since the store has asked to slow down; return True if it fell.

        Args:
            turn: in which the batch was sent. Refusals of batches that were sent before the rate
                fell say nothing about the rate after it.
        """
        if turn != self.turn:
            return False
        now = self._clock.elapsed_ms()
        # Half of what was really sent, where that is less than what was allowed.
        spent = max(now - self._since_ms, 1)
        before = min(self._now, max(_SECOND_MS * self._sent / spent, FLOOR))
        self._rise = max(self._rise, before * _SECOND_MS / _RISES_MS)
        self._now = max(before / 2, min(FLOOR, self._limit))
        self._next_ms = self._since_ms = max(self._next_ms, now + _SECOND_MS)
        self._sent = 0
        self.turn += 1
        return True
