"""Sequence and columns of an import, and of a repair of the schema, are of one moment."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NoReturn

import pyarrow as pa
import pytest

import firnline
from firnline.appends.append import Appender
from firnline.errors import SchemaConflictError, UsageError
from firnline.log.txn_file import RunIdentity
from firnline.operations.drop.run import run_drop
from firnline.operations.import_files.run import run_import
from firnline.operations.import_options import ImportOptions
from firnline.operations.operation import Work
from firnline.operations.options import DropOptions, Evolution, LazyOptions, SchemaFixOptions
from firnline.operations.schema.lazy import run_lazily
from firnline.operations.schema.run import run_schema_fix
from firnline.state.snapshot import read_snapshot
from firnline.store.base import ObjectMeta
from tests.support.histories import parquet_bytes
from tests.support.world import FaultyStore, World, make_world

RUN = RunIdentity(run_id="r")


@dataclass
class Beside(FaultyStore):
    """Something happens once, when a request of a kind is made for the n-th time."""

    what: str = ""
    after: int = 0
    happens: list[Callable[[], object]] = field(default_factory=list)

    def list(self, prefix: str, start_after: str | None = None) -> Iterator[ObjectMeta]:
        found = list(super().list(prefix, start_after))
        self._count(f"list {prefix}")
        yield from found

    def put_new(self, key: str, data: bytes) -> None:
        self._count(f"put {key}")
        super().put_new(key, data)

    def _count(self, call: str) -> None:
        if not self.happens or self.what not in call:
            return
        self.after -= 1
        if self.after < 0:
            self.happens.pop()()


def world_of() -> World:
    world = make_world()
    Appender(world.table).append(pa.table({"id": [1], "note": ["old"]}))
    return world


def by_id(world: World, column: str) -> dict[int, object]:
    rows = firnline.scan(world.table).to_arrow().to_pylist()
    return {row["id"]: row.get(column) for row in rows}


@pytest.mark.parametrize("after", range(3))
def test_a_file_is_imported_by_the_columns_of_the_transaction_that_it_says_it_knows(
    after: int,
) -> None:
    world = world_of()
    rows = pa.table({"id": [2], "note": [7]})
    world.store.objects["lake/in/a.parquet"] = (parquet_bytes(rows), world.clock.now)

    def drop() -> None:
        run_lazily(Work(world.table, RUN), LazyOptions(evolution=Evolution(drop=("note",))))

    store = Beside(world.store, what="list ", after=after, happens=[drop])
    world.clock.advance(10)
    table = replace(world.table, store=store)
    # Before the change the file has another type than the table, after it a column more. In between
    # it would be taken for a column more that goes with the change.
    with suppress(SchemaConflictError):
        run_import(Work(table), ImportOptions(source="memory://bucket/lake/in"))
        assert {
            row["id"]: row.get("note") for row in firnline.scan(world.table).to_arrow().to_pylist()
        } == {1: None, 2: 7}
    assert not store.happens


def test_an_import_that_finds_a_transaction_unpublished_publishes_it_first() -> None:
    world = world_of()
    options = LazyOptions(evolution=Evolution(rename={"note": "remark"}))
    run_lazily(Work(world.table, RUN), options)
    published = [key for key in world.store.objects if "/_log/" in key and "_m_" in key]
    del world.store.objects[published[0]]
    rows = pa.table({"id": [2], "remark": ["new"]})
    world.store.objects["lake/in/a.parquet"] = (parquet_bytes(rows), world.clock.now)
    world.clock.advance(10)
    run_import(Work(world.table), ImportOptions(source="memory://bucket/lake/in"))
    assert {
        row["id"]: row["remark"] for row in firnline.scan(world.table).to_arrow().to_pylist()
    } == {1: "old", 2: "new"}


def test_a_change_of_the_schema_is_planned_again_when_a_rival_changed_the_same_column(
    tmp_path: Path,
) -> None:
    world = make_world(partition_by=["id"])
    Appender(world.table).append(pa.table({"id": [1, 2], "note": pa.array([1, 2], pa.int32())}))
    run_drop(Work(world.table, RUN), DropOptions(partitions=("id=1", "id=2")))
    other = SchemaFixOptions(evolution=Evolution(drop=("note",)))

    def rival() -> None:
        run_schema_fix(Work(world.table, RUN, no_engine), other)

    store = Beside(world.store, what="put t/_txn/", happens=[rival])
    table = replace(world.table, store=store)
    wider = SchemaFixOptions(evolution=Evolution(widen={"note": "BIGINT"}))
    with pytest.raises(UsageError, match="no column 'note'"):
        run_schema_fix(Work(table, RUN, no_engine), wider)
    assert "note" not in read_snapshot(world.store, world.table.paths).schema


def no_engine() -> NoReturn:
    raise AssertionError
