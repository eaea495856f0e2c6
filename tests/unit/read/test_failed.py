"""A read that fails leaves nothing behind."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

from firnline.errors import PartGoneError
from firnline.read import duckdb as read
from firnline.read.plan import ReadOptions, plan_read
from firnline.state.moment import snapshot_at
from firnline.table import Table
from tests.support.on_store import filled, opened
from tools.s3server import StoreRoot

MIB = 2**20
WAYS: dict[str, Callable[[Any, Any, read.Limits], object]] = {
    "stream": lambda task, store, limits: list(read.stream(task, store, limits)),
    "texts": lambda task, store, limits: list(read.texts(task, store, limits, None)),
    "file": lambda task, store, limits: read.write_file(
        task, store, limits, limits.spill.parent / "x.csv", None
    ),
    "relation": lambda task, store, _: read.relation(task, store).fetchall(),
}


def table_without(folder: Path, gone: slice) -> tuple[Table, Any]:
    """A table whose parts are partly gone, and a plan to read all of them."""
    table = filled(opened(StoreRoot("file", f"file://{folder}", {})), 1)
    plan = plan_read(snapshot_at(table, None), table.settings, ReadOptions())
    parts = [meta.key for meta in table.store.list(table.paths.data_dir)]
    list(table.store.delete_many(parts[gone]))
    return table, plan.task


def test_the_connection_of_a_read_that_fails_goes_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DuckDB reports what is left at the end of the process on standard error."""
    connect, made = duckdb.connect, []

    def connected(*args: Any, **named: Any) -> duckdb.DuckDBPyConnection:
        connection = connect(*args, **named)
        made.append(weakref.ref(connection))
        return connection

    monkeypatch.setattr(duckdb, "connect", connected)
    for gone in (slice(None), slice(1, None)):  # before the first batch, and after it
        table, task = table_without(tmp_path / str(gone.start), gone)
        limits = read.Limits(memory=256 * MIB, threads=1, spill=tmp_path / "spill")
        for name, way in WAYS.items():
            expected = duckdb.Error if name == "relation" else PartGoneError
            with pytest.raises(expected, match="has no object any more"):
                way(task, table.store, limits)
    gc.collect()
    assert len(made) == 2 * len(WAYS)
    assert [connection for connection in made if connection() is not None] == []
