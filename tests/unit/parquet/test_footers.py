"""Footers of many objects: what they say, or why they do not read."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firnline.errors import StoreUnavailableError
from firnline.parquet.footers import (
    FooterFacts,
    FooterTask,
    FooterWanted,
    are_safe,
    many_facts,
    read_facts,
)
from firnline.parquet.join import read_footer
from firnline.parquet.part import PartMetadata
from firnline.parquet.thrift import FALSE, I32, LIST, STRUCT, Items, Struct, encode
from firnline.types.order import Order, SortKey
from tests.support.histories import parquet_bytes
from tests.support.world import MemoryStore, SetClock

ROWS = pa.table({"id": [3, 1], "name": ["b", "a"]})


def stored(**objects: bytes) -> tuple[MemoryStore, list[FooterTask]]:
    store = MemoryStore(SetClock())
    for key, data in objects.items():
        store.objects[key] = (data, 0)
    return store, [FooterTask(key, len(data)) for key, data in objects.items()]


def test_a_footer_says_rows_columns_bounds_and_who_wrote_it() -> None:
    part = PartMetadata(table="t", partition="d=1", writer="merge", q=4, replaces=("x.parquet",))
    data = parquet_bytes(ROWS.replace_schema_metadata(part.to_pairs()))
    store, (task,) = stored(k=data)
    facts = read_facts(store, task, FooterWanted(stats=("id",)))
    assert (facts.rows, facts.columns) == (2, {"id": "BIGINT", "name": "VARCHAR"})
    assert (facts.stats, facts.part, facts.error) == ({"id": (1, 3, 0)}, part, None)


ORDER = [pq.SortingColumn(1, descending=True), pq.SortingColumn(0)]
BY_NAME = (SortKey("name", descending=True), SortKey("id"))
OURS = PartMetadata(table="t", partition="d=1", writer="append").to_pairs()


def sorted_by(data: bytes) -> Order:
    store, (task,) = stored(k=data)
    facts = read_facts(store, task, FooterWanted())
    assert facts.error is None
    return facts.sorted_by


def written(
    rows: pa.Table, order: list[pq.SortingColumn], *, ours: bool = True, **options: Any
) -> bytes:
    sink = io.BytesIO()
    rows = rows.replace_schema_metadata(OURS if ours else None)
    pq.write_table(rows, sink, sorting_columns=order, **options)
    return sink.getvalue()


@pytest.mark.parametrize("rows", [1, 2])
def test_the_footer_of_a_part_says_what_all_of_its_rows_are_sorted_by(rows: int) -> None:
    assert sorted_by(written(ROWS, ORDER, row_group_size=rows)) == BY_NAME
    assert sorted_by(written(ROWS, ORDER[:1], row_group_size=rows)) == BY_NAME[:1]
    assert sorted_by(parquet_bytes(ROWS.replace_schema_metadata(OURS))) == ()


@pytest.mark.parametrize("rows", [1, 2])
def test_what_another_writer_says_of_its_rows_is_not_repeated(rows: int) -> None:
    assert sorted_by(written(ROWS, ORDER, ours=False, row_group_size=rows)) == ()


def test_an_order_with_nulls_first_or_by_a_nested_column_has_no_form_here() -> None:
    first = pq.SortingColumn(0, nulls_first=True)
    assert sorted_by(written(ROWS, [ORDER[0], first])) == ()
    nested = ROWS.append_column("s", pa.array([{"id": 1}, {"id": 2}]))
    assert sorted_by(written(nested, [pq.SortingColumn(2)])) == ()


@pytest.mark.parametrize("number", [2, 2**31 - 1, -1])
def test_an_order_by_a_column_that_is_not_there_is_none(number: int, tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    path.write_bytes(data := parquet_bytes(ROWS.replace_schema_metadata(OURS)))
    footer = read_footer(path).plain  # Arrow would not write it
    key = Struct({1: (I32, number), 2: (FALSE, FALSE), 3: (FALSE, FALSE)})
    for group in footer.structs(4):
        group.put(4, LIST, Items(STRUCT, [key]))
    end = encode(footer)
    size = int.from_bytes(data[-8:-4], "little")
    assert sorted_by(data[: -8 - size] + end + len(end).to_bytes(4, "little") + b"PAR1") == ()


def test_many_come_in_their_order_and_a_broken_one_stops_none() -> None:
    store, tasks = stored(a=parquet_bytes(ROWS), b=b"no parquet", c=parquet_bytes(ROWS)[:-9])
    found = list(many_facts(store, [*tasks, FooterTask("gone", 9)], FooterWanted()))
    assert [f.key for f in found] == ["a", "b", "c", "gone"]
    assert [f.error is None for f in found] == [True, False, False, False]
    assert [f.gone for f in found] == [False, False, False, True]
    assert all(f.next_step for f in found[1:])


def test_times_of_old_spark_are_microseconds_as_duckdb_reads_them() -> None:
    sink = io.BytesIO()
    rows = pa.table({"at": pa.array([1], pa.timestamp("us")), "id": [1]})
    pq.write_table(rows, sink, use_deprecated_int96_timestamps=True)
    store, (task,) = stored(k=sink.getvalue())
    assert read_facts(store, task, FooterWanted()).columns["at"] == "TIMESTAMP"


def test_a_type_of_the_table_that_says_more_than_parquet_stays() -> None:
    store, (task,) = stored(k=parquet_bytes(pa.table({"at": pa.array([1], pa.timestamp("ms"))})))
    known = FooterWanted(columns={"at": "TIMESTAMP_MS"})
    assert read_facts(store, task, known).columns == {"at": "TIMESTAMP_MS"}


def test_a_store_that_does_not_answer_is_no_fault_of_a_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store, (task,) = stored(k=parquet_bytes(ROWS))

    def down(*_: object) -> bytes:
        raise StoreUnavailableError("the store is down", next_step="wait")

    monkeypatch.setattr(store, "get_range", down)
    with pytest.raises(StoreUnavailableError):
        read_facts(store, task, FooterWanted())


def test_a_part_names_what_it_was_made_of_by_its_own_folder_or_by_a_path() -> None:
    part = PartMetadata(table="t", partition="m=1", writer="w", replaces=("a.parquet", "/d=2/b"))
    own = FooterFacts(key="x/t/_data/m=1/n.parquet", bytes=1, part=part)
    assert own.inputs == ["x/t/_data/m=1/a.parquet", "x/t/_data/d=2/b"]
    flat = msgspec.structs.replace(part, partition="", replaces=("/d=2/b", "/c"))
    assert FooterFacts(key="t/_data/n.parquet", bytes=1, part=flat).inputs == [
        "t/_data/d=2/b",
        "t/_data/c",
    ]
    assert FooterFacts(key="t/_data/n.parquet", bytes=1).inputs == []


def test_footers_of_several_files_are_asked_for_in_one_message() -> None:
    tails = [parquet_bytes(pa.table({"a": [number]})) for number in range(3)]
    assert are_safe(tails)
    assert not are_safe([*tails, tails[0][:-20]])
    assert not are_safe([*tails, b""])
    assert are_safe(tails), "the child process answers on"
