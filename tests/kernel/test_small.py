"""Small groups are merged by Arrow in memory, as DuckDB would have merged them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from firnline.kernel import merge
from firnline.kernel.outputs import FORMS
from firnline.kernel.small import is_small
from firnline.kernel.task import (
    Bucket,
    Cluster,
    Conversion,
    KernelResult,
    KernelTask,
    KeyFile,
    KeyRange,
    Slice,
    Source,
)
from firnline.parquet.digests import digest_file
from firnline.parquet.join import read_footer
from firnline.rows.given import Fitting
from firnline.types.arrow import from_arrow
from firnline.types.digests import total
from firnline.types.order import SortKey
from firnline.types.rowhash import digest_of
from tests.kernel.conftest import Group
from tests.kernel.test_moves import all_kinds, by_arrow, filtered
from tests.support.nulls import PLAIN, nulls_by_duckdb, with_nulls

ID = {"id": "BIGINT", "name": "VARCHAR"}


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": list(ids), "name": [f"n{i % 3}" for i in ids]})


def small(group: Group, *tables: pa.Table, **changed: Any) -> KernelTask:
    """A task as operations make it: sizes, rows and digests are those of the markers."""
    columns = changed.pop("columns", None) or from_arrow(tables[0].schema)
    return stated(group, group.task(group.put(*tables), columns, **changed))


def stated(group: Group, task: KernelTask) -> KernelTask:
    inputs = []
    for source in task.inputs:
        path = group.root / source.key
        digest = digest_file(path)
        values = {
            "bytes": path.stat().st_size,
            "rows": pq.read_metadata(path).num_rows,
            "digest": None if digest is None else str(digest[0]),
        }
        inputs.append(replace(source, **values))
    return replace(task, inputs=tuple(inputs))


def output(group: Group, task: KernelTask) -> Path:
    result = group.run(task)
    assert result.error is None, result.error
    (part,) = result.parts
    return group.root / part.key


@contextmanager
def only_duckdb() -> Iterator[None]:
    """Merge as if no group were small."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(merge, "is_small", lambda _: False)
        yield


def both(group: Group, task: KernelTask) -> tuple[Path, Path]:
    """The output of Arrow, and that of DuckDB."""
    ours = output(group, task)
    with only_duckdb():
        theirs = output(group, task)
    assert by_arrow(ours)
    assert not by_arrow(theirs)
    return ours, theirs


def alike(group: Group, ours: KernelResult, theirs: KernelResult) -> tuple[Path, Path]:
    """The parts of Arrow and of DuckDB, of which markers and footers state the same."""
    assert ours.error is theirs.error is None
    (one,), (other,) = ours.parts, theirs.parts
    assert (one.rows, one.stats, one.digest, one.sorted_by) == (
        other.rows,
        other.stats,
        other.digest,
        other.sorted_by,
    )
    first, second = group.root / one.key, group.root / other.key
    assert by_arrow(first)
    assert not by_arrow(second)
    assert read_footer(first).schema == read_footer(second).schema
    assert pq.read_metadata(first).metadata == pq.read_metadata(second).metadata
    return first, second


@pytest.mark.parametrize("nulls", [False, True])
def test_a_small_group_has_the_rows_schema_and_statistics_of_duckdb(
    group: Group, nulls: bool
) -> None:
    tables = [all_kinds(start, nulls=nulls).slice(0, 500) for start in (700, 0, 300)]
    columns = from_arrow(tables[0].schema)
    task = small(group, *tables, sort=("big", "text"), stats_columns=tuple(columns))
    ours, theirs = group.run(task), None
    with only_duckdb():
        theirs = group.run(task)
    first, second = alike(group, ours, theirs)
    assert pq.read_table(first).equals(pq.read_table(second))


def test_duckdb_finds_the_nulls_beside_one_text(group: Group) -> None:
    """By bounds in the headers of pages DuckDB 2.0 takes all rows of some pages for nulls."""
    rows = with_nulls(0, 2).drop_columns("s")
    for path in both(group, small(group, rows, rows)):
        assert list(nulls_by_duckdb(path, PLAIN)) == [2] * len(PLAIN)


def test_dictionaries_and_filters_are_those_of_duckdb(group: Group) -> None:
    tables = [all_kinds(start, nulls=True).slice(0, 900) for start in (0, 900)]
    ours, theirs = both(group, small(group, *tables, sort=("big",), row_group_rows=122_880))

    assert filtered(ours) == filtered(theirs)


_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "BIGINT": st.integers(-(2**63), 2**63 - 1),
    "UBIGINT": st.integers(0, 2**64 - 1),
    "TINYINT": st.integers(-128, 127),
    "DOUBLE": st.floats() | st.just(-0.0) | st.just(float("nan")),
    "FLOAT": st.floats(width=32),
    "BOOLEAN": st.booleans(),
    "VARCHAR": st.text(max_size=4),
    "BLOB": st.binary(max_size=3),
    "DATE": st.dates(date(1, 1, 1)),
    "TIMESTAMP": st.datetimes(datetime(1, 1, 1), datetime(9999, 1, 1)),  # noqa: DTZ001 -- the type has no zone
    "DECIMAL(10,2)": st.integers(-(10**9), 10**9).map(lambda n: Decimal(n).scaleb(-2)),
}
_TYPES = {
    "BIGINT": pa.int64(),
    "UBIGINT": pa.uint64(),
    "TINYINT": pa.int8(),
    "DOUBLE": pa.float64(),
    "FLOAT": pa.float32(),
    "BOOLEAN": pa.bool_(),
    "VARCHAR": pa.string(),
    "BLOB": pa.binary(),
    "DATE": pa.date32(),
    "TIMESTAMP": pa.timestamp("us"),
    "DECIMAL(10,2)": pa.decimal128(10, 2),
}


@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_rows_are_sorted_in_the_order_of_duckdb(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    place = tmp_path_factory.mktemp("sorted")
    group = Group(place / "store", place / "scratch")
    kinds = data.draw(st.lists(st.sampled_from(sorted(_VALUES)), min_size=1, max_size=2))
    inexact = {"DOUBLE", "FLOAT"}
    order = tuple(
        SortKey(f"k{n}", kind not in inexact and data.draw(st.booleans()))
        for n, kind in enumerate(kinds)
    )
    tables = []
    for _ in range(2):
        count = data.draw(st.integers(1, 6))
        values = {
            f"k{n}": pa.array(
                data.draw(st.lists(st.none() | _VALUES[kind], min_size=count, max_size=count)),
                _TYPES[kind],
            )
            for n, kind in enumerate(kinds)
        }
        tables.append(pa.table(values))
    columns = {f"k{n}": kind for n, kind in enumerate(kinds)}
    task = small(group, *tables, columns=columns)
    ours, theirs = both(group, replace(task, sort_by=order))
    # NaN is equal to nothing, and a text of a value tells zeros apart, which are equal in an order.
    shown = "SELECT " + ", ".join(
        f"CASE WHEN {c} = 0 THEN '0' ELSE {c}::VARCHAR END"
        if kind in inexact
        else f"encode(hex({c}))"
        if kind == "BLOB"
        else f"{c}::VARCHAR"
        for c, kind in columns.items()
    )
    one, other = (duckdb.execute(f"{shown} FROM '{path}'").fetchall() for path in (ours, theirs))
    assert one == other


def test_a_descending_order_of_floats_is_left_to_duckdb(group: Group) -> None:
    task = small(group, pa.table({"v": [1.0, float("nan")]}), pa.table({"v": [None, 2.0]}))
    assert is_small(replace(task, sort_by=(SortKey("v"),)))
    assert not is_small(replace(task, sort_by=(SortKey("v", True),)))


@pytest.mark.parametrize(
    "changed",
    [
        {"primary_key": ("id",)},
        {"keep": "id > 1"},
        {"query": "FROM _rows"},
        {"keys": KeyFile(key="k", bytes=1, columns=("id",))},
        {"cluster": Cluster(method="range", columns=("id",), outputs=2)},
        {"slice": Slice(ranges=(KeyRange(column="id", low="1", high=None),))},
        {"conversions": (Conversion(column="id", name="id"),)},
        {"only_touched": True},
        {"columns": (("id", "BIGINT"), ("name", "VARCHAR[]"))},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_what_changes_rows_is_left_to_duckdb(group: Group, changed: dict[str, Any]) -> None:
    task = small(group, rows(1, 2), rows(3))
    assert is_small(task)
    assert not is_small(replace(task, **changed))


@pytest.mark.parametrize(
    "changed",
    [
        {"where_hidden": "id = 1"},
        {"sources": (Source(column="id", names=("old",)),)},
        {"fitting": Fitting(casts=(("id", "BIGINT"),))},
        {"row_groups": (0,)},
        {"rows": None},
        {"rows": 70_000},
        {"bytes": 5 * 2**20},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_an_input_that_is_not_plain_or_not_small_is_left_to_duckdb(
    group: Group, changed: dict[str, Any]
) -> None:
    task = small(group, rows(1, 2), rows(3))
    first, *others = task.inputs
    inputs = (replace(first, **changed), *others)
    assert not is_small(replace(task, inputs=inputs))


def test_each_input_is_read_once_and_the_output_written_once(group: Group) -> None:
    result = group.run(small(group, rows(3, 1), rows(2), rows(9, 8), sort=("id",)))
    assert result.error is None
    assert (result.requests["get"], result.requests["put"]) == (3, 1)
    assert (result.rows_in, result.parts[0].rows) == (5, 5)


def test_a_small_group_touches_no_disk_once_the_form_of_its_columns_is_known(group: Group) -> None:
    assert group.run(small(group, rows(3, 1), rows(2), sort=("id",))).error is None
    shutil.rmtree(group.scratch, ignore_errors=True)
    group.scratch.parent.mkdir(parents=True, exist_ok=True)
    group.scratch.touch()  # where no folder can be made
    result = group.run(small(group, rows(9), rows(8), sort=("id",)))
    assert result.error is None
    assert group.read(result)["id"].to_pylist() == [8, 9]


@pytest.mark.parametrize(
    "other",
    [
        pa.table({"id": [7]}),
        pa.table({"id": pa.array([7], pa.int32()), "name": ["x"]}),
        pa.table({"ID": [7], "name": ["x"]}),
        pa.table({"name": pa.array([b"x"], pa.binary()), "id": [7]}).select(["id"]),
        pa.table({"id": [7], "name": pa.array(["x"]).dictionary_encode()}),
    ],
    ids=["a column less", "narrower", "another case", "no text", "a dictionary"],
)
def test_a_part_with_other_columns_is_merged_all_the_same_and_read_once(
    group: Group, other: pa.Table
) -> None:
    result = group.run(small(group, rows(1, 2), other, columns=ID, sort=("id",)))
    assert result.error is None, result.error
    assert result.requests["get"] == 2
    merged = pq.read_table(group.root / result.parts[0].key)
    assert merged["id"].to_pylist() == [1, 2, 7]
    assert merged.column_names == ["id", "name"]


def test_an_input_that_is_gone_is_named(group: Group) -> None:
    task = small(group, rows(1), rows(2))
    (group.root / task.inputs[1].key).unlink()
    result = group.run(task)
    assert (result.error_type, result.error_key) == ("PartGoneError", task.inputs[1].key)


@pytest.mark.parametrize("cut", [0, 3, 20, 100])
def test_a_damaged_input_is_named_and_read_once(group: Group, cut: int) -> None:
    task = small(group, rows(1), rows(2))
    path = group.root / task.inputs[1].key
    path.write_bytes(path.read_bytes()[:cut])
    result = group.run(task)
    assert (result.error_type, result.error_key) == ("PartUnreadableError", task.inputs[1].key)
    assert result.requests["get"] == 2
    assert result.requests["put"] == 0


@pytest.mark.parametrize("at", [10, 30, 60, 90])
def test_an_input_with_a_damaged_page_is_named(group: Group, at: int) -> None:
    task = small(group, rows(1, 2, 3, 4), rows(5, 6, 7, 8), sort=("id",))
    path = group.root / task.inputs[1].key
    data = bytearray(path.read_bytes())
    data[at : at + 12] = b"\xff" * 12
    path.write_bytes(data)
    ours = group.run(task)
    with only_duckdb():
        theirs = group.run(task)
    assert ours.parts == theirs.parts == ()
    assert (ours.error_type, ours.error_key) == (theirs.error_type, theirs.error_key)
    assert ours.requests["get"] == 2


def test_the_input_on_which_the_store_fails_is_named(group: Group) -> None:
    task = small(group, rows(1), rows(2), rows(3))
    path = group.root / task.inputs[1].key
    path.unlink()
    path.mkdir()
    result = group.run(task)
    assert result.error_key == task.inputs[1].key


def test_a_text_that_is_not_utf8_is_refused(group: Group) -> None:
    task = small(group, rows(1), rows(2))
    broken = pa.table({"id": [2], "name": pa.array([b"\xff\xfe"]).view(pa.string())})
    pq.write_table(broken, group.root / task.inputs[1].key)
    result = group.run(task)
    assert result.error is not None
    assert result.parts == ()


def test_rows_that_are_not_those_of_the_marker_are_refused(group: Group) -> None:
    task = small(group, rows(1), rows(2))
    pq.write_table(rows(3), group.root / task.inputs[1].key)
    result = group.run(task)
    assert result.error_type == "RowsDifferError"
    assert task.inputs[1].key in (result.error or "")


@pytest.mark.parametrize("proof", ["rows", "counts"])
def test_the_part_states_the_digest_of_all_rows(group: Group, proof: str) -> None:
    tables = rows(1, 5), rows(2)
    task = small(group, *tables, sort=("id",), proof=proof)
    result = group.run(task)
    digest = str(total(map(digest_of, tables)))
    assert result.parts[0].digest == digest
    footer = pq.read_metadata(group.root / result.parts[0].key)
    assert footer.metadata[b"firnline.digest"].decode() == digest
    assert footer.metadata[b"firnline.rows"] == b"3"
    assert footer.row_group(0).sorting_columns[0].column_index == 0


def test_without_digests_in_the_markers_the_rows_are_proven_all_the_same(group: Group) -> None:
    task = small(group, rows(1, 5), rows(2))
    inputs = tuple(replace(each, digest=None) for each in task.inputs)
    task = replace(task, inputs=inputs)
    assert group.run(task).parts[0].digest == str(total(map(digest_of, (rows(1, 5), rows(2)))))
    counts = replace(task, proof="counts")
    assert group.run(counts).parts[0].digest is None


def test_a_long_text_that_many_rows_share_does_not_take_memory_for_each(group: Group) -> None:
    task = small(group, rows(1), rows(2), sort=("id",))
    path = group.root / task.inputs[1].key
    names = pa.DictionaryArray.from_arrays(pa.array([0] * 20_000, pa.int32()), ["x" * 2_000])
    pq.write_table(pa.table({"id": list(range(20_000)), "name": names}), path, store_schema=False)
    task = stated(group, task)
    assert is_small(task)
    before = pa.total_allocated_bytes()
    result = group.run(task)
    assert result.error is None, result.error
    assert pa.total_allocated_bytes() - before < 2**20
    # As codes of its dictionary all the way: decoded it would take 40 MB.
    written = pq.ParquetFile(group.root / result.parts[0].key, read_dictionary=["name"]).read()
    assert written["name"].nbytes < 2**20
    assert written.num_rows == 20_001


def test_buckets_are_counted_as_for_other_groups(group: Group) -> None:
    task = small(group, rows(1, 5), rows(2), buckets=(Bucket(column="id", count=8),))
    ours = group.run(task)
    with only_duckdb():
        theirs = group.run(task)
    assert ours.parts[0].hashes == theirs.parts[0].hashes != ()


def test_a_group_that_is_stopped_writes_nothing(group: Group) -> None:
    from firnline.clock import SystemClock
    from firnline.ids import SystemIds

    task = small(group, rows(1), rows(2))
    result = merge.merge_group(
        task, group.store, group.scratch, SystemIds(), SystemClock(), lambda: True
    )
    assert "was stopped" in (result.error or "")
    assert result.requests["put"] == 0


def test_a_full_scratch_is_told_as_such_where_a_small_group_asks_the_database(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise duckdb.IOException('Could not write "types.parquet": No space left on device')

    task = small(group, rows(1), rows(2), sort_by=(SortKey("id"),))
    monkeypatch.setattr(FORMS, "get", full)
    error = group.run(task).error
    assert error is not None
    assert error.startswith(f"the scratch folder {group.scratch} is full")
