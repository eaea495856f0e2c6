"""Tables with real rows on a store of any kind, and what happens to them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from firnline.appends.append import Appender
from firnline.clock import SystemClock
from firnline.ids import SystemIds
from firnline.kernel.local import LocalEngine
from firnline.log.txn_file import RunIdentity
from firnline.operations.merge.run import MergeReport, run_merge
from firnline.operations.operation import Work
from firnline.operations.options import MergeOptions
from firnline.settings.load import TableSettings
from firnline.store.access import StoreAccess
from firnline.table import Table, open_table
from tests.support.world import FaultyStore, SetClock
from tools.s3server import StoreRoot

RUN = RunIdentity(run_id="r")
DAY = 86_400_000


def opened(root: StoreRoot, name: str = "t", **settings: Any) -> Table:
    access = StoreAccess.from_env(root.env) if root.kind == "s3" else None
    given = {"merge": {"min_inputs": 2}, "partition_by": ["day"], "sort_by": ["id"], **settings}
    declared = TableSettings.model_validate({"name": "t", "root": f"{root.url}/{name}", **given})
    return open_table(declared, access)


def rows_from(first: int, count: int = 4) -> pa.Table:
    ids = list(range(first, first + count))
    return pa.table({"id": ids, "day": [("mo", "tu")[i % 2] for i in ids]})


def filled(table: Table, appends: int, first: int = 0) -> Table:
    appender = Appender(table)
    for number in range(appends):
        appender.append(rows_from(first + 4 * number))
    return table


@dataclass
class Reads(FaultyStore):
    """Notes every key that is read."""

    read: list[str] = field(default_factory=list)

    def get_many(self, keys: Any) -> Iterator[tuple[str, bytes | None]]:
        self.read += keys
        yield from super().get_many(keys)

    def get_heads(self, keys: Any, length: int) -> Iterator[tuple[str, bytes | None]]:
        self.read += keys
        yield from super().get_heads(keys, length)

    def get(self, key: str) -> bytes:
        self.read.append(key)
        return super().get(key)

    def get_file(self, key: str, path: Path) -> int:
        self.read.append(key)
        return super().get_file(key, path)


def engine(table: Table, scratch: Path) -> LocalEngine:
    def store() -> Any:
        own = open_table(table.settings, table.access).store
        return Reads(own, read=table.store.read) if isinstance(table.store, Reads) else own

    return LocalEngine(store, scratch, SystemIds(), SystemClock())


def merge(table: Table, scratch: Path) -> MergeReport:
    return run_merge(Work(table, RUN, lambda: engine(table, scratch)), MergeOptions())


def later(table: Table, days: int) -> Table:
    """The same table, so many days later."""
    return replace(table, clock=SetClock(now=SystemClock().now_ms() + days * DAY))


def content(table: Table) -> dict[str, bytes]:
    """Everything below the table's root."""
    return {
        meta.key: table.store.get(meta.key) for meta in table.store.list(table.paths.prefix + "/")
    }
