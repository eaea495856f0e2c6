"""Tables that can be put back as they were: in memory, in a folder, on the real S3 server."""

from __future__ import annotations

import copy
import os
import shutil
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from firnline.clock import SystemClock
from firnline.paths import Root, TablePaths
from firnline.settings.load import TableSettings
from firnline.store.access import StoreAccess
from firnline.store.base import Store
from firnline.store.client import open_store
from firnline.store.probe import forget
from firnline.table import Table
from tests.support.world import CountedIds, MemoryStore, SetClock

NAME = "flights"


@dataclass(frozen=True)
class Saved:
    """A table at one moment."""

    settings: TableSettings
    objects: Any
    now: int
    elapsed: int
    ids: int


class Place(Protocol):
    """Where a table lies. One table at a time."""

    kind: str

    def new(self, settings: dict[str, Any]) -> Table:
        """An empty table, with a clock that is set and ids that are counted."""
        ...

    def save(self, table: Table) -> Saved: ...

    def restored(self, saved: Saved) -> Table:
        """The table as it was; what happened to it since is gone. Stores are probed again."""
        ...


def next_second(table: Table) -> None:
    """Wait until objects are younger than those of before: S3 states whole seconds."""
    if table.settings.root.startswith("s3://"):
        time.sleep(1.01 - time.time() % 1)


def _table(settings: TableSettings, store: Store, clock: SetClock, ids: CountedIds) -> Table:
    return Table(settings, store, TablePaths(Root.parse(settings.root).prefix), clock, ids)


def _saved(table: Table, objects: Any) -> Saved:
    clock, ids = table.clock, table.ids
    assert isinstance(clock, SetClock)
    assert isinstance(ids, CountedIds)
    return Saved(table.settings, objects, clock.now, clock.elapsed, ids.count)


@dataclass
class MemoryPlace:
    """A dictionary."""

    kind: str = "memory"

    def new(self, settings: dict[str, Any]) -> Table:
        declared = {"name": NAME, "root": f"memory://bucket/lake/{NAME}", **settings}
        clock = SetClock()
        return _table(
            TableSettings.model_validate(declared), MemoryStore(clock), clock, CountedIds()
        )

    def save(self, table: Table) -> Saved:
        assert isinstance(table.store, MemoryStore)
        return _saved(table, copy.copy(table.store.objects))

    def restored(self, saved: Saved) -> Table:
        forget()
        clock = SetClock(saved.now, saved.elapsed)
        store = MemoryStore(clock)
        store.objects = copy.copy(saved.objects)
        return _table(saved.settings, store, clock, CountedIds(saved.ids))


@dataclass
class FolderPlace:
    """The product's own client on objects that are files: a folder, or the S3 server's own.

    Objects are never written twice, so copies of them are hard links.
    """

    kind: str
    url: str
    """Root of everything here; empty at first."""
    folder: Path
    """Where the store keeps it."""
    copies: Path
    """A folder on the same disk."""
    access: StoreAccess | None = None
    _count: int = field(default=0)

    def new(self, settings: dict[str, Any]) -> Table:
        declared = {"name": NAME, "root": f"{self.url}/{NAME}", **settings}
        # Objects get the machine's time, so the table begins at it.
        clock = SetClock(now=SystemClock().now_ms())
        return self._opened(TableSettings.model_validate(declared), clock, CountedIds())

    def save(self, table: Table) -> Saved:
        self._count += 1
        target = self.copies / str(self._count)
        _link_tree(self.folder, target)
        return _saved(table, target)

    def restored(self, saved: Saved) -> Table:
        forget()
        shutil.rmtree(self.folder)
        _link_tree(saved.objects, self.folder)
        clock = SetClock(saved.now, saved.elapsed)
        return self._opened(saved.settings, clock, CountedIds(saved.ids))

    def _opened(self, settings: TableSettings, clock: SetClock, ids: CountedIds) -> Table:
        store = open_store(settings.root, self.access, clock=clock)
        return replace(_table(settings, store, clock, ids), access=self.access)


def _link_tree(source: Path, target: Path) -> None:
    shutil.copytree(source, target, copy_function=os.link)


def keys_in(table: Table, folder: str) -> set[str]:
    """Keys of the objects under ``_log``, ``_data``, ``_txn``, ``_erase`` or ``_probe``."""
    return {meta.key for meta in table.store.list(f"{table.paths.prefix}/{folder}/")}


def tally(table: Table) -> Counter[str]:
    """How many objects lie in each folder of the table."""
    prefix = f"{table.paths.prefix}/"
    return Counter(meta.key.removeprefix(prefix).split("/")[0] for meta in table.store.list(prefix))
