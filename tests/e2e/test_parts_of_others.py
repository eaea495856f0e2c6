"""Tables that hold parts of other writers: what cannot be read or merged is named, and repaired."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import firnline
from firnline.appends.append import Appender
from firnline.clock import SystemClock
from firnline.errors import FirnlineError
from firnline.kernel.local import LocalEngine
from firnline.log.txn_file import RunIdentity
from firnline.operations.delete.run import run_delete
from firnline.operations.drop.run import run_drop
from firnline.operations.merge.run import run_merge
from firnline.operations.operation import Work
from firnline.operations.options import (
    ColumnFix,
    DeleteOptions,
    DropOptions,
    Evolution,
    LazyOptions,
    MergeOptions,
    SchemaFixOptions,
    VerifyOptions,
)
from firnline.operations.schema.lazy import run_lazily
from firnline.operations.schema.run import run_schema_fix
from firnline.operations.verify.run import VerifyReport, run_verify
from firnline.types.arrow import parse_type
from tests.support.forms import LOST, MERGED, by_duckdb, damaged, in_groups, int96
from tests.support.hostile import refusal
from tests.support.log_tables import snapshot
from tests.support.world import World, make_world

RUN = RunIdentity(run_id="r")
ALL = VerifyOptions(deep=True, rows=True)
READERS: dict[str, Callable[[World], pa.Table]] = {
    "arrow": lambda world: firnline.scan(world.table).to_arrow(),
    "where": lambda world: firnline.scan(world.table, where="id >= 0").to_arrow(),
    "polars": lambda world: firnline.scan(world.table).polars().collect().to_arrow(),
}


def table_of(kind: str, *files: bytes, **settings: Any) -> tuple[World, list[str]]:
    """A table whose parts in ``d=1`` are these files, by a log file that says nothing of them.

    Two parts of its own in ``d=2``. Returns the keys of the files, too.
    """
    world = make_world(partition_by=["d"], merge={"min_inputs": 2}, **settings)
    for first in (0, 2):
        world.clock.advance(10)
        x = pa.nulls(2, parse_type(kind))
        Appender(world.table).append(pa.table({"d": [2, 2], "id": [first, first + 1], "x": x}))
    schema = json.dumps({"d": "BIGINT", "id": "BIGINT", "x": kind})
    keys = []
    for data in files:
        world.clock.advance(10)
        t = world.clock.now
        keys.append(world.table.paths.data_part("d=1", world.ids.uuid7(t)))
        world.store.objects[keys[-1]] = (data, t)
        marker = json.dumps({"p": keys[-1], "b": len(data), "t": t})
        text = f'{{"v":1,"t":{t},"sch":1,"f":2}}\n{schema}\n{marker}'
        world.store.objects[f"t/_log/{t}_other.jsonl"] = (text.encode(), t)
    return world, keys


def engine(world: World, folder: Path) -> Callable[[], LocalEngine]:
    return lambda: LocalEngine(lambda: world.store, folder, world.ids, SystemClock())


def merge(world: World, folder: Path) -> Any:
    return run_merge(Work(world.table, RUN, engine(world, folder)), MergeOptions(full=True))


def repair(world: World, folder: Path, kind: str) -> Any:
    """What the check names: the column with the type that the table has for it."""
    options = SchemaFixOptions(fixes=(ColumnFix(column="x", type=kind),), all_parts=True)
    return run_schema_fix(Work(world.table, RUN, engine(world, folder)), options)


def check(world: World, options: VerifyOptions = ALL) -> VerifyReport:
    return run_verify(Work(world.table), options)


def values(world: World) -> list[Any]:
    table = firnline.scan(world.table, partitions="d=1").to_arrow()
    column = table.sort_by("id").column("x")
    # Times far away have no form in Python.
    far = pa.types.is_timestamp(column.type)
    found: list[Any] = (column.cast(pa.int64()) if far else column).to_pylist()
    return found


def advises(error: FirnlineError, *what: str) -> None:
    """The error says what to do, and not that somebody should report it."""
    assert "--debug" not in str(error)
    assert "another machine" not in str(error)
    assert [each for each in what if each not in str(error)] == []


@pytest.mark.parametrize("name", MERGED)
def test_a_part_in_an_odd_form_is_named_and_written_anew(tmp_path: Path, name: str) -> None:
    kind, make = MERGED[name]
    data = make(tmp_path)
    world, keys = table_of(kind, data, data)
    error = refusal(keys[0], merge, world, tmp_path / "scratch")
    advises(error, "'x'", "schema fix")
    for options in (VerifyOptions(deep=True), VerifyOptions(rows=True)):
        found = check(world, options)
        assert not found.healthy
        assert found.findings[0].object == keys[0]
        assert "'x'" in found.findings[0].sentence
    deep = check(world, VerifyOptions(deep=True)).findings
    command = f"firnline schema fix t --column x --type {repr(kind) if ' ' in kind else kind}"
    assert all(f"{command} --all-parts" in each.next_step for each in deep), deep

    report = repair(world, tmp_path / "scratch", kind)
    assert (report.counts.parts_in, report.counts.rows_out) == (2, 4)
    assert check(world).findings == ()
    repaired = values(world)
    assert len(repaired) == 4
    assert None not in repaired
    merge(world, tmp_path / "scratch")
    assert values(world) == repaired
    assert [len(parts) for parts in snapshot(world).partitions.values()] == [1, 1]
    assert check(world).findings == ()
    assert repair(world, tmp_path / "scratch", kind).transaction is None, "nothing is left to do"


@pytest.mark.parametrize("name", [name for name in MERGED if name != "int96 out of range"])
def test_a_repair_keeps_what_arrow_reads(tmp_path: Path, name: str) -> None:
    kind, make = MERGED[name]
    data = make(tmp_path)
    world, _ = table_of(kind, data)
    repair(world, tmp_path / "scratch", kind)
    stored = pq.read_table(io.BytesIO(data)).sort_by("id").column("x")
    if isinstance(stored.type, pa.BaseExtensionType):
        stored = pa.chunked_array([chunk.storage for chunk in stored.chunks])
    expected = stored.cast(pa.int64()) if pa.types.is_timestamp(stored.type) else stored
    assert values(world) == expected.to_pylist()


def test_of_a_table_with_a_key_the_same_rows_win_after_a_repair(tmp_path: Path) -> None:
    kind, make = MERGED["geometry"]
    old, new = make(tmp_path), by_duckdb("'POINT(3 4)'::GEOMETRY", tmp_path)
    world, _ = table_of(kind, old, new, primary_key=["id"])
    before = values(world)
    assert len(before) == 2
    repair(world, tmp_path / "scratch", kind)
    assert values(world) == before
    merge(world, tmp_path / "scratch")
    assert values(world) == before
    assert check(world).findings == ()


def test_a_column_that_has_another_name_by_now_is_repaired_by_that_name(tmp_path: Path) -> None:
    kind, make = MERGED["split bytes"]
    world, _ = table_of(kind, make(tmp_path))
    run_lazily(Work(world.table, RUN), LazyOptions(evolution=Evolution(rename={"x": "y"})))
    (finding,) = check(world, VerifyOptions(deep=True)).findings
    assert "column 'y'" in finding.sentence
    options = SchemaFixOptions(fixes=(ColumnFix(column="y", type=kind),), all_parts=True)
    run_schema_fix(Work(world.table, RUN, engine(world, tmp_path)), options)
    assert check(world).findings == ()
    found = firnline.scan(world.table, partitions="d=1").to_arrow()
    assert sorted(found["y"].to_pylist()) == [b"abcd", b"efgh"]


@pytest.mark.parametrize("name", LOST)
def test_a_part_that_nobody_reads_is_named_by_the_check_and_by_every_reader(
    tmp_path: Path, name: str
) -> None:
    world, (key, _) = table_of("VARCHAR", LOST[name](), in_groups(2))
    found = [f for f in check(world, VerifyOptions(rows=True)).findings if f.severity == "error"]
    assert [(f.kind, f.object) for f in found] == [("rows-unreadable", key)]
    assert "firnline drop" in found[0].next_step
    assert ("column 'x'" in found[0].sentence) == (name != "encrypted column"), found[0].sentence
    for read in READERS.values():
        advises(refusal(key, read, world), "firnline drop")
    advises(refusal(key, merge, world, tmp_path / "scratch"))
    eager = DeleteOptions(where="d = 1 and id = 1", mode="eager")
    advises(refusal(key, run_delete, Work(world.table, RUN, engine(world, tmp_path)), eager))


@pytest.mark.parametrize("name", LOST)
def test_without_its_partition_the_rest_of_the_table_is_whole(tmp_path: Path, name: str) -> None:
    world, _ = table_of("VARCHAR", LOST[name](), in_groups(2))
    run_drop(Work(world.table, RUN), DropOptions(partitions=("d=1",)))
    assert check(world).healthy
    for read in READERS.values():
        assert sorted(read(world)["id"].to_pylist()) == [0, 1, 2, 3]
    merge(world, tmp_path / "scratch")
    assert len(snapshot(world).live) == 1
    assert check(world).healthy


def test_a_restored_object_is_read_and_merged_again(tmp_path: Path) -> None:
    good = in_groups(2)
    world, (key, _) = table_of("VARCHAR", damaged(good), good)
    assert check(world).kinds == {"rows-unreadable": 1}
    world.store.objects[key] = (good, world.clock.now)
    assert check(world).findings == ()
    merge(world, tmp_path / "scratch")
    assert values(world) == ["a"] * 4


@pytest.mark.parametrize("counts", [(2, 0, 1), (0, 3), (3, 0), (0, 0, 3)])
def test_row_groups_without_rows_are_read_and_merged(
    tmp_path: Path, counts: tuple[int, ...]
) -> None:
    world, _ = table_of("VARCHAR", in_groups(*counts), in_groups(*counts))
    for read in READERS.values():
        assert read(world).num_rows == 10
    assert len(firnline.scan(world.table).duckdb().fetchall()) == 10
    assert firnline.scan(world.table).arrow_dataset().to_table().num_rows == 10
    assert check(world).findings == ()
    merge(world, tmp_path / "scratch")
    assert values(world) == ["a"] * 6


def test_a_check_of_odd_parts_says_so_once_for_all_of_them() -> None:
    files = [int96(2_458_850)] * 3
    world, keys = table_of("TIMESTAMP", *files)
    report = check(world)
    (finding,) = report.findings
    assert (finding.kind, finding.severity, finding.object) == ("part-form", "warning", keys[0])
    assert "2 other parts" in finding.sentence
    assert (report.checked.read_parts, report.checked.unstated_parts) == (5, 3)
