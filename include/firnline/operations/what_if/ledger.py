"""What maintenance has sent and moved, added up: of a play as of the real history. Pure.

Requests are those that the operations promise (``operations.inspect.cost``): a run is a process of
its own, which reads the log and, if it commits, probes the store.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field

from firnline.commit.fold import TIER
from firnline.operations.inspect.cost import COMMIT, Requests, list_pages
from firnline.operations.requests import upload_requests
from firnline.store.sizes import BATCH

_HEAD_LINES = 3
"""Markers that are as long as what every log file begins with."""


@dataclass
class Ledger:
    """Adds up runs, their requests and bytes, and keeps count of log files and dead parts."""

    requests: Requests = field(default_factory=Requests)
    runs: int = 0
    """Merges that had something to do."""
    parts_in: int = 0
    parts_out: int = 0
    bytes_in: int = 0
    """That merges have read."""
    bytes_out: int = 0
    """That they have written."""
    _appended: float = 0
    """Log files of appends that no transaction has folded."""
    _lines: float = 0
    """Markers in them."""
    _merged: list[float] = field(default_factory=list)
    """Markers in each log file of a transaction that a reader fetches."""
    _folded: deque[tuple[int, float]] = field(default_factory=deque)
    """Time and number of log files that wait for a clean-up."""
    _dead: deque[tuple[int, int]] = field(default_factory=deque)
    """Time and number of parts that wait for a clean-up."""

    @property
    def logs(self) -> float:
        """Log files that a reader fetches."""
        return self._appended + len(self._merged)

    def append(self, share: float) -> None:
        """Count a part that an append has brought, and its share of a log file."""
        self._appended += share
        self._lines += 1

    def read_log(self, times: int = 1, *, everything: bool = False) -> None:
        """Count readings of the log.

        Args:
            times: how many.
            everything: of all log files that are there, folded ones too.
        """
        folded = sum(count for _, count in self._folded)
        listed = list_pages(self.logs + folded) + 1
        read = self.logs + folded * everything
        self.requests += Requests(list=listed, get=read) * times

    def merge(self, inputs: int, size: int) -> None:
        """Count the inputs of a merge, and their bytes; see ``write`` for its outputs."""
        self.parts_in += inputs
        self.bytes_in += size
        self.requests += Requests(get=inputs)

    def slices(self, slices: int, inputs: int) -> None:
        """Count what a group sends besides that several tasks merge: footers, and row groups."""
        if slices > 1:
            self.requests += Requests(get=2 * slices * inputs)

    def write(self, outputs: int, size: int) -> None:
        """Count the outputs of a merge."""
        self.parts_out += outputs
        self.bytes_out += size
        if outputs:
            self.requests += Requests(put=upload_requests(size, outputs))

    def commit(self, now: int, dead: int, made: int = 0) -> None:
        """Count a transaction, which folds the log.

        Args:
            now: unix ms.
            dead: parts that it replaces or drops.
            made: parts that it brings.
        """
        self.requests += COMMIT
        self.fold(now, dead + made)
        if dead:
            self._dead.append((now, dead))

    def fold(self, now: int, lines: int) -> None:
        """Fold the log as a transaction of so many markers does (``commit.fold``).

        All log files of appends, and those of transactions that are at most ``TIER`` times as
        large as what is gathered.
        """
        rest, gathered = self._unfolded(lines)
        self._folded.append((now, self._appended + len(self._merged) - len(rest)))
        self._merged = [*rest, gathered]
        self._appended = self._lines = 0

    def append_folded(self, count: int, lines: int) -> None:
        """Count the log files of appends, each of one part, that a transaction has folded.

        Args:
            count: log files that it has folded; those of earlier transactions are among them.
            lines: markers that it writes besides those that it folds.
        """
        self._appended = self._lines = count
        rest, _ = self._unfolded(lines)
        self._appended = max(0, count - len(self._merged) + len(rest))

    def _unfolded(self, lines: int) -> tuple[list[float], float]:
        """Return the log files of transactions that a fold leaves, and the markers it gathers."""
        gathered = _HEAD_LINES + lines + self._lines
        rest = sorted(self._merged)
        while rest and rest[0] <= TIER * gathered:
            gathered += rest.pop(0)
        return rest, gathered

    def clean_up(self, now: int, grace_ms: int, reads: int, *, idle: bool) -> None:
        """Count a clean-up of what is dead for longer than the grace.

        Args:
            now: unix ms.
            grace_ms: ``cleanup.grace``.
            reads: times that it reads the log.
            idle: it runs without anything to delete, too.
        """
        limit = now - grace_ms
        waiting = [first[0][0] for first in (self._dead, self._folded) if first]
        ripe = min(waiting, default=now) <= limit
        if ripe or idle:
            self.read_log(reads if ripe else 1, everything=True)
        if not ripe:
            return
        parts, logs = _ripe(self._dead, limit), _ripe(self._folded, limit)
        self.requests += Requests(list=1, delete=math.ceil((parts + logs) / BATCH))
        if parts:  # log files alone need no commit
            self.commit(now, 0)


def _ripe(waiting: deque[tuple[int, float]] | deque[tuple[int, int]], limit: int) -> float:
    count = 0.0
    while waiting and waiting[0][0] <= limit:
        count += waiting.popleft()[1]
    return count
