"""A group of parts in a store on local disk, merged in one call."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firnline.clock import SystemClock
from firnline.ids import SystemIds
from firnline.kernel.merge import merge_group
from firnline.kernel.task import KernelInput, KernelResult, KernelTask
from firnline.store.base import Store
from firnline.store.client import open_store
from firnline.types.arrow import from_arrow
from firnline.types.order import SortKey
from firnline.types.schema import union

PREFIX = "table/_data/d=1/"


@dataclass(frozen=True)
class Group:
    """Parts under one partition, and the folder that kernels may use."""

    root: Path
    scratch: Path

    @property
    def store(self) -> Store:
        return open_store(f"file://{self.root}/table")

    def put(self, *tables: pa.Table) -> list[str]:
        """Write one part per table; returns their keys."""
        folder = self.root / PREFIX
        folder.mkdir(parents=True, exist_ok=True)
        first = len(list(folder.iterdir()))
        keys = [f"{PREFIX}in-{first + number}.parquet" for number in range(len(tables))]
        for key, table in zip(keys, tables, strict=True):
            pq.write_table(table, self.root / key)
        return keys

    def task(self, inputs: Iterable[str], columns: dict[str, str], /, **changed: Any) -> KernelTask:
        """A task over these parts; ``hidden`` maps a key to its ``where_hidden``."""
        hidden = changed.pop("hidden", {})
        sort = tuple(SortKey(name) for name in changed.pop("sort", ()))
        values: dict[str, Any] = {
            "group": 7,
            "partition": "d=1",
            "inputs": tuple(
                KernelInput(key=key, bytes=1, rows=None, where_hidden=hidden.get(key))
                for key in inputs
            ),
            "columns": tuple(columns.items()),
            "sort_by": sort,
            "stats_columns": (),
            "data_prefix": PREFIX,
            "memory": 256 * 2**20,
            "threads": 1,
            "row_group_rows": 2048,
            "compression_level": 3,
        }
        return KernelTask(**{**values, **changed})

    def run(self, task: KernelTask) -> KernelResult:
        result = merge_group(task, self.store, self.scratch, SystemIds(), SystemClock())
        assert not list(self.scratch.glob("*")), "a kernel leaves nothing behind"
        return result

    def merge(self, *tables: pa.Table, **changed: Any) -> tuple[KernelResult, pa.Table]:
        """Put tables, merge them, read what came out (an empty table when no part did)."""
        schema = union((f"log {n}", from_arrow(table.schema)) for n, table in enumerate(tables))
        result = self.run(self.task(self.put(*tables), schema, **changed))
        assert result.error is None, result.error
        return result, self.read(result)

    def read(self, result: KernelResult) -> pa.Table:
        """The rows of the output."""
        if not result.parts:
            return pa.table({})
        (part,) = result.parts
        assert (self.root / part.key).stat().st_size == part.bytes
        table = pq.read_table(self.root / part.key)
        assert table.num_rows == part.rows
        gone = result.rows_deleted + result.rows_deduplicated + result.rows_removed
        assert result.rows_in == part.rows + gone
        return table


@pytest.fixture
def group(tmp_path: Path) -> Group:
    return Group(tmp_path / "store [1]*", tmp_path / "scratch [2]*/run=3")
