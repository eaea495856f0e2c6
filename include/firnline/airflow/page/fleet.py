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
from firnline.operations.health.run import TableHealth, look_at_all
from firnline.settings.load import Settings, TableSettings
from firnline.table import Table

_LOG = logging.getLogger(__name__)

STALE_MS = 60_000
"""Age at which figures that somebody looks at are refreshed."""


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
    """The cached health of the tables of the settings file.

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
        self._lock = threading.Lock()
        self._refreshing: threading.Thread | None = None
        self._refreshed_ms: int | None = None
        self._asked: frozenset[str] = frozenset()

    @property
    def refreshing(self) -> bool:
        """Return True while tables are looked at."""
        thread = self._refreshing
        return thread is not None and thread.is_alive()

    def now_ms(self) -> int:
        """Return the clock's time, by which ages are told."""
        return self._clock.now_ms()

    def rows(self) -> list[Row]:
        """Return a row for each table, at once; starts a refresh if the figures are stale.

        Raises:
            SettingsError: the settings file does not read.
        """
        tables = self._settings().tables
        if self._is_stale(tables):
            self.refresh(tables)
        return [Row(table, self._health.get(name)) for name, table in tables.items()]

    def _is_stale(self, tables: Mapping[str, TableSettings]) -> bool:
        last = self._refreshed_ms
        if last is None or self._clock.now_ms() - last >= STALE_MS:
            return True
        return tables.keys() != self._asked

    def refresh(self, tables: Mapping[str, TableSettings]) -> threading.Thread | None:
        """Look at tables in the background; return the thread, None if one is at work already."""
        with self._lock:
            if self.refreshing:
                return None
            self._refreshed_ms, self._asked = self._clock.now_ms(), frozenset(tables)
            self._refreshing = threading.Thread(
                target=self._look, args=(tables,), name="firnline-fleet", daemon=True
            )
            self._refreshing.start()
            return self._refreshing

    def _look(self, tables: Mapping[str, TableSettings]) -> None:
        try:
            opened = [self._opened(table) for table in tables.values()]
            look_at_all([table for table in opened if table is not None], self._keep)
        except Exception:
            # A thread has nobody to raise to, and the page would show old figures without a word.
            _LOG.exception("the tables could not be looked at")
            raise
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
