"""List the tables below a place, with the names that settings have for them, and their health."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain, count
from pathlib import Path
from typing import Literal

from firnline.clock import SystemClock
from firnline.errors import FirnlineError, LinkRefusedError, NoTableError, UsageError
from firnline.operations.at_once import at_once
from firnline.operations.health.run import TableHealth, glance
from firnline.operations.runner import Report
from firnline.operations.tables.find import AT_ONCE, Found, find_tables
from firnline.paths import Root
from firnline.settings.load import (
    BrokenTable,
    Settings,
    TableSettings,
    load_settings,
    no_settings,
    settings_for_root,
)
from firnline.settings.model import name_from
from firnline.store.access import StoreAccess
from firnline.store.base import Counters
from firnline.store.client import open_store
from firnline.table import open_table

State = Literal["readable", "unreadable", "not written", "found"]
DEPTH = 3
"""Levels of folders below the place, unless somebody says another number."""


class ListedTable(Report, frozen=True, kw_only=True):
    """A table below a place, or one that settings name there."""

    root: str
    name: str | None
    """In the settings; None: they do not have it."""
    state: State
    """not written: settings name it, and nothing is there. found: it was not read."""
    parts: int | None = None
    """Live parts."""
    rows: int | None = None
    bytes: int | None = None
    newest_ms: int | None = None
    """Time of the newest log file, unix ms."""
    score: int | None = None
    """Of its health, 0 to 100."""
    reason: str = ""
    """Why it cannot be read."""
    broken_settings: bool = False
    """That is because of mistakes in its settings: it was not looked at."""


class TablesReport(Report, frozen=True, kw_only=True):
    """The tables below a place."""

    url: str
    depth: int
    shallow: bool
    looked_ms: int
    """Wall clock of the look, unix ms."""
    tables: tuple[ListedTable, ...]
    """By their roots."""
    links: tuple[str, ...] = ()
    """Symbolic links on a local disk, which are not followed: a table has one root."""
    to_add: tuple[str, ...]
    """A command for each table that is there and not in the settings, which adds it to them."""
    requests: dict[str, int]


@dataclass(frozen=True, slots=True)
class _Named:
    """A table of the settings below the place."""

    name: str
    settings: TableSettings | BrokenTable


def known_settings(path: Path | str | None) -> Settings | None:
    """Return the settings with names of tables; None where no file is named and none is there.

    Raises SettingsError for a file that does not read: its tables would seem to have no names.
    """
    if path is None and no_settings():
        return None
    loaded = load_settings(path)
    for file in loaded.unread:
        raise file.error
    return loaded


def list_below(
    url: str,
    settings: Settings | None = None,
    access: StoreAccess | None = None,
    *,
    depth: int = DEPTH,
    shallow: bool = False,
    looked: Callable[[int, int], object] = lambda _done, _all: None,
) -> TablesReport:
    """List the tables below a place; nothing is written.

    Requests: those of ``find_tables``; for each table, with those that only the settings name,
    those of ``health.run.glance``: 3 LIST, and a GET for each log file that is not folded. With
    ``shallow`` none of the latter, but those of ``find_tables`` for each table of the settings that
    was not found.

    Args:
        url: of a bucket or folder, ``s3://bucket/prefix``.
        settings: with names of tables; None: none.
        access: endpoint and credentials; None: the environment's.
        depth: levels of folders below the place.
        shallow: read no log.
        looked: told how many tables are read, and of how many.

    Raises:
        UsageError: ``url`` is none, or ``depth`` is negative.
        StoreError: the place cannot be listed. What is wrong with one table is in the report.
    """
    if depth < 0:
        raise UsageError(f"depth is {depth}, and the least is 0", next_step="give a larger depth")
    place = Root.parse(url, source=True)
    access = StoreAccess.from_env() if access is None else access
    look = _Look(access, shallow)
    store = open_store(url, access)
    found = find_tables(store, place.prefix, depth)
    roots, links = dict[str, Found](), list[str]()
    for each in found:
        if isinstance(each.error, LinkRefusedError):
            links.append(_url(place, each.prefix))
        else:
            roots[_url(place, each.prefix)] = each
    named = {} if settings is None else _named(settings, place)
    names = sorted({*roots, *named})
    done = 0

    def one_more(_: ListedTable) -> None:
        nonlocal done
        done += 1
        looked(done, len(names))

    def one(root: str) -> ListedTable:
        return look.at(root, roots.get(root), named.get(root))

    # A folder marker alone is no table, and settings do not ask for it.
    listed = at_once(names, one, AT_ONCE, one_more)
    tables = [each for each in listed if each.name is not None or each.state != "not written"]
    look.counters.add(store.counters.as_dict())
    return TablesReport(
        url=url,
        depth=depth,
        shallow=shallow,
        looked_ms=SystemClock().now_ms(),
        tables=tuple(tables),
        links=tuple(links),
        to_add=_to_add(tables, settings),
        requests=look.counters.as_dict(),
    )


def _url(place: Root, prefix: str) -> str:
    return place.url_of(prefix).rstrip("/")


def _named(settings: Settings, place: Root) -> Mapping[str, _Named]:
    """Return the tables of the settings at the place and below it, by their roots."""
    top = _url(place, place.prefix)
    named = {
        root.rstrip("/"): _Named(each.name, each)
        for each in settings.broken.values()
        for root in each.roots
    }
    named |= {each.root: _Named(each.name, each) for each in settings.tables.values()}
    return {root: each for root, each in named.items() if f"{root}/".startswith(f"{top}/")}


@dataclass
class _Look:
    access: StoreAccess
    shallow: bool
    counters: Counters = field(default_factory=Counters)
    """Of all stores that were opened."""

    def at(self, root: str, found: Found | None, named: _Named | None) -> ListedTable:
        """Return what is at a root. Raises nothing of firnline's."""
        name = None if named is None else named.name
        if found is not None and found.error is not None:
            return _unreadable(root, name, found.error)
        try:
            settings = settings_for_root(root) if named is None else named.settings
            if isinstance(settings, BrokenTable):
                return _unreadable(root, name, settings.error, broken_settings=True)
            if self.shallow:
                there = found is not None or self._is_there(root)
                return ListedTable(root=root, name=name, state="found" if there else "not written")
            return self._read(settings, name)
        except FirnlineError as error:
            return _unreadable(root, name, error)

    def _is_there(self, root: str) -> bool:
        store = open_store(root, self.access)
        found = find_tables(store, Root.parse(root).prefix, 0)
        self.counters.add(store.counters.as_dict())
        return bool(found)

    def _read(self, settings: TableSettings, name: str | None) -> ListedTable:
        table = open_table(settings, self.access)
        try:
            return _listed(glance(table), name)
        except NoTableError:
            return ListedTable(root=settings.root, name=name, state="not written")
        finally:
            self.counters.add(table.store.counters.as_dict())


def _listed(health: TableHealth, name: str | None) -> ListedTable:
    figures = health.figures
    assert figures is not None  # what cannot be read is an error here
    return ListedTable(
        root=health.root,
        name=name,
        state="readable",
        parts=figures.parts,
        rows=figures.rows,
        bytes=figures.bytes,
        newest_ms=figures.newest_ms,
        score=health.score.points,
    )


def _unreadable(
    root: str, name: str | None, error: FirnlineError, *, broken_settings: bool = False
) -> ListedTable:
    return ListedTable(
        root=root,
        name=name,
        state="unreadable",
        reason=error.headline,
        broken_settings=broken_settings,
    )


def _to_add(tables: Iterable[ListedTable], settings: Settings | None) -> tuple[str, ...]:
    """Return the commands that write tables which are there into the settings."""
    taken = set() if settings is None else {*settings.tables, *settings.broken}
    commands: list[str] = []
    for table in tables:
        if table.name is None and table.state in ("readable", "found"):
            name = _free(name_from(table.root) or "table", taken)
            taken.add(name)
            commands.append(f"firnline init {name} --root {shlex.quote(table.root)} --yes")
    return tuple(commands)


def _free(name: str, taken: Container[str]) -> str:
    """Return a name that no table has yet."""
    numbered = (f"{name}_{number}" for number in count(2))
    return next(each for each in chain([name], numbered) if each not in taken)
