"""Files whose columns have different types become one table with types that hold all values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from firnline.appends.append import Appender
from firnline.clock import SystemClock
from firnline.errors import FirnlineError, PartSchemaError, SchemaConflictError, UsageError
from firnline.kernel.local import LocalEngine
from firnline.operations.import_files.run import ImportReport, run_import
from firnline.operations.import_files.types import widest
from firnline.operations.import_options import ImportOptions
from firnline.operations.operation import Work
from firnline.operations.options import VerifyOptions
from firnline.operations.verify.run import run_verify
from firnline.read.scan import scan
from tests.support import histories
from tests.support.histories import parquet_bytes, state
from tests.support.world import World, make_world


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        ("INTEGER", "BIGINT", "BIGINT"),
        ("INTEGER", "DOUBLE", "DOUBLE"),
        ("BIGINT", "DOUBLE", "DOUBLE"),
        ("BIGINT", "FLOAT", "DOUBLE"),
        ("FLOAT", "DOUBLE", "DOUBLE"),
        ("DATE", "TIMESTAMP", "TIMESTAMP"),
        ("DECIMAL(5,2)", "DECIMAL(7,1)", "DECIMAL(8,2)"),
        ("DECIMAL(5,2)", "INTEGER", "DECIMAL(12,2)"),
        ("DECIMAL(38,0)", "DECIMAL(38,2)", None),
        ("STRUCT(a INTEGER)", "STRUCT(a INTEGER, b VARCHAR)", "STRUCT(a INTEGER, b VARCHAR)"),
        ("UBIGINT", "BIGINT", None),
        ("VARCHAR", "BIGINT", None),
        ("TIMESTAMP", "TIMESTAMP WITH TIME ZONE", None),
    ],
)
def test_the_type_that_holds_the_values_of_both(one: str, other: str, both: str | None) -> None:
    assert widest(one, other) == both
    assert widest(other, one) == both
    assert widest(one, one) == one


def do_import(world: World, folder: Path, **options: Any) -> ImportReport:
    world.clock.advance(10)
    engine = LocalEngine(lambda: world.store, folder, world.ids, SystemClock(), 1)
    wanted = ImportOptions(source="memory://bucket/lake/in", **options)
    return run_import(Work(world.table, engine=lambda: engine), wanted)


def put(world: World, name: str, data: pa.Table | bytes) -> str:
    key = f"lake/in/{name}"
    raw = data if isinstance(data, bytes) else parquet_bytes(data)
    world.store.objects[key] = (raw, world.clock.now)
    return key


@pytest.mark.long
def test_each_column_gets_the_widest_type_and_narrower_files_are_written_anew(
    tmp_path: Path,
) -> None:
    world = make_world()
    narrow = {"v": pa.array([1], pa.int32()), "w": pa.array([1], pa.int64())}
    put(world, "a.parquet", pa.table(narrow))
    put(world, "b.parquet", pa.table({"v": [2**40], "w": [1.5]}))
    put(world, "c.parquet", pa.table({"v": [3]}))
    report = do_import(world, tmp_path)
    assert state(world).schema == {"v": "BIGINT", "w": "DOUBLE"}
    found = sorted(scan(world.table).to_arrow().to_pylist(), key=lambda row: row["v"])
    assert found == [{"v": 1, "w": 1.0}, {"v": 3, "w": None}, {"v": 2**40, "w": 1.5}]
    assert report.plan["copies"] == 2
    anew: Any = report.plan["anew"]
    assert anew["why"] == {"column 'v' is INTEGER and becomes BIGINT": 1}
    histories.merge(world, tmp_path)
    assert run_verify(Work(world.table), VerifyOptions(deep=True, rows=True)).kinds == {}


def test_a_value_that_the_wider_type_does_not_hold_refuses_all(tmp_path: Path) -> None:
    world = make_world()
    put(world, "a.parquet", pa.table({"v": [2**60 + 1]}))
    put(world, "b.parquet", pa.table({"v": [1.5]}))
    before = dict(world.store.objects)
    with pytest.raises(PartSchemaError, match=r"lake/in/a\.parquet: column 'v' is int64 and holds"):
        do_import(world, tmp_path)
    assert world.store.objects == before


def test_the_type_of_the_table_stands_and_a_wider_file_says_how_to_widen_it(
    tmp_path: Path,
) -> None:
    world = make_world()
    Appender(world.table).append(pa.table({"v": pa.array([1], pa.int32())}))
    put(world, "a.parquet", pa.table({"v": [2]}))
    before = dict(world.store.objects)
    with pytest.raises(SchemaConflictError, match=r"--widen v=BIGINT"):
        do_import(world, tmp_path)
    assert world.store.objects == before


def test_all_faults_are_told_at_once_before_anything_is_copied(tmp_path: Path) -> None:
    world = make_world()
    put(world, "a.parquet", pa.table({"v": [1]}))
    put(world, "b.parquet", pa.table({"v": ["x"]}))
    put(world, "c.parquet", pa.table({"V": [1]}))
    put(world, "d.parquet", b"PAR1 and nothing else")
    before = dict(world.store.objects)
    with pytest.raises(UsageError, match="3 of 4 files cannot be taken") as caught:
        do_import(world, tmp_path)
    for words in (
        "lake/in/d.parquet is truncated",
        "column 'v' is BIGINT in file lake/in/a.parquet but VARCHAR in file lake/in/b.parquet",
        "column 'V' of file lake/in/c.parquet differs only in the case",
        "--skip-bad",
    ):
        assert words in str(caught.value)
    assert world.store.objects == before
    report = do_import(world, tmp_path, skip_bad=True)
    assert (report.plan["files"], report.plan["rows"]) == (1, 1)
    bad = report.plan["bad"]
    assert isinstance(bad, list)
    assert sorted(each["file"][-9:] for each in bad) == ["b.parquet", "c.parquet", "d.parquet"]


def test_what_is_left_out_is_named_and_strict_refuses_it(tmp_path: Path) -> None:
    world = make_world()
    put(world, "a.parquet", pa.table({"v": [1]}))
    put(world, "000000_0", pa.table({"v": [2]}))
    put(world, "notes", b"no Parquet")
    put(world, "notes.txt", b"no Parquet")
    put(world, "_temporary/b.parquet", pa.table({"v": [3]}))
    put(world, "_tenant=9/c.parquet", pa.table({"v": [4]}))
    put(world, "tmp/d.parquet", pa.table({"v": [5]}))
    for marker in ("", "tmp/", "_SUCCESS", "x_$folder$"):
        put(world, marker, b"")
    before = dict(world.store.objects)
    with pytest.raises(UsageError, match=r"4 objects of .* would be left out: .*notes\.txt"):
        do_import(world, tmp_path, strict=True, exclude=("tmp/*",))
    assert world.store.objects == before
    report = do_import(world, tmp_path, exclude=("tmp/*",))
    values = {row["v"]: row["_tenant"] for row in scan(world.table).to_arrow().to_pylist()}
    assert values == {1: None, 2: None, 4: 9}
    assert report.plan["ignored"] == [
        "lake/in/_temporary/b.parquet",
        "lake/in/notes.txt",
        "lake/in/tmp/d.parquet",
        "lake/in/notes",
    ]


def test_a_folder_without_a_file_says_what_lies_there(tmp_path: Path) -> None:
    world = make_world()
    put(world, "notes.txt", b"x")
    with pytest.raises(FirnlineError, match=r"no Parquet file lies under .*1 object there is none"):
        do_import(world, tmp_path)


def test_an_import_that_begins_a_table_goes_by_the_columns_that_the_settings_declare(
    tmp_path: Path,
) -> None:
    world = make_world(columns={"v": "BIGINT", "later": "VARCHAR"})
    put(world, "a.parquet", pa.table({"v": pa.array([1], pa.int32())}))
    do_import(world, tmp_path)
    assert state(world).schema == {"v": "BIGINT", "later": "VARCHAR"}
    assert scan(world.table).to_arrow().to_pylist() == [{"v": 1, "later": None}]
    put(world, "b.parquet", pa.table({"v": ["x"]}))
    with pytest.raises(SchemaConflictError, match="column 'v' is BIGINT in the table but VARCHAR"):
        do_import(world, tmp_path, new=True)
