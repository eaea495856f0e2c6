"""The injected clock. Only this module may read the time (enforced by ruff's banned API)."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """A source of time."""

    def now_ms(self) -> int:
        """Return the wall clock, unix milliseconds. It may jump, so it measures no durations."""
        ...

    def elapsed_ms(self) -> int:
        """Return the milliseconds since a fixed point; monotonic, and counting while suspended."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait for a number of seconds."""
        ...


class SystemClock:
    """The system's clocks.

    Durations that guard a commit are measured with ``CLOCK_BOOTTIME``: a machine that was suspended
    for longer than its time to live must notice it on resume, and ``CLOCK_MONOTONIC`` does not
    count while suspended.
    """

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def elapsed_ms(self) -> int:
        # macOS does not have it; there CLOCK_MONOTONIC counts while suspended.
        source = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
        return time.clock_gettime_ns(source) // 1_000_000

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)
