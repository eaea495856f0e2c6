"""The parts that scans open, as means over time: of the whole table, and of yesterday. Pure.

Yesterday is, where ``partition_by`` has a year, month, day or hour, the newest partition that has a
successor: of days the day before, of months the month before. Elsewhere it is what arrived on the
day before, in UTC: the parts that hold rows of it.
"""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from firnline.log.records import Marker
from firnline.parquet.partition import span_of
from firnline.settings.fields import TIME_TRANSFORMS
from firnline.settings.load import TableSettings
from firnline.units import DAY_MS


@dataclass
class Scans:
    """Counts parts as they come and go, and adds up for how long there were so many.

    Times have to ascend. Call ``advance`` before each change.
    """

    settings: TableSettings
    now: int
    """Unix ms."""
    began: int = field(init=False)
    parts: int = 0
    logs: float = 0
    """Log files that a reader fetches."""
    _all: float = 0
    _yesterday: float = 0
    _yesterday_ms: int = 0
    """Time in which there was a yesterday."""
    _logs: float = 0
    _counts: Counter[str] = field(default_factory=Counter)
    _starts: list[int] = field(default_factory=list)
    """Begins of the partitions that are there, ascending."""
    _of_start: dict[int, set[str]] = field(default_factory=dict)
    _day: int = 0
    _of_day: int = 0
    """Parts with rows that came on the day before ``_day``."""
    _live: dict[str, Marker] = field(default_factory=dict)
    """Only without times of partitions."""

    def __post_init__(self) -> None:
        self.began = self.now
        self._dated = any(f.transform in TIME_TRANSFORMS for f in self.settings.partition_by)
        self._day = self.now // DAY_MS

    def advance(self, now: int) -> None:
        """Let time pass, with the parts as they are."""
        while not self._dated and now // DAY_MS > self._day:
            self._pass((self._day + 1) * DAY_MS)
            self._day += 1
            self._of_day = sum(map(self._is_of_day, self._live.values()))
        self._pass(now)

    def _pass(self, now: int) -> None:
        length = max(0, now - self.now)
        self._all += length * self.parts
        self._logs += length * self.logs
        count = self.yesterday
        if count is not None:
            self._yesterday += length * count
            self._yesterday_ms += length
        self.now = max(now, self.now)

    @property
    def yesterday(self) -> float | None:
        """Parts of yesterday now; of several partitions of one time the mean. None: there are none.

        Partitions that begin in the future do not count.
        """
        if not self._dated:
            return self._of_day or None
        begun = (start for start in reversed(self._starts) if start <= self.now)
        next(begun, None)
        start = next(begun, None)
        if start is None:
            return None
        names = self._of_start[start]
        return sum(self._counts[name] for name in names) / len(names)

    def add(self, partition: str, markers: Iterable[Marker]) -> None:
        """Count parts of a partition that have come."""
        for marker in markers:
            self.parts += 1
            if self._dated:
                self._counts[partition] += 1
                if self._counts[partition] == 1:
                    self._open(partition)
            else:
                self._live[marker.p] = marker
                self._of_day += self._is_of_day(marker)

    def remove(self, partition: str, markers: Iterable[Marker]) -> None:
        """Count parts of a partition that have gone."""
        for marker in markers:
            self.parts -= 1
            if self._dated:
                self._counts[partition] -= 1
                if not self._counts[partition]:
                    self._close(partition)
            else:
                del self._live[marker.p]
                self._of_day -= self._is_of_day(marker)

    def _is_of_day(self, marker: Marker) -> bool:
        first, last = marker.order()
        return first < self._day * DAY_MS and last >= (self._day - 1) * DAY_MS

    def _start(self, partition: str) -> int | None:
        spans = span_of(partition, self.settings.partition_by)
        return min(spans.values())[0] if spans else None

    def _open(self, partition: str) -> None:
        start = self._start(partition)
        if start is None:
            return
        if start not in self._of_start:
            insort(self._starts, start)
            self._of_start[start] = set()
        self._of_start[start].add(partition)

    def _close(self, partition: str) -> None:
        start = self._start(partition)
        if start is None:
            return
        names = self._of_start[start]
        names.discard(partition)
        if not names:
            del self._of_start[start]
            self._starts.remove(start)

    def means(self) -> Means:
        """Return the means since the start."""
        whole = max(1, self.now - self.began)
        of_yesterday = self._yesterday / self._yesterday_ms if self._yesterday_ms else None
        return Means(self._all / whole, of_yesterday, self._logs / whole)


@dataclass(frozen=True, slots=True)
class Means:
    """Means over a time, each moment of it alike."""

    parts: float
    """Live parts: what a scan of the whole table opens."""
    yesterday: float | None
    """Parts that a scan of yesterday opens; None if there was no yesterday."""
    logs: float
    """Log files that a reader fetches."""
