"""Time, injected. The only module that may read a clock (enforced by ruff's banned API)."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """What the product knows of time."""

    def now_ms(self) -> int:
        """Wall clock, unix milliseconds. May jump; never used to measure a duration."""
        ...

    def elapsed_ms(self) -> int:
        """Milliseconds since some fixed point, never going back, running on while suspended."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait."""
        ...


class SystemClock:
    """The machine's clocks.

    Durations that guard a commit are taken from ``CLOCK_BOOTTIME``: a laptop or a virtual machine
    that slept through its time to live must notice it when it wakes up, and ``CLOCK_MONOTONIC``
    stands still meanwhile.
    """

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def elapsed_ms(self) -> int:
        # Not on macOS, whose CLOCK_MONOTONIC runs through sleep already.
        source = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
        return time.clock_gettime_ns(source) // 1_000_000

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)
