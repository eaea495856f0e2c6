"""Files of which only their rows show that they do not fit: all named, or all left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from firnline.appends.append import Appender
from firnline.clock import SystemClock
from firnline.errors import FirnlineError, PartSchemaError, PartUnreadableError, UsageError
from firnline.kernel.local import LocalEngine
from firnline.operations.import_files.run import ImportReport, run_import
from firnline.operations.import_options import ImportOptions
from firnline.operations.operation import Work
from tests.support.histories import ids_of, parquet_bytes, state
from tests.support.world import World, make_world

FOLDER = "memory://bucket/lake/in"
Import = Callable[..., ImportReport]


@pytest.fixture
def do_import(tmp_path: Path) -> Import:
    def run(world: World, **options: Any) -> ImportReport:
        world.clock.advance(10)
        engine = LocalEngine(lambda: world.store, tmp_path, world.ids, SystemClock(), 2)
        wanted = ImportOptions(source=FOLDER, **options)
        return run_import(Work(world.table, engine=lambda: engine), wanted)

    return run


def put(world: World, name: str, data: bytes) -> None:
    world.store.objects[f"lake/in/{name}"] = (data, world.clock.now)


def rows(*ids: int, **more: Any) -> bytes:
    return parquet_bytes(pa.table({"id": list(ids), **more}))


def damaged() -> bytes:
    """A file with a good footer, and a page that nobody can read."""
    data = bytearray(parquet_bytes(pa.table({"id": list(range(1000))}), use_dictionary=False))
    data[20:400] = bytes(380)
    return bytes(data)


def not_utf_8() -> bytes:
    texts = pa.array([b"\xff\xfe"]).buffers()
    return rows(1, s=pa.Array.from_buffers(pa.string(), 1, texts))


def too_far() -> bytes:
    return rows(1, t=pa.array([2**62], pa.timestamp("ms")))


def beyond_double() -> bytes:
    return rows(2**53 + 1)


def nothing_but_empty_lists() -> bytes:
    return rows(1, e=pa.array([[]], pa.list_(pa.null())))


BAD: list[tuple[Callable[[], bytes], type[FirnlineError], str]] = [
    (damaged, PartUnreadableError, "cannot be read"),
    (not_utf_8, PartSchemaError, "column 's' holds a value that does not fit VARCHAR"),
    (too_far, PartSchemaError, "column 't' holds a value that does not fit TIMESTAMP"),
    (nothing_but_empty_lists, PartSchemaError, "column 'e' holds nothing but empty lists"),
]


@pytest.mark.long
@pytest.mark.parametrize(("bad", "error", "says"), BAD)
def test_it_is_named_and_nothing_is_taken(
    do_import: Import, bad: Callable[[], bytes], error: type[FirnlineError], says: str
) -> None:
    world = make_world()
    put(world, "day=1/good.parquet", rows(7))
    put(world, "day=1/bad.parquet", bad())
    with pytest.raises(error, match=rf"lake/in/day=1/bad\.parquet.*{says}"):
        do_import(world, new=True)
    assert not any(key.startswith("t/") for key in world.store.objects)


@pytest.mark.long
@pytest.mark.parametrize(("bad", "error", "says"), BAD)
def test_it_is_left_out_and_the_others_are_taken(
    do_import: Import, bad: Callable[[], bytes], error: type[FirnlineError], says: str
) -> None:
    del error
    world = make_world()
    put(world, "day=1/a.parquet", rows(7))
    put(world, "day=1/bad.parquet", bad())
    put(world, "day=1/c.parquet", rows(8))
    put(world, "day=2/bad.parquet", bad())
    for _ in range(2):
        plan: Any = do_import(world, new=True, skip_bad=True).plan
        assert {each["file"] for each in plan["bad"]} == {
            "lake/in/day=1/bad.parquet",
            "lake/in/day=2/bad.parquet",
        }
        assert all(says in each["reason"] for each in plan["bad"])
        assert ids_of(world) == Counter([7, 8]), "and no file is taken twice"
    parts = [key for key in world.store.objects if key.startswith("t/_data/")]
    assert sorted(parts) == sorted(state(world).live), "what was written with it is gone"
    put(world, "day=1/bad.parquet", rows(9))
    put(world, "day=2/bad.parquet", rows(10))
    do_import(world, new=True)
    assert ids_of(world) == Counter([7, 8, 9, 10]), "once it is whole it is taken"


def test_a_value_that_the_type_of_the_table_does_not_hold_skips_its_file(do_import: Import) -> None:
    world = make_world()
    Appender(world.table).append([{"id": 0.5}])
    put(world, "a.parquet", rows(1))
    put(world, "b.parquet", beyond_double())
    assert do_import(world, skip_bad=True).plan["files"] == 1
    assert ids_of(world) == Counter([0.5, 1.0])


def test_all_of_them_are_told_in_one_list(do_import: Import) -> None:
    world = make_world()
    for number, (bad, _, _) in enumerate(BAD):
        put(world, f"day={number}/bad.parquet", bad())
    put(world, "day=9/good.parquet", rows(1))
    with pytest.raises(UsageError, match=r"4 of 5 files cannot be taken") as caught:
        do_import(world)
    for number, (_, _, says) in enumerate(BAD):
        assert f"lake/in/day={number}/bad.parquet" in caught.value.message
        assert says in caught.value.message
    assert "--skip-bad" in caught.value.next_step


@pytest.mark.long
def test_of_a_large_file_that_several_tasks_read_no_row_is_taken(do_import: Import) -> None:
    world = make_world(append={"part_bytes": "1MiB"})
    ids = list(range(400_000))
    texts = pa.array([b"ok"] * 399_999 + [b"\xff"])
    bad = pa.table({"id": ids, "s": pa.Array.from_buffers(pa.string(), len(ids), texts.buffers())})
    put(world, "day=1/bad.parquet", parquet_bytes(bad, row_group_size=40_000, compression="none"))
    put(world, "day=1/good.parquet", rows(-1))
    plan: Any = do_import(world, skip_bad=True).plan
    assert [each["file"] for each in plan["bad"]] == ["lake/in/day=1/bad.parquet"]
    assert ids_of(world) == Counter([-1])


def test_a_folder_of_nothing_else_changes_nothing(do_import: Import) -> None:
    world = make_world()
    put(world, "day=1/bad.parquet", not_utf_8())
    report = do_import(world, skip_bad=True)
    assert (report.log_file, report.parts_written) == (None, 0)
    assert not any(key.startswith("t/") for key in world.store.objects)


def test_a_file_that_is_left_out_gives_no_column_its_type(do_import: Import) -> None:
    world = make_world()
    put(world, "k=1/a.parquet", rows(2**53 + 1))
    wide = pa.table({"id": [0.5] * 1000, "s": ["x"] * 1000})
    bad = bytearray(parquet_bytes(wide, use_dictionary=False))
    bad[20:120] = bytes(100)
    put(world, "k=zz/b.parquet", bytes(bad))
    plan: Any = do_import(world, skip_bad=True, new=True).plan
    assert [each["file"] for each in plan["bad"]] == ["lake/in/k=zz/b.parquet"]
    assert plan["path_columns"] == {"k": "INTEGER"}
    assert state(world).schema == {"id": "BIGINT", "k": "INTEGER"}
    assert ids_of(world) == Counter([2**53 + 1])
    parts = [key for key in world.store.objects if key.startswith("t/_data/")]
    assert sorted(parts) == sorted(state(world).live)


def test_a_file_that_only_contradicts_one_that_is_left_out_is_taken(do_import: Import) -> None:
    world = make_world()
    bad = bytearray(parquet_bytes(pa.table({"id": ["x"] * 1000}), use_dictionary=False))
    bad[20:120] = bytes(100)
    put(world, "day=1/a.parquet", bytes(bad))
    put(world, "day=1/b.parquet", rows(7))
    plan: Any = do_import(world, skip_bad=True, new=True).plan
    assert [each["file"] for each in plan["bad"]] == ["lake/in/day=1/a.parquet"]
    assert ids_of(world) == Counter([7])
    assert state(world).schema == {"id": "BIGINT", "day": "INTEGER"}
