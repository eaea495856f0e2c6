"""A group is merged column by column, on every idle core, as DuckDB would have merged it."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, datetime
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from firnline.clock import SystemClock
from firnline.cores import Cores
from firnline.ids import SystemIds
from firnline.kernel import columns, outputs, proof
from firnline.kernel.arrow_reader import NotHereError
from firnline.kernel.duckdb import never
from firnline.kernel.merge import merge_in
from firnline.kernel.task import BloomFilters, KernelResult, KernelTask, Source
from firnline.kernel.workplace import Workplace
from firnline.parquet.join import read_footer
from firnline.parquet.part import PartMetadata
from firnline.types.arrow import from_arrow
from firnline.types.order import SortKey
from firnline.types.rowhash import digest_of
from tests.kernel.conftest import Group
from tests.kernel.test_moves import all_kinds, by_arrow, filtered
from tests.kernel.test_small import alike
from tests.kernel.test_touched import key_file
from tests.support.nulls import NULLS, nulls_by_duckdb, with_nulls

ROWS = 1_024
"""Rows of an input from which its columns are read one by one."""


@pytest.fixture(autouse=True)
def narrow_tables_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables of a few columns go column by column on one core, for the tests."""
    monkeypatch.setattr(columns, "WIDE", 1)


def numbers(start: int = 0, count: int = ROWS) -> pa.Table:
    values = range(start, start + count)
    return pa.table({"id": [i * 7919 % 65_537 for i in values], "name": [f"n{i}" for i in values]})


def nested(start: int, *, nulls: bool = True) -> pa.Table:
    def some(of: Any) -> list[Any]:
        return [None if nulls and i % 7 == 0 else of(i) for i in range(start, start + ROWS)]

    return pa.table(
        {
            "id": [i * 7919 % 65_537 for i in range(start, start + ROWS)],
            "tags": pa.array(some(lambda i: [f"t{i % 5}", None][: i % 3]), pa.list_(pa.string())),
            "at": pa.array(
                some(lambda i: {"x": float(i) if i % 2 else None, "who": f"w{i % 4}"}),
                pa.struct([("x", pa.float64()), ("who", pa.string())]),
            ),
            "deep": pa.array(
                some(lambda i: [{"n": i, "l": [i, None]}] * (i % 3)),
                pa.list_(pa.struct([("n", pa.int32()), ("l", pa.list_(pa.int64()))])),
            ),
            "map": pa.array(
                some(lambda i: [(f"k{i % 3}", i / 2)][: i % 2]), pa.map_(pa.string(), pa.float64())
            ),
        }
    )


@contextmanager
def only_duckdb() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(outputs, "may_go_by_columns", lambda *_: False)
        patch.setattr(outputs, "move", lambda *_: False)
        yield


def run(group: Group, task: KernelTask, idle: int = 0) -> KernelResult:
    """Merge with so many idle cores besides the one of the task."""
    cores = Cores(idle)
    place = Workplace(group.scratch, SystemIds(), SystemClock(), cores)
    try:
        result = merge_in(place, task, group.store, never)
    finally:
        place.close()
    assert not list(group.scratch.glob("*")), "a kernel leaves nothing behind"
    assert cores.idle == idle, "what was borrowed is given back"
    return result


def output(group: Group, task: KernelTask, idle: int = 0) -> Path:
    result = run(group, task, idle)
    assert result.error is None, result.error
    (part,) = result.parts
    return group.root / part.key


def both(group: Group, task: KernelTask, idle: int = 0) -> tuple[Path, Path]:
    """The output that was written column by column, and that of DuckDB."""
    ours = output(group, task, idle)
    with only_duckdb():
        theirs = output(group, task)
    assert by_arrow(ours)
    assert not by_arrow(theirs)
    return ours, theirs


@pytest.mark.parametrize("idle", [0, 3])
@pytest.mark.parametrize("nulls", [False, True])
def test_every_plain_type_is_sorted_and_written_as_by_duckdb(
    group: Group, nulls: bool, idle: int
) -> None:
    tables = [all_kinds(start, nulls=nulls).slice(0, 3000) for start in (6000, 0, 3000)]
    names = from_arrow(tables[0].schema)
    # Of the rows with a null no other column says which comes first.
    task = group.task(group.put(*tables), names, sort=("big", "long"), stats_columns=tuple(names))
    ours = run(group, task, idle)
    with only_duckdb():
        theirs = run(group, task)
    first, second = alike(group, ours, theirs)
    kept = pq.read_table(first), pq.read_table(second)
    if nulls:
        kept = (
            kept[0].filter(pc.is_valid(kept[0]["big"])),
            kept[1].filter(pc.is_valid(kept[1]["big"])),
        )
    assert kept[0].equals(kept[1])


def test_row_groups_dictionaries_and_filters_are_those_of_duckdb(group: Group) -> None:
    tables = [all_kinds(start, nulls=True) for start in (0, 8192)]
    names = from_arrow(tables[0].schema)
    task = group.task(group.put(*tables), names, sort=("big",), row_group_rows=122_880)
    ours, theirs = both(group, task)
    assert filtered(ours) == filtered(theirs)
    ours, _ = both(group, replace(task, row_group_rows=4096))
    groups = [pq.read_metadata(ours).row_group(n).num_rows for n in range(4)]
    assert groups == [4096] * 4


@pytest.mark.parametrize("idle", [0, 2])
def test_lists_structs_and_maps_go_with_their_rows(group: Group, idle: int) -> None:
    tables = nested(0), nested(ROWS)
    task = group.task(group.put(*tables), from_arrow(tables[0].schema), sort=("id",))
    ours, theirs = both(group, task, idle)
    assert read_footer(ours).schema == read_footer(theirs).schema
    assert pq.read_table(ours).equals(pq.read_table(theirs))
    assert filtered(ours) == filtered(theirs)


def test_bounds_of_nested_floats_are_not_stated_as_arrow_leaves_out_nan(group: Group) -> None:
    at = pa.array([{"x": float("nan")}, {"x": 1.0}] * ROWS, pa.struct([("x", pa.float64())]))
    rows = pa.table({"id": range(2 * ROWS), "spot": at})
    task = group.task(group.put(rows, rows), from_arrow(rows.schema), sort=("id",))
    ours, _ = both(group, task)
    query = f"SELECT count(*) FROM '{ours}' WHERE spot.x > 5"
    assert duckdb.execute(query).fetchall() == [(2 * ROWS,)]


def test_duckdb_finds_the_nulls_beside_one_text(group: Group) -> None:
    """By bounds in the headers of pages DuckDB 2.0 takes all rows of some pages for nulls."""
    rows = with_nulls(0, ROWS)
    sources = group.put(rows, with_nulls(ROWS, ROWS))
    task = group.task(sources, from_arrow(rows.schema), sort=("id",), row_group_rows=ROWS // 4)
    for path in both(group, task):
        assert list(nulls_by_duckdb(path)) == [ROWS] * len(NULLS)


def test_a_column_named_as_a_field_of_a_struct_keeps_its_values_findable(group: Group) -> None:
    nan = [float("nan"), 1.0] * ROWS
    at = pa.array([{"x": each} for each in nan], pa.struct([("x", pa.float64())]))
    rows = pa.table({"id": range(2 * ROWS), "at.x": nan, "at": at})
    task = group.task(group.put(rows, rows), from_arrow(rows.schema), sort=("id",))
    result = run(group, task)
    assert result.error is None, result.error
    path = group.root / result.parts[0].key
    for column in ('"at.x"', "at.x"):
        query = f"SELECT count(*) FROM '{path}' AS t WHERE t.{column} > 5"
        assert duckdb.execute(query).fetchall() == [(2 * ROWS,)], column


_VALUES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "BIGINT": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "DOUBLE": (pa.float64(), st.floats() | st.just(-0.0) | st.just(float("nan"))),
    "BOOLEAN": (pa.bool_(), st.booleans()),
    "VARCHAR": (pa.string(), st.text(max_size=4)),
    "DATE": (pa.date32(), st.dates(date(1, 1, 1))),
    "TIMESTAMP": (pa.timestamp("us"), st.datetimes(datetime(1, 1, 1))),  # noqa: DTZ001 -- the type has no zone
    "INTEGER[]": (pa.list_(pa.int32()), st.lists(st.none() | st.integers(0, 9), max_size=3)),
}


@given(data=st.data())
@settings(max_examples=15, deadline=None)
def test_whatever_the_order_rows_stay_whole_and_come_as_from_duckdb(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    place = tmp_path_factory.mktemp("columns")
    group = Group(place / "store", place / "scratch")
    kinds = data.draw(st.lists(st.sampled_from(sorted(_VALUES)), min_size=1, max_size=3))
    keys = [n for n, kind in enumerate(kinds) if not kind.endswith("]")]
    order = tuple(SortKey(f"k{n}", data.draw(st.booleans())) for n in keys)
    tables = []
    for start in (0, 5):
        count = data.draw(st.integers(1, 5))
        drawn: dict[str, Any] = {"row": list(range(start, start + count))}
        for n, kind in enumerate(kinds):
            of = st.lists(st.none() | _VALUES[kind][1], min_size=count, max_size=count)
            drawn[f"k{n}"] = pa.array(data.draw(of), _VALUES[kind][0])
        tables.append(pa.table(drawn))
    names = from_arrow(tables[0].schema)
    # The row number last: no two rows are equal.
    task = replace(
        group.task(group.put(*tables), names), sort_by=(*order, SortKey("row")), row_group_rows=4
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(columns, "_LEAST_ROWS", 0)
        ours, theirs = both(group, task, data.draw(st.integers(0, 2)))
    shown = "SELECT row FROM '{}'"
    assert (
        duckdb.execute(shown.format(ours)).fetchall()
        == duckdb.execute(shown.format(theirs)).fetchall()
    )
    assert digest_of(pq.read_table(ours)) == digest_of(pa.concat_tables(tables))


def test_few_columns_are_left_to_duckdb_unless_a_core_is_idle(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(columns, "WIDE", 3)
    tables = numbers(), numbers(ROWS)
    task = group.task(group.put(*tables), from_arrow(tables[0].schema), sort=("id",))
    assert not by_arrow(output(group, task, 0))
    assert by_arrow(output(group, task, 1))
    monkeypatch.setattr(columns, "WIDE", 2)
    assert by_arrow(output(group, task, 0))
    assert not by_arrow(output(group, replace(task, sort_by=()), 0))


def test_rows_that_only_move_keep_their_place_and_use_idle_cores(group: Group) -> None:
    tables = numbers(), numbers(ROWS)
    task = group.task(group.put(*tables), from_arrow(tables[0].schema))
    rows = pa.concat_tables(tables)
    seen = set[str]()
    real = columns._Writing.write

    def watched(self: Any, piece: Any) -> Any:
        seen.add(threading.current_thread().name)
        together.wait(30)
        return real(self, piece)

    together = threading.Barrier(2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(columns._Writing, "write", watched)
        path = output(group, task, 1)
    assert pq.read_table(path).equals(rows)
    assert len(seen) == 2


@pytest.mark.parametrize(("sorted_by", "meanwhile"), [("id", True), ("name", False)])
def test_columns_are_read_while_the_order_is_made_where_there_is_memory_for_both(
    group: Group, monkeypatch: pytest.MonkeyPatch, sorted_by: str, meanwhile: bool
) -> None:
    """The order of texts may take all the memory that DuckDB has."""
    read, places = threading.Event(), columns.places_in_order
    found: list[bool] = []

    def made(*given: Any) -> pa.Array:
        found.append(read.wait(30 if meanwhile else 0.2))
        return places(*given)

    def batches(*given: Any) -> Any:
        read.set()
        return real(*given)

    real = columns._batches
    monkeypatch.setattr("firnline.kernel.outputs.places_in_order", made)
    monkeypatch.setattr(columns, "_batches", batches)
    tables = [numbers(n * ROWS) for n in range(3)]
    columns_of = from_arrow(tables[0].schema)
    task = group.task(group.put(*tables), columns_of, sort_by=(SortKey(sorted_by),))
    written = pq.read_table(output(group, task, idle=1))
    assert found == [meanwhile]
    assert written == written.sort_by(sorted_by)


def test_texts_with_many_values_and_few_values_in_other_files(group: Group) -> None:
    few = pa.table({"id": range(ROWS), "t": [f"v{i % 3}" for i in range(ROWS)]})
    many = pa.table({"id": range(ROWS, 9 * ROWS), "t": [f"w{i}" * 9 for i in range(8 * ROWS)]})
    task = group.task(group.put(few, many, few), from_arrow(few.schema), sort=("id",))
    ours, theirs = both(group, task)
    assert digest_of(pq.read_table(ours)) == digest_of(pq.read_table(theirs))


def test_large_texts_and_categories_of_other_writers_are_texts(group: Group) -> None:
    texts = [f"n{i % 9}" for i in range(ROWS)]
    ids = pa.array(range(ROWS))
    large = pa.table({"id": ids, "t": pa.array(texts, pa.large_string())})
    category = pa.table({"id": ids, "t": pa.array(texts).dictionary_encode()})
    plain = pa.table({"id": ids, "t": texts})
    task = group.task(group.put(large, category, plain), from_arrow(plain.schema), sort=("id",))
    ours, theirs = both(group, task)
    assert pq.read_table(ours).schema.types == [pa.int64(), pa.string()]
    assert digest_of(pq.read_table(ours)) == digest_of(pq.read_table(theirs))


def test_texts_that_are_no_utf_8_are_refused_whatever_their_writer_called_them(
    group: Group,
) -> None:
    bad = pa.array([b"\xff\xfe"] * ROWS, pa.large_binary()).view(pa.large_string())
    (key,) = group.put(pa.table({"id": range(ROWS), "t": bad}))
    task = group.task([key], {"id": "BIGINT", "t": "VARCHAR"}, sort=("id",))
    assert run(group, task).error_key == key


@pytest.mark.parametrize(("row_group_rows", "fits"), [(64, True), (2 * ROWS, False)])
def test_texts_that_a_dictionary_makes_short_are_decoded_a_row_group_at_a_time(
    group: Group, row_group_rows: int, fits: bool
) -> None:
    long = "x" * 2**16
    texts = [long if i % 2 else str(i) for i in range(2 * ROWS)]
    rows = pa.table({"id": range(2 * ROWS), "t": texts})
    task = group.task(group.put(rows), from_arrow(rows.schema), sort=("id",))
    path = output(group, replace(task, row_group_rows=row_group_rows), 1)
    assert by_arrow(path) == fits
    assert pq.read_table(path).equals(rows)


def test_columns_that_do_not_fit_into_memory_are_left_to_duckdb(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = numbers(), numbers(ROWS)
    task = group.task(group.put(*tables), from_arrow(tables[0].schema), sort=("id",))
    assert by_arrow(output(group, task))
    monkeypatch.setattr(columns, "_MEMORY_SHARE", 1e-4)
    assert not by_arrow(output(group, task))


# --- rows that go ---------------------------------------------------------------------------------


def versions(start: int, *, tombstones: bool = False) -> pa.Table:
    """Rows of 700 keys, each with its number: most keys are there twice or more."""
    values = range(start, start + ROWS)
    return pa.table(
        {
            "k": [i * 7919 % 700 for i in values],
            "row": list(values),
            "v": [i % 9 for i in values],
            "gone": [tombstones and i % 5 == 0 for i in values],
            "name": [f"n{i % 13}" for i in values],
        }
    )


_LEAVES_OUT: dict[str, dict[str, Any]] = {
    "a delete": {"hidden": "name = 'n3' OR k < 50"},
    "deletes of one part": {"hidden_in_first": "row % 3 = 0"},
    "keys in a file": {"keys": pa.table({"k": range(0, 700, 7)})},
    "a filter": {"keep": "v > 2"},
    "a primary key": {"primary_key": ("k",)},
    "a primary key with versions": {"primary_key": ("k",), "version": "v"},
    "tombstones": {"primary_key": ("k",), "deleted": "gone", "forget": True},
    "winners that are not kept": {"primary_key": ("k",), "keep": "v > 2", "keep_winners": True},
    "only what is touched": {"hidden_in_first": "k = 7", "only_touched": True},
    "a primary key and a delete": {"primary_key": ("k",), "hidden": "v = 1"},
}


def leaving_out(group: Group, changed: dict[str, Any], sort: tuple[str, ...]) -> KernelTask:
    given = dict(changed)
    hidden, first = given.pop("hidden", None), given.pop("hidden_in_first", None)
    forget = given.pop("forget", False)
    if "keys" in given:
        given["keys"] = key_file(group, given["keys"])
    rows = [versions(n * ROWS, tombstones=bool(given.get("deleted"))) for n in range(3)]
    task = group.task(group.put(*rows), from_arrow(rows[0].schema), sort=sort, **given)
    inputs = [
        replace(
            source, order=(n, n), where_hidden=first if first and n == 0 else hidden, forget=forget
        )
        for n, source in enumerate(task.inputs)
    ]
    # What is only touched says of which inputs its output is made.
    names = tuple(each.key for each in task.inputs)
    pairs = PartMetadata(table="table", partition="d=1", writer="test", o=(0, 99), replaces=names)
    return replace(task, inputs=tuple(inputs), metadata=pairs.to_pairs())


@pytest.mark.parametrize("changed", _LEAVES_OUT.values(), ids=_LEAVES_OUT)
@pytest.mark.parametrize(("sort", "idle"), [(("name", "row"), 0), (("v", "row"), 2), ((), 1)])
def test_rows_that_go_are_those_of_duckdb_and_the_others_stay_in_order(
    group: Group, changed: dict[str, Any], sort: tuple[str, ...], idle: int
) -> None:
    task = leaving_out(group, changed, sort)
    ours = run(group, task, idle)
    with only_duckdb():
        theirs = run(group, task)
    assert ours.error is None, ours.error
    assert by_arrow(group.root / ours.parts[0].key)
    assert not by_arrow(group.root / theirs.parts[0].key)
    counts = ("rows_in", "rows_deleted", "rows_deduplicated", "rows_removed", "rows_hidden")
    assert [getattr(ours, each) for each in counts] == [getattr(theirs, each) for each in counts]
    assert ours.rows_in > ours.parts[0].rows
    assert ours.unchanged == theirs.unchanged
    found, wanted = (pq.read_table(group.root / r.parts[0].key) for r in (ours, theirs))
    if not sort:
        # Those of DuckDB come in any order where keys are compared.
        wanted = wanted.sort_by("row")
    assert found.equals(wanted)
    assert ours.parts[0].digest == theirs.parts[0].digest is not None


def test_where_every_row_goes_there_is_no_part(group: Group) -> None:
    task = leaving_out(group, {"primary_key": ("k",), "deleted": "gone", "forget": True}, ("k",))
    for changed in ({"keep": "false"}, {"keep": "false", "keep_winners": True}):
        result = run(group, replace(task, **changed), 1)
        assert result.error is None, result.error
        assert result.parts == ()


def test_a_group_of_which_a_row_too_many_goes_is_not_written(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = columns.places_in_order
    monkeypatch.setattr(outputs, "places_in_order", lambda *given: real(*given)[1:])
    result = run(group, leaving_out(group, {"primary_key": ("k",)}, ("k",)), 1)
    assert result.error is not None
    assert result.parts == ()


@pytest.mark.parametrize(
    "changed",
    [
        {"query": "SELECT * FROM _rows"},
        {"bloom_filters": BloomFilters(max_distinct=4)},
    ],
)
def test_where_rows_are_made_or_arrow_cannot_write_duckdb_does(
    group: Group, changed: dict[str, Any]
) -> None:
    rows = numbers(), numbers(ROWS)
    task = group.task(group.put(*rows), from_arrow(rows[0].schema), sort=("id",))
    path = output(group, replace(task, **changed), 1)
    assert not by_arrow(path)


def test_a_column_that_a_part_lacks_or_has_under_another_name_is_left_to_duckdb(
    group: Group,
) -> None:
    old, new = numbers(), numbers(ROWS).append_column("more", pa.array(range(ROWS)))
    task = group.task(group.put(old, new), from_arrow(new.schema), sort=("id",))
    assert not by_arrow(output(group, task))
    first, second = task.inputs
    named = replace(first, sources=(Source(column="more", names=("id",)),))
    assert not by_arrow(output(group, replace(task, inputs=(named, second))))


def test_a_damaged_footer_of_a_large_file_is_named_by_its_part(group: Group) -> None:
    """Files of full row groups are looked at by themselves: their pages may be copied."""
    tables = numbers(), numbers(ROWS), numbers(2 * ROWS)
    inputs = group.put(*tables)
    task = group.task(
        inputs, from_arrow(tables[0].schema), sort_by=(SortKey("id"),), row_group_rows=ROWS
    )
    path = group.root / inputs[1]
    data = path.read_bytes()
    length = int.from_bytes(data[-8:-4], "little")
    for at in range(len(data) - 8 - length, len(data) - 8, 7):
        path.write_bytes(data[:at] + bytes([data[at] ^ 0x04]) + data[at + 1 :])
        result = run(group, task)
        assert result.error is None or result.error_key == inputs[1], result.error


def test_nothing_of_the_columns_is_in_memory_when_duckdb_begins_in_their_place(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = [numbers(n * 50_000, 50_000) for n in range(3)]
    task = group.task(group.put(*tables), from_arrow(tables[0].schema), sort_by=(SortKey("id"),))
    held: list[int] = []
    copy = outputs.Producer._copy

    def refused(rows: pa.Table) -> None:
        held.append(pa.total_allocated_bytes())
        raise NotHereError

    def watched(*given: Any) -> int:
        held.append(pa.total_allocated_bytes())
        return copy(*given)

    monkeypatch.setattr(columns, "check_texts", refused)
    monkeypatch.setattr(outputs.Producer, "_copy", watched)
    before = pa.total_allocated_bytes()
    gc.disable()  # nothing waits for the garbage collector
    try:
        assert run(group, task, idle=1).error is None
    finally:
        gc.enable()
    assert max(held[:-1]) - before > 1_000_000
    assert held[-1] - before < 100_000


def test_a_damaged_page_is_named_and_nothing_is_written(group: Group) -> None:
    keys = group.put(numbers(), numbers(ROWS))
    path = group.root / keys[1]
    data = bytearray(path.read_bytes())
    data[8:200] = b"\xff" * 192
    path.write_bytes(data)
    result = run(group, group.task(keys, from_arrow(numbers().schema), sort=("id",)), 1)
    assert result.error_type == "PartUnreadableError"
    assert result.error_key == keys[1]
    assert result.parts == ()


def test_a_group_that_is_told_to_stop_ends_within_a_file(group: Group) -> None:
    tables = [numbers(n * ROWS) for n in range(3)]
    task = group.task(group.put(*tables), from_arrow(tables[0].schema), sort=("id",))
    asked = iter(range(1000))
    place = Workplace(group.scratch, SystemIds(), SystemClock(), Cores(1))
    result = merge_in(place, task, group.store, lambda: next(asked) > 8)
    place.close()
    assert result.error is not None
    assert "was stopped" in result.error
    assert not list(group.scratch.glob("*"))


def test_a_disk_that_is_full_is_named(group: Group, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(columns, "open_writer", full)
    monkeypatch.setattr(outputs.Producer, "_count", full)
    tables = numbers(), numbers(ROWS)
    task = group.task(group.put(*tables), from_arrow(tables[0].schema), sort=("id",))
    assert run(group, task).error_type == "ScratchFullError"


@pytest.mark.parametrize("idle", [0, 3])
@pytest.mark.parametrize("known", [(), (1,), (0, 1, 2)], ids=["none", "one", "all"])
def test_inputs_are_proven_while_their_columns_are_read(
    group: Group, known: tuple[int, ...], idle: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = [numbers(n * ROWS) for n in range(3)]
    task = group.task(group.put(*tables), from_arrow(tables[0].schema), sort=("id",))
    digests = [str(digest_of(each)) for each in tables]
    inputs = tuple(
        replace(each, digest=digests[n] if n in known else None)
        for n, each in enumerate(task.inputs)
    )
    monkeypatch.setattr(proof.Proof, "_input", unexpected)
    result = run(group, replace(task, inputs=inputs), idle)
    assert result.error is None, result.error
    assert result.parts[0].digest == str(digest_of(pa.concat_tables(tables)))


def test_files_that_are_read_in_steps_are_proven_by_all_of_them(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(columns, "_BATCH_ROWS", 300)
    monkeypatch.setattr(proof.Proof, "_input", unexpected)
    tables = [nested(0), nested(ROWS)]
    task = group.task(group.put(*tables), from_arrow(tables[0].schema), sort=("id",))
    result = run(group, task, 1)
    assert result.error is None, result.error
    assert result.parts[0].digest == str(digest_of(pa.concat_tables(tables)))


def test_a_marker_that_states_other_rows_is_found_while_others_are_read(group: Group) -> None:
    tables = [numbers(n * ROWS) for n in range(2)]
    task = group.task(group.put(*tables), from_arrow(tables[0].schema), sort=("id",))
    wrong = replace(task.inputs[1], digest=str(digest_of(tables[0])))
    result = run(group, replace(task, inputs=(task.inputs[0], wrong)), 1)
    assert result.error_type == "RowsDifferError"
    assert wrong.key in str(result.error)
    assert result.parts == ()


def unexpected(*_: object) -> Any:
    raise AssertionError("a file is read once more for its proof")


def test_a_row_that_is_written_wrong_is_found_on_however_many_cores(group: Group) -> None:
    real, done = columns._Writing._in_order, list[bool]()

    def wrong(self: Any, read: Any) -> pa.Table:
        table = real(self, read)
        if "id" in table.column_names and not done:
            done.append(True)
            values = table["id"].to_pylist()
            values[-1] += 1
            table = table.set_column(table.column_names.index("id"), "id", pa.array(values))
        return table

    tables = numbers(), numbers(ROWS)
    task = group.task(group.put(*tables), from_arrow(tables[0].schema), sort=("id",))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(columns._Writing, "_in_order", wrong)
        result = run(group, replace(task, row_group_rows=256), 3)
    assert result.error_type == "RowsDifferError"
    assert result.parts == ()
