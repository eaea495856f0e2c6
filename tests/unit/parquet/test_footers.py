"""Footers of many objects: what they say, or why they do not read."""

from __future__ import annotations

import io

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firnline.errors import StoreUnavailableError
from firnline.parquet.footers import FooterFacts, FooterTask, FooterWanted, many_facts, read_facts
from firnline.parquet.part import PartMetadata
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
