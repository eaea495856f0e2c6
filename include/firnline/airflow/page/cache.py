"""The last reading of each table with its age, refreshed in the background when it is stale.

A reading begins with two listings. If nothing was written since the one before, its
figures hold, and no object is fetched (``operations.health.reading.unchanged``).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

from firnline.airflow.page.background import FAILED, Background
from firnline.clock import Clock
from firnline.errors import FirnlineError
from firnline.operations.health.reading import Seen, unchanged
from firnline.operations.health.run import TableHealth
from firnline.settings.load import TableSettings
from firnline.table import Table

STALE_MS = 60_000
"""Age in ms at which figures that somebody looks at are refreshed."""
REREAD_MS = 900_000
"""Age in ms at which a table is read again although nothing was written: some plans depend on the
time alone."""

Look = Callable[[Table], tuple[TableHealth, Seen]]
"""Reads a table."""


@dataclass(frozen=True, slots=True)
class Known:
    """The last reading of one table, and the state of the next one."""

    settings: TableSettings | None = None
    """Settings of the last reading."""
    health: TableHealth | None = None
    """Result of the last reading that succeeded."""
    seen: Seen | None = None
    looked_ms: int | None = None
    """Time at which ``health`` was last known to hold, in ms."""
    problem: str = ""
    """Message of the error of the last reading; empty if it succeeded."""
    asked_ms: int | None = None
    """Start of the last reading, in ms."""
    under_way: bool = False
    """True while that reading has not ended."""

    def holds(self, settings: TableSettings, now_ms: int) -> bool:
        """Return True if the figures stay what they are as long as nothing is written."""
        if self.seen is None or self.settings != settings or self.health is None:
            return False
        figures = self.health.figures
        due = None if figures is None else figures.holds_until
        return now_ms - self.seen.at_ms < REREAD_MS and (due is None or due > now_ms)


class Cache:
    """Tables as they were read last.

    Args:
        look: reads a table.
        open_table: opens a table with the credentials of its connection.
        clock: source of time.
        background: reads them.
        looked: called after each look with the table's name, whatever came of it.
        most: tables that are kept.
    """

    def __init__(
        self,
        look: Look,
        open_table: Callable[[TableSettings], Table],
        clock: Clock,
        background: Background,
        looked: Callable[[str], None] = lambda _: None,
        most: int = 100_000,
    ) -> None:
        self._look = look
        self._open_table = open_table
        self._clock = clock
        self._background = background
        self._looked = looked
        self._most = most
        self._known: dict[str, Known] = {}
        self._lock = threading.Lock()

    def get(self, name: str) -> Known:
        """Return what is known of a table, at once."""
        return self._known.get(name, Known())

    def put(self, name: str, known: Known) -> None:
        """Take over what somebody else has read."""
        with self._lock:
            self._known[name] = known

    def keep(self, names: Collection[str]) -> None:
        """Forget the tables of other names."""
        with self._lock:
            for name in self._known.keys() - set(names):
                del self._known[name]

    def refresh(self, table: TableSettings) -> None:
        """Have a table looked at if what is known of it is stale, or of other settings."""
        known = self.get(table.name)
        young = known.asked_ms is not None and self._clock.now_ms() - known.asked_ms < STALE_MS
        if not young or known.settings != table:
            self._background.start(table.name, lambda: self._ask(table, known))

    def _ask(self, table: TableSettings, known: Known) -> None:
        name, began_ms = table.name, self._clock.now_ms()
        old = self.get(name)
        if old is not known and old.settings == table:
            return  # two asked for it at one time: it was read since this one looked at its age
        self._set(name, replace(old, asked_ms=began_ms, under_way=True))
        problem = FAILED
        try:
            self._set(name, self._found(table, old, began_ms))
            problem = ""
        except FirnlineError as error:
            problem = f"{error.message}; {error.next_step}"
        finally:
            last = replace(self.get(name), settings=table, problem=problem, under_way=False)
            self._set(name, replace(last, asked_ms=began_ms))
            self._looked(name)

    def _found(self, table: TableSettings, old: Known, now_ms: int) -> Known:
        opened = self._open_table(table)
        if old.holds(table, now_ms) and old.seen is not None and unchanged(opened, old.seen):
            return replace(old, looked_ms=now_ms)
        health, seen = self._look(opened)
        return replace(old, health=health, seen=seen, looked_ms=now_ms)

    def _set(self, name: str, known: Known) -> None:
        with self._lock:
            self._known.pop(name, None)
            self._known[name] = known  # the last is the newest
            while len(self._known) > self._most:
                del self._known[next(iter(self._known))]
