"""The health of all tables, kept for the page: a request never waits for a store.

Figures are refreshed in the background, and only while somebody looks: each look at a table costs
store requests (``operations.health.run.look``). Each process of the API server has its own.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from firnline.clock import Clock
from firnline.errors import FirnlineError
from firnline.operations.health.detail import detail_of
from firnline.operations.health.reading import read
from firnline.operations.health.run import TableHealth, health_of, look_at_all
from firnline.settings.load import Settings, TableSettings
from firnline.table import Table

_LOG = logging.getLogger(__name__)

STALE_MS = 60_000
"""Age at which figures that somebody looks at are refreshed."""


TRANSACTIONS = 100
"""Newest transactions in the details of a table."""
_ALL = ""


@dataclass(frozen=True, slots=True)
class Detail:
    """Details of one table, those read last."""

    figures: dict[str, Any] | None
    """See ``operations.health.detail``; None if it could never be read."""
    looked_ms: int | None
    problem: str = ""
    """Why the table cannot be read now."""

    def to_json(self, now_ms: int) -> dict[str, Any]:
        """Return plain data."""
        age = None if self.looked_ms is None else max(0, now_ms - self.looked_ms)
        return {"detail": self.figures, "age_ms": age, "problem": self.problem}


@dataclass(frozen=True, slots=True)
class _Work:
    """Background work of one table, or of all."""

    thread: threading.Thread
    began_ms: int
    asked: frozenset[str]


@dataclass(frozen=True, slots=True)
class Row:
    """One table of the settings, with its health if it has been looked at."""

    settings: TableSettings
    health: TableHealth | None

    def to_json(self, now_ms: int) -> dict[str, Any]:
        """Return plain data; ``age_ms`` is None for a table that has not been looked at."""
        if self.health is None:
            plain: dict[str, Any] = {
                "table": self.settings.name,
                "root": self.settings.root,
                "score": None,
                "reasons": [],
                "figures": None,
            }
            return {**plain, "age_ms": None}
        return {**self.health.to_json(), "age_ms": max(0, now_ms - self.health.looked_ms)}


class Fleet:
    """The cached health of the tables of the settings file, and details of single tables.

    Args:
        settings: reads the settings file.
        open_table: opens a table with the credentials of its connection.
        clock: source of time.
    """

    def __init__(
        self,
        settings: Callable[[], Settings],
        open_table: Callable[[TableSettings], Table],
        clock: Clock,
    ) -> None:
        self._settings = settings
        self._open_table = open_table
        self._clock = clock
        self._health: dict[str, TableHealth] = {}
        self._details: dict[str, Detail] = {}
        self._work: dict[str, _Work] = {}
        """By table; an empty name for all of them."""
        self._lock = threading.Lock()

    @property
    def refreshing(self) -> bool:
        """Return True while tables are looked at."""
        work = self._work.get(_ALL)
        return work is not None and work.thread.is_alive()

    def now_ms(self) -> int:
        """Return the clock's time, by which ages are told."""
        return self._clock.now_ms()

    def rows(self) -> list[Row]:
        """Return a row for each table, at once; starts a refresh if the figures are stale.

        Raises:
            SettingsError: the settings file does not read.
        """
        tables = self._settings().tables
        self._refresh(_ALL, lambda: self._look(tables), frozenset(tables))
        return [Row(table, self._health.get(name)) for name, table in tables.items()]

    def row(self, name: str) -> Row | None:
        """Return the row of one table, None if the settings do not have it.

        Refreshes this table and no other, with its details.
        """
        table = self._settings().tables.get(name)
        if table is None:
            return None
        self._refresh(name, lambda: self._read(table))
        return Row(table, self._health.get(name))

    def detail(self, name: str) -> Detail | None:
        """Return the details of a table of ``row``; None if they have not been read yet."""
        return self._details.get(name)

    def wait(self) -> None:
        """Wait for what is under way."""
        for work in list(self._work.values()):
            work.thread.join()

    def _refresh(
        self, name: str, act: Callable[[], None], asked: frozenset[str] = frozenset()
    ) -> None:
        """Start work in the background, unless it is under way or its results are fresh."""
        with self._lock:
            now, last = self._clock.now_ms(), self._work.get(name)
            if last is not None and (
                last.thread.is_alive() or (now - last.began_ms < STALE_MS and last.asked == asked)
            ):
                return
            thread = threading.Thread(
                target=_logged, args=(act,), name=f"firnline-page {name}", daemon=True
            )
            self._work[name] = _Work(thread, now, asked)
            thread.start()

    def _look(self, tables: Mapping[str, TableSettings]) -> None:
        opened = [self._opened(table) for table in tables.values()]
        look_at_all([table for table in opened if table is not None], self._keep)
        for name in self._health.keys() - tables.keys():
            del self._health[name]

    def _keep(self, found: TableHealth) -> None:
        self._health[found.table] = found

    def _opened(self, table: TableSettings) -> Table | None:
        try:
            return self._open_table(table)
        except FirnlineError as error:
            self._keep(TableHealth.unreadable(table, self._clock.now_ms(), error))
            return None

    def _read(self, table: TableSettings) -> None:
        old = self._details.get(table.name)
        try:
            found = read(self._open_table(table), TRANSACTIONS)
        except FirnlineError as error:
            self._keep(TableHealth.unreadable(table, self._clock.now_ms(), error))
            known = None if old is None else old.figures
            looked_ms = None if old is None else old.looked_ms
            problem = f"{error.message}; {error.next_step}"
            self._details[table.name] = Detail(known, looked_ms, problem)
            return
        self._keep(health_of(found))
        self._details[table.name] = Detail(detail_of(found), self._clock.now_ms())


def _logged(act: Callable[[], None]) -> None:
    try:
        act()
    except Exception:
        # A thread has nobody to raise to; the page goes on with the age of what it has.
        _LOG.exception("the figures of the page could not be refreshed")
        raise
