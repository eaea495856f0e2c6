"""Appends in tests: a table in memory or a folder, a store whose calls can be made to fail."""

from __future__ import annotations

import datetime
import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from firnline.errors import FirnlineError, OutcomeUnknownError, StoreUnavailableError
from firnline.ids import SystemIds
from firnline.paths import Root, TablePaths
from firnline.settings.load import TableSettings
from firnline.state.snapshot import read_snapshot
from firnline.store.base import ObjectMeta
from firnline.store.client import open_store
from firnline.table import Table
from tests.support.world import START_MS, SetClock

START = START_MS
DAYS = [datetime.date(2013, month, 1) for month in (1, 2, 2, 3)]
TABLE = pa.table({"n": [4, 3, 2, 1], "d": DAYS})
"""Four rows in three months."""


class Broken:
    """A store whose calls can be made to fail, before or after their effect."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.before: dict[str, FirnlineError] = {}
        self.after: dict[str, FirnlineError] = {}

    def __getattr__(self, name: str) -> Any:
        whole = getattr(self._store, name)
        if not callable(whole):
            return whole

        def call(*args: Any) -> Any:
            if name in self.before:
                raise self.before[name]
            result = whole(*args)
            if name in self.after:
                raise self.after[name]
            return result

        return call


def down() -> StoreUnavailableError:
    """The store does not answer."""
    return StoreUnavailableError("the store is down", next_step="wait")


def unknown() -> OutcomeUnknownError:
    """A put without an answer."""
    return OutcomeUnknownError("no answer", next_step="read it back")


def make(root: str | None = None, **given: Any) -> Table:
    """An empty table: in a memory of its own, or at ``root``; ``given`` are its settings."""
    root = root or f"memory://{uuid.uuid1()}/t"
    clock = SetClock()
    return Table(
        settings=TableSettings.model_validate({"name": "t", "root": root, **given}),
        store=Broken(open_store(root, clock=clock)),
        paths=TablePaths(Root.parse(root).prefix),
        clock=clock,
        ids=SystemIds(),
    )


def breakable(table: Table) -> Broken:
    """The table's store, to be broken."""
    assert isinstance(table.store, Broken)
    return table.store


def clock_of(table: Table) -> SetClock:
    """The table's clock, to be moved."""
    assert isinstance(table.clock, SetClock)
    return table.clock


def keys(table: Table, folder: str) -> list[str]:
    """Keys under one folder of the table."""
    found: list[ObjectMeta] = list(table.store.list(f"t/{folder}/"))
    return [meta.key for meta in found]


def rows_of(table: Table, folder: Path) -> list[dict[str, Any]]:
    """All rows of the live parts, as a reader sees them; ``folder`` is for copies."""
    rows: list[dict[str, Any]] = []
    for index, key in enumerate(read_snapshot(table.store, table.paths).live):
        path = folder / f"read-{index}.parquet"
        table.store.get_file(key, path)
        rows += pq.ParquetFile(path).read().to_pylist()
        path.unlink()
    return rows
