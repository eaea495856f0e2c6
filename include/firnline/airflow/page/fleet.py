"""The health of all tables, kept for the page: a request never waits for a store.

Figures are refreshed in the background, and only while somebody looks: each look at a table costs
store requests (``operations.health.run.look``). Each process of the API server has its own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from firnline.airflow.page.background import Background
from firnline.airflow.page.cache import Cache, Known
from firnline.clock import Clock
from firnline.log.txn_file import TxnHeader
from firnline.operations.dag_ids import dag_id
from firnline.operations.health.detail import HISTORY, detail_of
from firnline.operations.health.erases import Erased
from firnline.operations.health.reading import Reading, Seen, read
from firnline.operations.health.run import AT_ONCE, TableHealth, health_of
from firnline.operations.health.score import FULL
from firnline.settings.load import BrokenTable, Settings, TableSettings
from firnline.table import Table

DETAILS = 32
"""Tables whose details are kept, those that were looked at last."""
_DETAILS_AT_ONCE = 4


def dag_of(table: TableSettings | BrokenTable) -> str:
    """Return the id of the DAG whose tab is the page on a table."""
    own = table.own_dags
    return dag_id(own[0], table.name) if own else dag_id(table.operations[0])


@dataclass(frozen=True, slots=True)
class Row:
    """One table of the settings, and what is known of it."""

    settings: TableSettings | BrokenTable
    known: Known

    @classmethod
    def of_broken(cls, table: BrokenTable) -> Row:
        """Return the row of a table whose settings have mistakes, which are its problem."""
        return cls(table, Known(problem=table.error.message))

    @property
    def dag(self) -> str:
        """Id of the DAG whose tab is the page on the table; who may read it may read the table."""
        return dag_of(self.settings)

    @property
    def score(self) -> int | None:
        """Points of the table; 0 if it cannot be read now, None if it has not been looked at."""
        if self.known.problem:
            return 0
        return None if self.known.health is None else self.known.health.score.points

    def to_json(self, now_ms: int) -> dict[str, Any]:
        """Return plain data.

        Figures of a table that cannot be read now are the last ones; ``age_ms`` is their age, None
        without any, and ``waiting_ms`` the time that a look under way has taken so far.
        """
        known, health = self.known, self.known.health
        plain = (
            {"figures": None, "reasons": [], "looked_ms": None}
            if health is None
            else health.to_json()
        )
        if known.problem:
            plain["reasons"] = [{"points": FULL, "text": f"cannot be read: {known.problem}"}]
        return {
            **plain,
            "table": self.settings.name,
            "dag": self.dag,
            "root": self.settings.root,
            "score": self.score,
            "problem": known.problem,
            **_ages(known, now_ms),
        }


@dataclass(frozen=True, slots=True)
class Detail:
    """Details of one table, those read last."""

    known: Known

    @property
    def figures(self) -> Mapping[str, Any] | None:
        """See ``operations.health.detail``; None if they have not been read yet."""
        return None if self.known.health is None else self.known.health.detail

    def to_json(self, now_ms: int) -> dict[str, Any]:
        """Return plain data; ``problem``: why the table cannot be read now.

        ``version`` is another number after each reading.
        """
        known = self.known
        version = None if known.seen is None else known.seen.at_ms
        plain = {"detail": self.figures, "version": version, "problem": known.problem}
        return {**plain, **_ages(known, now_ms)}


def _ages(known: Known, now_ms: int) -> dict[str, int | None]:
    looked, asked = known.looked_ms, known.asked_ms if known.under_way else None
    return {
        "age_ms": None if looked is None else max(0, now_ms - looked),
        "waiting_ms": None if asked is None else max(0, now_ms - asked),
    }


@dataclass(frozen=True, slots=True)
class _Kept:
    """Objects of a table that do not change any more, so that they are read only once."""

    headers: Mapping[int, TxnHeader] = field(default_factory=dict)
    """Of its newest transactions, by number."""
    erases: Mapping[str, Erased] = field(default_factory=dict)
    """By id of the certificate."""

    @classmethod
    def of(cls, found: Reading) -> _Kept:
        return cls(
            {header.seq: header for header in found.headers},
            {each.id: each for each in found.erases},
        )


class Fleet:
    """The cached health of the tables of the settings file, and details of single tables.

    Args:
        settings: reads the settings file.
        open_table: opens a table with the credentials of its connection.
        clock: source of time.
        looked: called with a table's row after each look at it, in a thread of its own.
    """

    def __init__(
        self,
        settings: Callable[[], Settings],
        open_table: Callable[[TableSettings], Table],
        clock: Clock,
        looked: Callable[[Row], None] = lambda _: None,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._tell = looked
        self._lock = threading.Lock()
        self._kept: dict[str, _Kept] = {}
        # A table whose page somebody opens does not wait until all others have answered.
        self._looks = Background("firnline-page", AT_ONCE)
        self._readings = Background("firnline-page-details", _DETAILS_AT_ONCE)
        self._health = Cache(_look, open_table, clock, self._looks, self._looked)
        self._details = Cache(
            self._read, open_table, clock, self._readings, self._detailed, DETAILS
        )

    @property
    def refreshing(self) -> bool:
        """Return True while tables are looked at."""
        return self._looks.busy

    def warning(self) -> str | None:
        """Return what to say of the settings if they are not those of the files as they are now.

        Raises SettingsError.
        """
        unread = self._settings().unread
        return "; ".join(each.sentence for each in unread) or None

    def now_ms(self) -> int:
        """Return the clock's time, by which ages are told."""
        return self._clock.now_ms()

    def rows(self) -> list[Row]:
        """Return a row for each table, at once; starts a refresh of those that are stale.

        Raises:
            SettingsError: the settings file does not read.
        """
        settings = self._settings()
        tables, broken = settings.tables, settings.broken.values()
        self._health.keep(tables)
        for table in tables.values():
            self._health.refresh(table)
        rows = [Row(table, self._health.get(name)) for name, table in tables.items()]
        return [*rows, *map(Row.of_broken, broken)]

    def row(self, name: str) -> Row | None:
        """Return the row of one table, None if the settings do not have it.

        Refreshes this table and no other, with its details.
        """
        settings = self._settings()
        if name in settings.broken:
            return Row.of_broken(settings.broken[name])
        table = settings.tables.get(name)
        if table is None:
            return None
        self._details.refresh(table)
        known, reading = self._health.get(name), self._details.get(name)
        if reading.under_way and not known.under_way:
            known = replace(known, under_way=True, asked_ms=reading.asked_ms)
        return Row(table, known)

    def detail(self, name: str) -> Detail:
        """Return the details of a table of ``row``, as they are known now."""
        return Detail(self._details.get(name))

    def wait(self, *but: str) -> None:
        """Wait for what is under way, except for looks at these tables."""
        self._looks.wait(*but)
        self._readings.wait(*but)

    def _looked(self, name: str) -> None:
        known = self._health.get(name)
        if known.settings is not None:
            self._tell(Row(known.settings, known))

    def _detailed(self, name: str) -> None:
        """Take what was read for the details over into the table's row."""
        read_now, row = self._details.get(name), self._health.get(name)
        if read_now.health is None:
            read_now = replace(read_now, health=row.health, seen=row.seen, looked_ms=row.looked_ms)
        else:
            read_now = replace(read_now, health=replace(read_now.health, detail=None))
        self._health.put(name, read_now)
        self._looked(name)

    def _read(self, table: Table) -> tuple[TableHealth, Seen]:
        name = table.settings.name
        with self._lock:
            known = self._kept.pop(name, _Kept())
        found = read(table, HISTORY, known.headers, known.erases)
        with self._lock:
            self._kept[name] = _Kept.of(found)
            if len(self._kept) > DETAILS:
                del self._kept[next(iter(self._kept))]
        return health_of(found, detail_of(found)), found.seen


def _look(table: Table) -> tuple[TableHealth, Seen]:
    found = read(table)
    return health_of(found), found.seen
