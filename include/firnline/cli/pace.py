"""Speed of a run and the time that is left, from what the run told so far."""

from __future__ import annotations

from collections import deque

from firnline.clock import Clock
from firnline.units import counted

_SHOWN_AFTER_MS = 2_000
"""A run that ends sooner needs no estimate."""
_WINDOW_MS = 60_000
"""The speed is that of the last minute: the pieces of a run differ in size."""
_MARK_EVERY_MS = 1_000


class Pace:
    """Speed of one run.

    Args:
        clock: its monotonic clock counts.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began_ms = clock.elapsed_ms()
        self._done = self._total = 0
        self._unit = ""
        self._marks: deque[tuple[int, int]] = deque()
        """Times and units done, at least a second apart; the first is what the speed begins at."""

    def take(self, done: int, total: int, unit: str = "") -> None:
        """Note that ``done`` of ``total`` units are done.

        Fewer than before: it began again. Another unit: that is another stage of the run.
        """
        now, marks = self._clock.elapsed_ms(), self._marks
        if done < self._done or (marks and unit != self._unit):
            marks.clear()
            marks.append((now, done))
        elif not marks:
            marks.append((self._began_ms, 0) if done else (now, 0))
        if now - marks[-1][0] >= _MARK_EVERY_MS:
            marks.append((now, done))
        self._done, self._total, self._unit = done, total, unit
        while len(marks) > 1 and marks[1][0] <= now - _WINDOW_MS:
            marks.popleft()

    @property
    def elapsed_ms(self) -> int:
        """Milliseconds since the run began."""
        return self._clock.elapsed_ms() - self._began_ms

    @property
    def rate(self) -> float | None:
        """Units per second of the last minute; None while nobody can tell."""
        if not self._marks or self.elapsed_ms < _SHOWN_AFTER_MS:
            return None
        since, before = self._marks[0]
        spent = self._clock.elapsed_ms() - since
        return 1000 * (self._done - before) / spent if self._done > before and spent else None

    @property
    def remaining_ms(self) -> int | None:
        """Milliseconds that are left at this speed; None while nobody can tell."""
        rate = self.rate
        if rate is None or not self._total:
            return None
        return round(1000 * max(0, self._total - self._done) / rate)

    def speed(self, unit: str) -> str:
        """Return the speed in words, such as ``40 parts a second``; empty while unknown.

        That of a share says nothing beside the time that is left: it is empty too.
        """
        rate = self.rate
        if rate is None or unit == "percent":
            return ""
        for factor, each in ((1, "a second"), (60, "a minute"), (3_600, "an hour")):
            if rate * factor >= 1:
                return f"{counted(round(rate * factor), unit)} {each}"
        return f"less than 1 {unit} an hour"

    def left(self) -> str:
        """Return the time that is left, such as ``about 3 minutes left``; empty while unknown."""
        remaining = self.remaining_ms
        return "" if not remaining else f"about {_roughly(remaining)} left"

    def in_words(self, unit: str) -> str:
        """Return both, such as ``40 parts a second, about 3 minutes left``."""
        return ", ".join(filter(None, (self.speed(unit), self.left())))


def _roughly(milliseconds: int) -> str:
    """Return a time in its largest unit of which there are at least two."""
    seconds = max(1, round(milliseconds / 1000))
    for size, noun in ((86_400, "day"), (3_600, "hour"), (60, "minute")):
        if seconds >= 2 * size:
            return counted(round(seconds / size), noun)
    return counted(seconds, "second")
