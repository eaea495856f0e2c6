"""A read that fails leaves nothing behind."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

import firnline
from firnline.errors import PartGoneError, PartUnreadableError, StoreAccessError
from firnline.read import duckdb as read
from firnline.read.plan import ReadOptions, plan_read
from firnline.state.moment import snapshot_at
from firnline.table import Table
from tests.support.on_store import filled, opened
from tests.support.world import FaultyStore
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


@pytest.mark.long
@pytest.mark.parametrize("in_folder", [False, True])
def test_the_connection_of_a_read_that_fails_goes_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_folder: bool
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
            store = table.store if in_folder else FaultyStore(table.store)
            expected = duckdb.Error if name == "relation" else PartGoneError
            by_itself = in_folder and name == "relation"  # DuckDB opens the files
            said = "No files found" if by_itself else "has no object any more"
            with pytest.raises(expected, match=said):
                way(task, store, limits)
    gc.collect()
    assert len(made) == 2 * len(WAYS)
    assert [connection for connection in made if connection() is not None] == []


@pytest.mark.parametrize("damage", [lambda data: data[:-9], lambda data: b"x" * len(data)])
def test_a_damaged_part_in_a_folder_is_named_by_its_key(
    tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    table, task = table_without(tmp_path, slice(0))
    key = task.parts[0].key
    path = tmp_path / key
    path.write_bytes(damage(path.read_bytes()))
    limits = read.Limits(memory=256 * MIB, threads=1, spill=tmp_path / "spill")
    with pytest.raises(PartUnreadableError, match=f"part {key} is not readable") as caught:
        list(read.stream(task, table.store, limits))
    assert str(tmp_path) not in str(caught.value)


@pytest.mark.long
@pytest.mark.parametrize("folder", ["a[bc]", "a b", "x%20y", "s*", "{a,b}", "ö'"])
def test_parts_in_folders_of_any_name_are_read(tmp_path: Path, folder: str) -> None:
    for name in (folder, "a", "ab", "sx"):
        (tmp_path / name).mkdir(exist_ok=True)
        filled(opened(StoreRoot("file", f"file://{tmp_path}/{name}", {})), 1)
    table = opened(StoreRoot("file", f"file://{tmp_path}/{folder}", {}))
    assert sorted(firnline.scan(table).to_arrow()["id"].to_pylist()) == [0, 1, 2, 3]


@pytest.mark.long
def test_no_part_behind_a_symbolic_link_is_opened(tmp_path: Path) -> None:
    table, task = table_without(tmp_path, slice(0))
    path = tmp_path / task.parts[0].key
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreAccessError, match="symbolic link"):
        read.relation(task, table.store)
