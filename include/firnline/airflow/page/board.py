"""The requests of erasure, kept for the page: a request of a browser never waits for a store.

The folder of requests is listed, and each object in it read once. Tables are looked at less often,
only for who looks at the requests themselves, and without keys: the API server has none of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from firnline.airflow.page.background import Background
from firnline.airflow.page.cache import STALE_MS
from firnline.airflow.page.repeated import Last, Repeated
from firnline.clock import Clock
from firnline.operations.erasure.folder import Requests
from firnline.operations.erasure.look import TableLook
from firnline.operations.erasure.plan import by_urgency
from firnline.operations.erasure.run import People, look_at_tables
from firnline.settings.load import Settings

TABLES_MS = 300_000
"""Age in ms at which the tables are looked at again: it costs more than the folder."""


@dataclass(frozen=True, slots=True)
class Looks:
    """The last look at the tables: how far requests are in each."""

    requests: frozenset[str]
    """Ids of those that were looked at."""
    tables: tuple[TableLook, ...]
    unstated: tuple[str, ...]
    """Tables of which nobody has said whether they have rows of people."""


@dataclass(frozen=True, slots=True)
class Known:
    """The requests, and the looks at the tables, at one time."""

    settings: Settings
    now_ms: int
    folder: Last[Requests]
    looks: Last[Looks]


class Board:
    """The requests of the folder that the settings name.

    Args:
        settings: reads the settings file.
        open_people: opens the folder and the tables with the credentials of their connections; no
            request is sent.
        clock: source of time.
    """

    def __init__(
        self,
        settings: Callable[[], Settings],
        open_people: Callable[[Settings], People],
        clock: Clock,
    ) -> None:
        self._settings = settings
        self._open_people = open_people
        self._clock = clock
        self._work = Background("firnline-page-requests", 2)
        self._folder = Repeated[Requests]("requests", STALE_MS, clock, self._work)
        self._looks = Repeated[Looks]("tables of requests", TABLES_MS, clock, self._work)

    def known(self, *, tables: bool) -> Known | None:
        """Return what is known, at once; starts a refresh of what is stale.

        Requests of a refresh: those of ``RequestFolder.requests`` for what is not known; once the
        looks are stale, or a request is new, those of ``look_at_tables`` without keys.

        Args:
            tables: look at the tables, too.

        Returns None if the settings name no folder.

        Raises SettingsError: the settings file does not read.
        """
        settings = self._settings()
        if settings.erasure.requests is None:
            return None

        def look() -> None:
            if tables:
                self._look(settings)

        self._folder.refresh(settings.erasure, lambda old: self._read(settings, old), look)
        look()
        folder = self._folder.get(settings.erasure)
        return Known(settings, self._clock.now_ms(), folder, self._looks.get(_of(settings)))

    def wait(self) -> None:
        """Wait until nothing is being read."""
        self._work.wait()

    def _read(self, settings: Settings, old: Requests | None) -> Requests:
        known = {} if old is None else {each.request.id: each for each in old.standing}
        return self._open_people(settings).folder.requests(known)

    def _look(self, settings: Settings) -> None:
        """Start a look at the tables if the folder was read, and the last look is stale."""
        found = self._folder.get(settings.erasure).value
        if found is None:
            return
        of, requests = _of(settings), by_urgency(found)
        wanted = frozenset(each.id for each in requests)

        def read(_: Looks | None) -> Looks:
            people = self._open_people(settings)
            tables = look_at_tables(people, requests, keys=False)
            return Looks(wanted, tables, people.unstated)

        before = self._looks.get(of).value
        is_new = before is not None and not wanted <= before.requests
        self._looks.refresh(of, read, at_once=is_new)


def _of(settings: Settings) -> object:
    """Return what of the settings the looks depend on, to be compared."""
    people = {name: table for name, table in settings.tables.items() if table.person is not None}
    unstated = settings.tables.keys() - people.keys()
    broken = [(each.name, each.error.message) for each in settings.unusable]
    return settings.erasure, people, unstated, broken
