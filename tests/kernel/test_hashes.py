"""Hash ranges of outputs: those of a hash cluster, those of the inputs, and counted buckets."""

from __future__ import annotations

import datetime
import uuid
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firnline.kernel.hashes import buckets_in
from firnline.kernel.ranges import Spreader
from firnline.kernel.task import Bucket, Cluster, KernelResult
from firnline.types.arrow import from_arrow
from firnline.types.hashes import LARGEST, Hashes, HashRange
from firnline.types.murmur3 import hash_column, hash_rows
from tests.kernel.conftest import Group

ROWS = 400
COLUMNS: dict[str, pa.Array] = {
    "whole": pa.array(range(ROWS), pa.int16()),
    "huge": pa.array(range(2**64 - ROWS, 2**64), pa.uint64()),
    "text": pa.array([f"k{n}é" for n in range(ROWS)]),
    "day": pa.array(range(ROWS), pa.date32()),
    "moment": pa.array([n * 1_000_003 for n in range(ROWS)], pa.timestamp("us")),
    "instant": pa.array([n * 1_000_003 for n in range(ROWS)], pa.timestamp("us", "UTC")),
    "fine": pa.array([n * 1_000_003 for n in range(ROWS)], pa.timestamp("ns")),
    "key": pa.uuid().wrap_array(
        pa.array([uuid.UUID(int=n * 2**90).bytes for n in range(ROWS)], pa.binary(16))
    ),
}
FORMS = {
    "whole": "long",
    "huge": "long",
    "text": "text",
    "day": "date",
    "moment": "timestamp",
    "instant": "timestamp",
    "fine": "timestamp",
    "key": "uuid",
}


def run(group: Group, table: pa.Table, **changed: Any) -> tuple[KernelResult, list[pa.Table]]:
    columns = from_arrow(table.schema)
    result = group.run(group.task(group.put(table), columns, **changed))
    assert result.error is None, result.error
    return result, [pq.read_table(group.root / part.key) for part in result.parts]


def spread(*columns: str) -> Cluster:
    return Cluster(method="hash", columns=columns, outputs=4)


@pytest.mark.parametrize("names", [(name,) for name in COLUMNS] + [("whole", "text", "key")])
def test_each_output_of_a_hash_cluster_states_the_range_that_holds_its_rows(
    names: tuple[str, ...], group: Group
) -> None:
    table = pa.table({**COLUMNS, "n": range(ROWS)})
    result, outputs = run(group, table, cluster=spread(*names))
    assert len(outputs) == 4
    stated = [part.hashes for part in result.parts]
    forms = tuple(FORMS[name] for name in names)
    assert {each.about for (each,) in stated} == {(names, forms, 0)}
    bounds = [(each.low, each.high) for (each,) in stated]
    assert bounds[0][0] == 0
    assert bounds[-1][1] == LARGEST
    for before, after in pairwise(bounds):
        assert (before[1] or 0) + 1 == after[0]  # no hash is in two, and none in between
    whole = table.to_pydict()
    for (each,), rows in zip(stated, outputs, strict=True):
        places = rows.column("n").to_pylist()
        hashes = hash_rows([pa.chunked_array([COLUMNS[name].take(places)]) for name in names])
        assert each.low <= hashes.min() <= hashes.max() <= each.high
        assert all(whole["n"][place] == place for place in places)


def test_ranges_that_are_made_one_by_one_for_lack_of_memory_state_the_same(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = pa.table({"text": COLUMNS["text"]})
    whole, outputs = run(group, table, cluster=spread("text"))

    def full(*_: object) -> None:
        raise duckdb.OutOfMemoryException("no room")

    monkeypatch.setattr(Spreader, "_by_files", full)
    passes, again = run(group, table, cluster=spread("text"))
    assert [part.hashes for part in passes.parts] == [part.hashes for part in whole.parts]
    assert [rows.to_pylist() for rows in again] == [rows.to_pylist() for rows in outputs]


def test_nulls_are_in_the_range_that_begins_with_0(group: Group) -> None:
    table = pa.table({"a": pa.array([*range(ROWS), *[None] * 50], pa.int64())})
    result, outputs = run(group, table, cluster=spread("a"))
    assert [rows.column("a").null_count for rows in outputs] == [50, 0, 0, 0]
    assert result.parts[0].hashes[0].low == 0


@pytest.mark.parametrize(
    "column",
    [
        pa.array([n / 4 for n in range(ROWS)]),
        pa.array([Decimal(n) / 4 for n in range(ROWS)], pa.decimal128(9, 2)),
        pa.array([datetime.time(0, n % 60, n // 60) for n in range(ROWS)]),
        pa.array([bytes([n % 256, n // 256]) for n in range(ROWS)]),
    ],
    ids=["float", "decimal", "time", "bytes"],
)
def test_columns_without_a_lasting_hash_are_spread_without_a_range(
    column: pa.Array, group: Group
) -> None:
    result, outputs = run(group, pa.table({"a": column}), cluster=spread("a"))
    assert len(outputs) == 4
    assert [part.hashes for part in result.parts] == [()] * 4


def test_no_other_method_and_no_single_output_states_a_range(group: Group) -> None:
    table = pa.table({"whole": COLUMNS["whole"]})
    for method in ("range", "zorder"):
        wanted = Cluster(method=method, columns=("whole",), outputs=4)
        result, _ = run(group, table, cluster=wanted)
        assert [part.hashes for part in result.parts] == [()] * 4
    one = Cluster(method="hash", columns=("whole",), outputs=1)
    assert [part.hashes for part in run(group, table, cluster=one)[0].parts] == [()]


def bucket(name: str, low: int | None, high: int | None, form: str = "long") -> HashRange:
    return HashRange((name,), (form,), 8, low, high)


@pytest.mark.parametrize("name", COLUMNS)
def test_buckets_that_no_input_states_are_counted_in_the_output(name: str, group: Group) -> None:
    column = COLUMNS[name]
    hashes = hash_column(pa.chunked_array([column])) & 0x7FFFFFFF
    rows = [n for n, value in enumerate(hashes % 8) if 2 <= value <= 5]
    table = pa.table({name: column.take(rows), "n": range(len(rows))})
    result, _ = run(group, table, buckets=(Bucket(column=name, count=8),))
    assert result.parts[0].hashes == (bucket(name, 2, 5, FORMS[name]),)


def test_all_batches_of_an_output_are_counted(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("firnline.kernel.hashes._BATCH_ROWS", 1)
    found = [n for n in range(200) if (hash_of(n) & 0x7FFFFFFF) % 8 in {3, 4, 5}]
    table = pa.table({"a": pa.array([None, *found], pa.int64())})
    result, _ = run(group, table, buckets=(Bucket(column="a", count=8),))
    assert result.parts[0].hashes == (bucket("a", 3, 5),)


def hash_of(value: int) -> int:
    return int(hash_rows([pa.chunked_array([[value]], pa.int64())])[0])


def test_a_file_with_another_type_than_the_table_is_not_counted(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": range(100)}), tmp_path / "x.parquet")
    wanted = [Bucket(column="a", count=8)]
    for kind in ("DATE", "VARCHAR", "UUID"):
        assert buckets_in(tmp_path / "x.parquet", wanted, [("a", kind)], ()) == ()
    assert buckets_in(tmp_path / "x.parquet", wanted, [("a", "INTEGER")], ()) != ()


def test_a_bucket_of_nulls_states_no_value(group: Group) -> None:
    table = pa.table({"a": pa.array([None] * 3, pa.int64())})
    result, _ = run(group, table, buckets=(Bucket(column="a", count=8),))
    assert result.parts[0].hashes == (bucket("a", None, None),)


def test_what_the_inputs_state_is_not_counted_again(group: Group) -> None:
    table = pa.table({"a": range(100)})
    known: Hashes = (bucket("a", 3, 3), HashRange(("b",), ("text",), 0, 5, 9))
    result, _ = run(group, table, buckets=(Bucket(column="a", count=8),), hashes=known)
    assert set(result.parts[0].hashes) == set(known)


def test_what_the_inputs_state_of_other_bytes_or_counts_is_counted_again(group: Group) -> None:
    table = pa.table({"a": range(100)})
    for other in (bucket("a", 3, 3, "date"), HashRange(("a",), ("long",), 16, 3, 3)):
        wanted = (Bucket(column="a", count=8),)
        result, _ = run(group, table, buckets=wanted, hashes=(other,))
        assert set(result.parts[0].hashes) == {other, bucket("a", 0, 7)}


def test_a_query_takes_rows_out_of_the_ranges_of_its_inputs(group: Group) -> None:
    table = pa.table({"a": range(100)})
    query = "SELECT a + 1 AS a FROM _rows"
    result, _ = run(
        group,
        table,
        query=query,
        buckets=(Bucket(column="a", count=8),),
        hashes=(bucket("a", 3, 3), HashRange(("a",), ("long",), 0, 5, 9)),
    )
    assert result.parts[0].hashes == (bucket("a", 0, 7),)


def test_a_column_without_a_hash_has_no_counted_bucket(group: Group) -> None:
    wanted = (Bucket(column="f", count=8), Bucket(column="gone", count=8))
    result, _ = run(group, pa.table({"f": [1.5, 2.5]}), buckets=wanted)
    assert result.parts[0].hashes == ()
