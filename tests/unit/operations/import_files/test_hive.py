"""Columns that only the folders of files state become columns of the table."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from firnline.appends.append import Appender
from firnline.clock import SystemClock
from firnline.errors import FirnlineError, PartSchemaError, UsageError
from firnline.kernel.local import LocalEngine
from firnline.operations.import_files.run import ImportReport, run_import
from firnline.operations.import_options import ImportOptions
from firnline.operations.operation import Work
from firnline.operations.options import VerifyOptions
from firnline.operations.verify.run import run_verify
from firnline.read.scan import scan
from tests.support import histories
from tests.support.histories import parquet_bytes, state
from tests.support.world import World, make_world

FOLDER = "memory://bucket/lake/in"
Import = Callable[..., ImportReport]


@pytest.fixture
def do_import(tmp_path: Path) -> Import:
    def run(world: World, source: str = FOLDER, **options: Any) -> ImportReport:
        world.clock.advance(10)
        engine = LocalEngine(lambda: world.store, tmp_path, world.ids, SystemClock(), 1)
        return run_import(
            Work(world.table, engine=lambda: engine), ImportOptions(source=source, **options)
        )

    return run


def put(world: World, name: str, **columns: list[Any]) -> str:
    key = f"lake/in/{name}"
    world.store.objects[key] = (parquet_bytes(pa.table(columns)), world.clock.now)
    return key


def rows(world: World, where: str | None = None) -> list[dict[str, Any]]:
    found = scan(world.table, where=where).to_arrow().to_pylist()
    return sorted(found, key=lambda row: str(row["v"]))


def test_a_folder_of_spark_keeps_the_columns_of_its_paths(
    do_import: Import, tmp_path: Path
) -> None:
    world = make_world()
    put(world, "day=2024-01-01/hour=7/a.parquet", v=[1, 2])
    put(world, "day=2024-01-02/hour=8/a.parquet", v=[3])
    put(world, "day=2024-01-02/hour=__HIVE_DEFAULT_PARTITION__/a.parquet", v=[4])
    report = do_import(world)
    first, second = datetime.date(2024, 1, 1), datetime.date(2024, 1, 2)
    expected = [
        {"v": 1, "day": first, "hour": 7},
        {"v": 2, "day": first, "hour": 7},
        {"v": 3, "day": second, "hour": 8},
        {"v": 4, "day": second, "hour": None},
    ]
    assert rows(world) == expected
    assert state(world).schema == {"v": "BIGINT", "day": "DATE", "hour": "INTEGER"}
    assert report.plan["path_columns"] == {"day": "DATE", "hour": "INTEGER"}
    anew: Any = report.plan["anew"]
    assert anew["why"] == {"the folders alone state day, hour": 3}
    assert list(state(world).partitions) == [
        "day=2024-01-01/hour=7",
        "day=2024-01-02/hour=8",
        "day=2024-01-02/hour=__null__",
    ]
    assert [row["v"] for row in rows(world, "day = DATE '2024-01-02' AND hour = 8")] == [3]
    assert run_verify(Work(world.table), VerifyOptions(deep=True, rows=True)).kinds == {}
    put(world, "../more/day=2024-01-01/hour=7/b.parquet", v=[5])
    world.store.objects["lake/more/day=2024-01-01/hour=7/b.parquet"] = world.store.objects.pop(
        "lake/in/../more/day=2024-01-01/hour=7/b.parquet"
    )
    do_import(world, "memory://bucket/lake/more")
    histories.merge(world, tmp_path)
    assert rows(world) == [*expected, {"v": 5, "day": first, "hour": 7}]


def test_such_a_column_partitions_the_table_that_says_so(do_import: Import) -> None:
    world = make_world(partition_by=["month(day)"])
    put(world, "day=2024-01-01/a.parquet", v=[1])
    put(world, "day=2024-01-02/a.parquet", v=[2])
    put(world, "day=2024-02-01/a.parquet", v=[3])
    do_import(world)
    assert list(state(world).partitions) == ["day_month=2024-01", "day_month=2024-02"]
    assert len(rows(world)) == 3


@pytest.mark.parametrize(
    ("folders", "kind"),
    [
        (["x=1", "x=02"], "INTEGER"),
        (["x=1", "x=4000000000"], "BIGINT"),
        (["x=1", "x=1.5"], "DOUBLE"),
        (["x=2024-01-01", "x=2024-01-01 10%3A00%3A00"], "TIMESTAMP"),
        (["x=2024-01-01", "x=1"], "VARCHAR"),
        (["x=20240101", "x=__HIVE_DEFAULT_PARTITION__"], "INTEGER"),
        (["x=a%2Fb", "x=2024-01-01T10:00:00Z"], "VARCHAR"),
        (["x=+5", "x=-0"], "INTEGER"),
        (["x=+.5", "x=5.", "x=1e5"], "DOUBLE"),
        (["x=%D9%A3"], "VARCHAR"),  # digits of Arabic, which Arrow does not read
        (["x=2024-W01-1"], "VARCHAR"),
        (["x=2024-02-30"], "VARCHAR"),
        (["x=2024-01-01T10:00:00.123456"], "TIMESTAMP"),
        (["x=2024-01-01T10:00:00.1234567"], "VARCHAR"),
        (["x=2024-01-01x10:00:00"], "VARCHAR"),
        (["x=0.5", "x=9007199254740992"], "DOUBLE"),
        (["x=0.5", "x=9007199254740993"], "VARCHAR"),  # a DOUBLE is the one before
        (["x=0.12345678901234567891"], "VARCHAR"),
        (["x=1e400", "x=1"], "VARCHAR"),
        (["x=1e99999999999999999999"], "VARCHAR"),
        (["x=+-1"], "VARCHAR"),
    ],
)
def test_its_type_is_that_which_spark_infers(
    do_import: Import, folders: list[str], kind: str
) -> None:
    world = make_world()
    for number, folder in enumerate(folders):
        put(world, f"{folder}/a.parquet", v=[number])
    assert do_import(world).plan["path_columns"] == {"x": kind}
    assert state(world).schema["x"] == kind
    assert len(rows(world)) == len(folders)


def test_somebody_may_state_its_type(do_import: Import) -> None:
    world = make_world()
    put(world, "code=007/a.parquet", v=[1])
    do_import(world, path_types=("code=VARCHAR",))
    assert rows(world) == [{"v": 1, "code": "007"}]


def test_a_type_that_does_not_fit_or_fits_nothing_is_refused(do_import: Import) -> None:
    world = make_world()
    put(world, "day=today/a.parquet", v=[1])
    before = dict(world.store.objects)
    for stated, kind, words in (
        ("day=DATE", PartSchemaError, "states 'today' for column 'day', which is no DATE"),
        ("hour=DATE", UsageError, "no folder states a column 'hour'"),
        ("day", UsageError, "states no type of a path column"),
        ("day=NOTHING", UsageError, "states no type of a path column"),
        *(
            (f"day={kind}", UsageError, "states no type of a path column")
            for kind in ("HUGEINT", "UUID", "JSON", "TIMESTAMP_S", "BIGINT[]")
        ),
        *(
            (f"day={kind}", PartSchemaError, "which is no")
            for kind in ("DOUBLE", "FLOAT", "TINYINT", "DECIMAL(3,1)", "BOOLEAN")
        ),
    ):
        with pytest.raises(FirnlineError, match=words) as caught:
            do_import(world, path_types=(stated,))
        assert isinstance(caught.value, kind)
    assert world.store.objects == before


def test_a_column_of_the_file_counts_and_not_that_of_its_path(do_import: Import) -> None:
    world = make_world()
    put(world, "day=1/a.parquet", v=[1], day=[7])
    report = do_import(world)
    assert rows(world) == [{"v": 1, "day": 7}]
    assert (report.plan["copies"], report.plan["path_columns"]) == (1, {})


def test_files_with_the_column_and_files_without_it_become_one_table(do_import: Import) -> None:
    world = make_world()
    put(world, "day=1/a.parquet", v=[1], day=[1])
    put(world, "day=2/a.parquet", v=[2])
    do_import(world)
    assert rows(world) == [{"v": 1, "day": 1}, {"v": 2, "day": 2}]
    assert state(world).schema["day"] == "BIGINT"


def test_the_type_that_the_table_has_stands(do_import: Import) -> None:
    world = make_world()
    Appender(world.table).append(pa.table({"v": [9], "day": ["x"]}))
    put(world, "day=2024-01-01/a.parquet", v=[1])
    do_import(world)
    assert rows(world) == [{"v": 1, "day": "2024-01-01"}, {"v": 9, "day": "x"}]


def test_the_imported_folder_itself_may_state_the_column(do_import: Import) -> None:
    world = make_world()
    put(world, "day=2024-01-01/a.parquet", v=[1])
    do_import(world, f"{FOLDER}/day=2024-01-01")
    assert rows(world) == [{"v": 1, "day": datetime.date(2024, 1, 1)}]


def test_who_does_not_want_them_has_the_files_copied_as_they_are(do_import: Import) -> None:
    world = make_world()
    put(world, "day=1/a.parquet", v=[1])
    report = do_import(world, no_path_columns=True)
    assert (rows(world), report.plan["copies"]) == ([{"v": 1}], 1)


@pytest.mark.parametrize(("kind", "number"), [("DOUBLE", 2**53 + 1), ("FLOAT", 2**24 + 1)])
def test_a_number_that_its_stated_type_would_change_is_refused(
    do_import: Import, kind: str, number: int
) -> None:
    world = make_world()
    put(world, f"n={number}/a.parquet", v=[1])
    with pytest.raises(PartSchemaError, match=f"states '{number}' for column 'n', which is no"):
        do_import(world, path_types=(f"n={kind}",))
    put(world, f"n={number}/a.parquet", v=[1])
    world.store.objects[f"lake/in/n={number - 1}/a.parquet"] = world.store.objects.pop(
        f"lake/in/n={number}/a.parquet"
    )
    do_import(world, path_types=(f"n={kind}",))
    assert rows(world) == [{"v": 1, "n": float(number - 1)}]


def test_escapes_that_are_no_utf_8_are_a_fault_of_their_files(do_import: Import) -> None:
    world = make_world()
    put(world, "x=%ff/a.parquet", v=[1])
    put(world, "x=%C3%BF/a.parquet", v=[2])
    with pytest.raises(PartSchemaError, match=r"x=%ff/a.parquet states '%ff', whose escapes"):
        do_import(world)
    plan: Any = do_import(world, skip_bad=True).plan
    assert [bad["file"] for bad in plan["bad"]] == ["lake/in/x=%ff/a.parquet"]
    assert rows(world) == [{"v": 2, "x": "ÿ"}]


@pytest.mark.parametrize("text", ["+-1", "++1", "nan(1)", "1e99999999999999999999", "0x10", "1_0"])
@pytest.mark.parametrize("kind", ["TINYINT", "DOUBLE", "FLOAT"])
def test_what_is_no_number_of_its_stated_type_is_refused_by_its_folder(
    do_import: Import, text: str, kind: str
) -> None:
    world = make_world()
    put(world, f"n={text}/a.parquet", v=[1])
    with pytest.raises(PartSchemaError, match=r"for column 'n', which is no"):
        do_import(world, path_types=(f"n={kind}",))


@pytest.mark.long
def test_texts_of_json_are_looked_at_before_they_are_a_part(do_import: Import) -> None:
    world = make_world()
    for name, text in (("good", '{"a": 1}'), ("bad", "{")):
        texts = pa.ExtensionArray.from_storage(pa.json_(), pa.array([text]))
        data = parquet_bytes(pa.table({"v": [1], "j": texts}))
        world.store.objects[f"lake/in/{name}.parquet"] = (data, world.clock.now)
    with pytest.raises(PartSchemaError, match=r"in/bad\.parquet: column 'j' is JSON, and '{' is"):
        do_import(world)
    do_import(world, skip_bad=True)
    assert rows(world) == [{"v": 1, "j": '{"a": 1}'}]
