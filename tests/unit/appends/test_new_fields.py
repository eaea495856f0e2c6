"""Fields that come inside a column, at any depth: no reader loses a value, of old parts or new."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import firnline
from firnline.appends.append import Appender
from firnline.errors import PartSchemaError, SchemaConflictError, UsageError
from firnline.log.txn_file import RunIdentity
from firnline.operations.operation import Work
from firnline.operations.options import (
    DeleteOptions,
    Evolution,
    LazyOptions,
    MergeOptions,
    RewriteOptions,
    VerifyOptions,
)
from firnline.operations.schema.lazy import run_lazily
from firnline.state.snapshot import read_snapshot
from tests.support.appends import make
from tests.support.world import make_world

Rows = list[dict[str, Any]]
OLD: Rows = [
    {"id": 1, "p": {"a": 1, "q": {"x": 1}}, "l": [{"a": 1}]},
    {"id": 2, "p": None, "l": []},
]
NEW: Rows = [{"id": 3, "p": {"c": "c", "q": {"y": {"z": 2.5}}}, "l": [{"c": True}, None]}]
BOTH: Rows = [
    {
        "id": 1,
        "p": {"a": 1, "q": {"x": 1, "y": None}, "c": None},
        "l": [{"a": 1, "c": None}],
    },
    {"id": 2, "p": None, "l": []},
    {
        "id": 3,
        "p": {"a": None, "q": {"x": None, "y": {"z": 2.5}}, "c": "c"},
        "l": [{"a": None, "c": True}, None],
    },
]
TOLD = {"p.q.y": "STRUCT(z DOUBLE)", "p.c": "VARCHAR", "l[].c": "BOOLEAN"}


def as_dictionaries(rows: Rows, folder: Path) -> Any:
    return rows


def as_arrow(rows: Rows, folder: Path) -> Any:
    return pa.Table.from_pylist(rows)


def as_batches(rows: Rows, folder: Path) -> Any:
    return pa.Table.from_pylist(rows).to_reader()


def as_pandas(rows: Rows, folder: Path) -> Any:
    return pytest.importorskip("pandas").DataFrame(rows)


def as_polars(rows: Rows, folder: Path) -> Any:
    return pytest.importorskip("polars").DataFrame(rows)


def as_files(rows: Rows, folder: Path) -> Any:
    path = folder / f"{rows[0]['id']}.parquet"
    pq.write_table(pa.Table.from_pylist(rows), path)
    return [path]


FORMS = (as_dictionaries, as_arrow, as_batches, as_pandas, as_polars, as_files)
FORM = pytest.mark.parametrize("form", FORMS)
Form = Callable[[Rows, Path], Any]


@pytest.fixture
def root(tmp_path: Path) -> str:
    return f"file://{tmp_path}/t"


def in_order(rows: Rows) -> Rows:
    return sorted(rows, key=lambda row: row["id"])


def seen(root: str, **asked: Any) -> Rows:
    """What every reader of this process shows: all of them the same."""
    scan = firnline.scan(root, **asked)
    found = in_order(scan.to_arrow().to_pylist())
    assert in_order(scan.arrow_reader().read_all().to_pylist()) == found
    assert in_order(scan.duckdb().to_arrow_table().to_pylist()) == found
    return found


@pytest.mark.long
@FORM
def test_they_are_added_and_told_and_nothing_is_lost(form: Form, root: str, tmp_path: Path) -> None:
    firnline.append(root, form(OLD, tmp_path))
    assert firnline.append(root, form(NEW, tmp_path)).new_columns == TOLD
    assert seen(root) == BOTH
    assert in_order(firnline.scan(root).arrow_dataset().to_table().to_pylist()) == BOTH
    assert seen(root, where="id = 1") == BOTH[:1]
    assert firnline.append(root, form(NEW, tmp_path)).new_columns == {}


@pytest.mark.long
@FORM
def test_they_are_refused_where_new_columns_are(form: Form, root: str, tmp_path: Path) -> None:
    firnline.append(root, form(OLD, tmp_path))
    before = seen(root)
    with pytest.raises(UsageError, match=r"p\.q\.y|l\[\]\.c"):
        firnline.append(root, form(NEW, tmp_path), new_columns=False)
    assert seen(root) == before
    assert firnline.append(root, form(OLD, tmp_path), new_columns=False).rows == 2


@pytest.mark.long
def test_merges_deletes_rewrites_and_checks_keep_them(root: str) -> None:
    firnline.append(root, OLD)
    firnline.append(root, NEW)
    deep = VerifyOptions(deep=True, rows=True)
    assert firnline.verify(root, deep).findings == ()
    firnline.merge(root, MergeOptions(full=True))
    assert seen(root) == BOTH
    assert firnline.verify(root, deep).findings == ()
    firnline.append(root, [{"id": 4, "p": {"a": 5, "late": 1}}])
    for mode in ("eager", "lazy"):
        firnline.delete(root, DeleteOptions(where=f"id = {2 if mode == 'lazy' else 1}", mode=mode))
    firnline.rewrite(root, RewriteOptions(where="id < 9"))
    assert [(row["id"], row["p"] and row["p"]["late"]) for row in seen(root)] == [
        (3, None),
        (4, 1),
    ]
    found = firnline.verify(root, deep).findings
    assert {each.kind for each in found} <= {"v1-sees-deleted-rows"}


@pytest.mark.long
def test_values_of_maps_get_them(root: str) -> None:
    kind = pa.map_(pa.string(), pa.struct([("a", pa.int64())]))
    firnline.append(root, pa.table({"id": [1], "m": pa.array([[("k", {"a": 1})]], kind)}))
    told = firnline.append(root, [{"id": 2, "m": {"k": {"c": [1.5]}}}]).new_columns
    assert told == {"m{}.c": "DOUBLE[]"}
    expected = [[("k", {"a": 1, "c": None})], [("k", {"a": None, "c": [1.5]})]]
    assert [row["m"] for row in seen(root)] == expected
    rows = in_order(firnline.scan(root).arrow_dataset().to_table().to_pylist())
    assert [row["m"] for row in rows] == expected
    firnline.merge(root, MergeOptions(full=True))
    assert [row["m"] for row in seen(root)] == expected


@pytest.mark.long
def test_a_stream_and_changes_show_them(root: str) -> None:
    firnline.append(root, OLD)
    first = firnline.changes(root, None).position
    firnline.append(root, NEW)
    found = firnline.changes(root, first)
    assert [row["p"] for row in found.to_arrow().to_pylist()] == [BOTH[2]["p"]]


def test_two_writers_that_add_fields_at_the_same_time_both_succeed() -> None:
    world = make_world()
    appenders = [Appender(world.table), Appender(world.table)]
    for appender in appenders:
        appender.append([{"id": 1, "p": {"a": 1}}])
    for name, appender in zip("bc", appenders, strict=True):
        appender.columns.look_again = appender.columns.read  # type: ignore[method-assign]
        appender.append([{"id": 2, "p": {name: 1}}])
    schema = read_snapshot(world.store, world.table.paths).schema
    assert schema["p"] == "STRUCT(a BIGINT, b BIGINT, c BIGINT)"


def test_a_writer_looks_again_before_it_gives_a_field_a_type() -> None:
    world = make_world()
    late, other = Appender(world.table), Appender(world.table)
    late.append([{"p": {"a": 1}}])
    other.append([{"p": {"n": 0.5}}])
    assert late.append(pa.table({"p": [{"n": 1.5}]})).new_columns == {}
    with pytest.raises(SchemaConflictError, match=r"field 'p\.n' is DOUBLE in .* but VARCHAR"):
        late.append(pa.table({"p": [{"n": "text"}]}))


def test_a_wider_type_that_is_set_meanwhile_and_a_new_field_are_both_kept() -> None:
    world = make_world()
    writer = Appender(world.table)
    writer.append(pa.table({"p": pa.array([{"a": 1}], pa.struct([("a", pa.int32())]))}))
    asked = Evolution(widen={"p": "STRUCT(a BIGINT, n VARCHAR)"})
    run_lazily(Work(world.table, RunIdentity(run_id="r")), LazyOptions(evolution=asked))
    kind = pa.struct([("a", pa.int32()), ("b", pa.bool_())])
    writer.append(pa.table({"p": pa.array([{"a": 2, "b": True}], kind)}))
    schema = read_snapshot(world.store, world.table.paths).schema
    assert schema["p"] == "STRUCT(a BIGINT, n VARCHAR, b BOOLEAN)"


def test_an_append_costs_no_more_requests_than_one_with_a_new_column() -> None:
    table = make()
    appender = Appender(table)
    appender.append([{"p": {"a": 1}}])
    column = appender.append([{"p": {"a": 1}, "n": 1}]).requests
    field = appender.append([{"p": {"a": 1, "n": 1}}]).requests
    assert {kind: field[kind] for kind in ("get", "put", "list")} == {
        kind: column[kind] for kind in ("get", "put", "list")
    }


@pytest.mark.long
@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"p": {"A": 1}}, "'a' and 'A' are one name in SQL"),
        ({"p": {1: 1}}, "1 is not the name of a field"),
        ({"p": {"b": [1, "x"]}}, r"field 'p\.b' holds a value that does not fit"),
        ({"p": {"a": {"z": 1}}}, r"field 'p\.a' holds a value that does not fit BIGINT"),
        ({"p": [1]}, r"column 'p' holds a value that does not fit STRUCT\(a BIGINT\)"),
    ],
)
def test_what_cannot_be_a_field_is_refused_by_name(
    more: dict[str, Any], said: str, root: str
) -> None:
    firnline.append(root, [{"p": {"a": 1}}])
    with pytest.raises(PartSchemaError, match=said):
        firnline.append(root, [more])
    assert firnline.scan(root).to_arrow().num_rows == 1


def endless() -> list[Any]:
    found: list[Any] = []
    found.append(found)
    return found


def levels(count: int, end: Any = 1) -> Any:
    for _ in range(count):
        end = {"a": end}
    return end


@pytest.mark.long
@pytest.mark.parametrize("first", [None, {"p": 1}, {"p": [1]}, {"p": {"a": {"b": 1}}}])
@pytest.mark.parametrize(
    "value",
    [endless(), {"z": endless()}, levels(33), levels(50_000)],
    ids=["self", "in", "33", "50k"],
)
def test_values_deeper_than_any_reader_takes_are_refused(
    value: Any, first: dict[str, Any] | None, root: str
) -> None:
    if first is not None:
        firnline.append(root, [first])
    with pytest.raises(PartSchemaError, match=r"'p(\..*|\[])?' (is nested|holds a value)"):
        firnline.append(root, [{"id": 1}, {"id": 2, "p": value}])
    assert first is None or firnline.scan(root).to_arrow().num_rows == 1


@pytest.mark.long
def test_half_a_character_is_no_name_of_a_column(root: str) -> None:
    with firnline.Appender(root) as appender:
        with pytest.raises(PartSchemaError, match="is not a column name"):
            appender.append([{"id": 1, "\ud800": 1}])
        appender.append([{"id": 1}])
    assert firnline.scan(root).to_arrow().to_pylist() == [{"id": 1}]


@pytest.mark.long
def test_rows_of_one_appender_bring_them_one_after_the_other(root: str) -> None:
    with firnline.Appender(root) as appender:
        for value in (
            {"a": 1},
            {"c": 8},
            {"a": 2, "d": {"e": [{"f": 1}]}},
            {"d": {"e": [{"g": 2}]}},
        ):
            appender.append({"p": value})
    found = [row["p"] for row in firnline.scan(root).to_arrow().to_pylist()]
    none = {"a": None, "c": None, "d": None}
    assert found == [
        {**none, "a": 1},
        {**none, "c": 8},
        {**none, "a": 2, "d": {"e": [{"f": 1, "g": None}]}},
        {**none, "d": {"e": [{"f": None, "g": 2}]}},
    ]
