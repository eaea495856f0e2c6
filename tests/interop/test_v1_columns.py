"""What clients of log version 1 write beside us that the table does not have, or has otherwise."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import firnline
from firnline.appends.append import Appender
from firnline.clock import SystemClock
from firnline.kernel.local import LocalEngine
from firnline.log.txn_file import RunIdentity
from firnline.operations.delete.run import run_delete
from firnline.operations.merge.run import run_merge
from firnline.operations.operation import Work
from firnline.operations.options import (
    DeleteOptions,
    MergeOptions,
    RebuildOptions,
    RewriteOptions,
    VerifyOptions,
)
from firnline.operations.rebuild.run import run_rebuild
from firnline.operations.rewrite.run import run_rewrite
from firnline.operations.verify.run import run_verify
from firnline.state.snapshot import read_snapshot
from tests.support.reading import visible_ids
from tests.support.v1_client import V1Client
from tests.support.world import World, make_world

RUN = RunIdentity(run_id="r")
SCHEMA = {"id": "BIGINT", "v": "VARCHAR"}
PATH = "ts_day=2024-01-01/d=x%20y"


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "v": [f"v{i}" for i in ids]})


def merged_by_them() -> tuple[World, V1Client, str]:
    """A partition that a client of version 1 has merged, with the columns of its path in it."""
    world = make_world(merge={"min_inputs": 2}, sort_by=["id"])
    client = V1Client(world)
    for number in range(3):
        client.append_rows(PATH, rows(number), SCHEMA)
    part = client.merge_rows(PATH)
    assert columns_of(world, part) == ["id", "v", "ts_day", "d"]
    return world, client, part


def columns_of(world: World, part: str) -> list[str]:
    return list(pq.read_schema(io.BytesIO(world.store.objects[part][0])).names)


def live(world: World) -> list[str]:
    return sorted(read_snapshot(world.store, world.table.paths).live)


def engine_of(world: World, scratch: Path) -> Any:
    return lambda: LocalEngine(lambda: world.store, scratch, world.ids, SystemClock())


def test_a_merge_leaves_columns_of_the_path_out_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    world, client, part = merged_by_them()
    client.append_rows(PATH, rows(7), SCHEMA)
    report = run_merge(Work(world.table, RUN, engine_of(world, tmp_path)), MergeOptions())
    assert report.failures == ()
    assert [columns_of(world, p) for p in live(world)] == [["id", "v"]]
    assert part not in live(world)
    assert "parts have the columns d, ts_day, which the path has" in caplog.text
    assert visible_ids(world.table).total() == 4


def test_an_eager_delete_and_a_rewrite_leave_them_out_too(tmp_path: Path) -> None:
    world, _, _ = merged_by_them()
    engine = engine_of(world, tmp_path)
    run_delete(Work(world.table, RUN, engine), DeleteOptions(where="id = 1", mode="eager"))
    assert sorted(visible_ids(world.table)) == [0, 2]
    run_rewrite(Work(world.table, RUN, engine), RewriteOptions(where="id <> 2", force=True))
    assert sorted(visible_ids(world.table)) == [0]
    assert [columns_of(world, p) for p in live(world)] == [["id", "v"]]


def test_a_column_of_the_path_that_the_table_has_is_data(tmp_path: Path) -> None:
    world = make_world(merge={"min_inputs": 2}, sort_by=["id"])
    client = V1Client(world)
    for number in range(2):
        client.append_rows("v=a", rows(number), SCHEMA)
    run_merge(Work(world.table, RUN, engine_of(world, tmp_path)), MergeOptions())
    (part,) = live(world)
    assert pq.read_table(io.BytesIO(world.store.objects[part][0]))["v"].to_pylist() == ["v0", "v1"]


def test_a_column_that_neither_table_nor_path_have_is_still_an_error(tmp_path: Path) -> None:
    world = make_world(merge={"min_inputs": 2}, sort_by=["id"])
    client = V1Client(world)
    for number in range(2):
        client.append_rows("d=1", rows(number).append_column("w", pa.array([1])), SCHEMA)
    with pytest.raises(Exception, match="that the table's schema does not have"):
        run_merge(Work(world.table, RUN, engine_of(world, tmp_path)), MergeOptions())


def test_readers_do_not_show_columns_of_the_path() -> None:
    world, _, _ = merged_by_them()
    found = firnline.scan(world.table)
    frames = found.polars().collect().to_arrow(), found.arrow_dataset().to_table()
    for table in (found.to_arrow(), found.duckdb().to_arrow_table(), *frames):
        assert table.column_names == ["id", "v"]
        assert sorted(table["id"].to_pylist()) == [0, 1, 2]


def test_a_deep_verify_takes_no_offence_at_columns_of_the_path() -> None:
    world, _, _ = merged_by_them()
    report = run_verify(Work(world.table), VerifyOptions(deep=True))
    assert [f.kind for f in report.findings if f.kind == "footer-schema"] == []


def test_a_rebuild_does_not_make_columns_of_the_path_columns_of_the_table(tmp_path: Path) -> None:
    world, client, _ = merged_by_them()
    Appender(world.table).append(rows(5), partition="d=2")
    for key in client.log_files():
        del world.store.objects[key]
    run_rebuild(Work(world.table, RUN), RebuildOptions(include=("*",)))
    assert dict(read_snapshot(world.store, world.table.paths).schema) == SCHEMA
