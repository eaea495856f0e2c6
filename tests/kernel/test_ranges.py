"""A clustered group: no row lost or doubled over its ranges, and outputs that do not overlap."""

from __future__ import annotations

import datetime
from collections import Counter
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firnline.kernel.task import Cluster, KernelResult
from firnline.types.arrow import from_arrow
from firnline.types.schema import union
from tests.kernel.conftest import Group
from tests.support.effort import examples

Rows = list[dict[str, Any]]


def cluster(
    group: Group, tables: list[pa.Table], **changed: Any
) -> tuple[KernelResult, list[Rows]]:
    """Rows of each output, in the order of the ranges."""
    schema = union((f"log {n}", from_arrow(table.schema)) for n, table in enumerate(tables))
    result = group.run(group.task(group.put(*tables), schema, **changed))
    assert result.error is None, result.error
    outputs = [pq.read_table(group.root / part.key).to_pylist() for part in result.parts]
    assert [part.rows for part in result.parts] == [len(rows) for rows in outputs]
    gone = result.rows_deleted + result.rows_removed
    assert result.rows_in == sum(part.rows for part in result.parts) + gone
    return result, outputs


def by(method: Any, *columns: str, outputs: int = 4) -> Cluster:
    return Cluster(method=method, columns=columns, outputs=outputs)


def bag(rows: Rows) -> Counter[str]:
    return Counter(repr(sorted(row.items())) for row in rows)


def numbers(count: int) -> pa.Table:
    return pa.table({"a": [i * 7919 % count for i in range(count)], "b": list(range(count))})


VALUES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "whole": (pa.int64(), st.integers(-3, 3)),
    "float": (pa.float64(), st.floats(allow_nan=True, width=16)),
    "text": (pa.string(), st.text("ab'\0é\U0001f600", max_size=3)),
    "day": (pa.date32(), st.dates()),
    "moment": (pa.timestamp("us", "UTC"), st.integers(-(2**50), 2**50)),
    "amount": (pa.decimal128(9, 2), st.integers(-99, 99).map(lambda i: Decimal(i) / 100)),
    "flag": (pa.bool_(), st.booleans()),
}


@st.composite
def tables(draw: st.DrawFn) -> list[pa.Table]:
    """Two columns of any kinds, with nulls, in one to three parts."""
    kinds = [VALUES[draw(st.sampled_from(sorted(VALUES)))] for _ in range(2)]
    found = []
    for _ in range(draw(st.integers(1, 3))):
        rows = draw(st.integers(0, 12))
        arrays = [
            pa.array(draw(st.lists(st.none() | some, min_size=rows, max_size=rows)), kind)
            for kind, some in kinds
        ]
        found.append(pa.table([*arrays, pa.array(range(rows), pa.int32())], names=["a", "b", "n"]))
    return found


@examples(15, 400)
@given(
    parts=tables(),
    method=st.sampled_from(["range", "zorder", "hash"]),
    outputs=st.integers(1, 5),
    sort=st.sampled_from([(), ("n",)]),
)
def test_every_row_is_in_exactly_one_output(
    group: Group, parts: list[pa.Table], method: str, outputs: int, sort: tuple[str, ...]
) -> None:
    wanted = by(method, "a", "b", outputs=outputs)
    result, found = cluster(group, parts, cluster=wanted, sort=sort)
    assert bag([row for rows in found for row in rows]) == bag(
        [row for table in parts for row in table.to_pylist()]
    )
    assert len(result.parts) <= outputs
    keys = [
        Counter(repr((row["a"], row["b"])).replace("-0.0", "0.0") for row in rows) for rows in found
    ]
    for position, one in enumerate(keys):
        for other in keys[position + 1 :]:
            assert not one.keys() & other.keys()  # equal keys are never parted


def test_ranges_follow_each_other_and_nulls_come_last(group: Group) -> None:
    table = numbers(2_000)
    nulls = pa.table({"a": pa.array([None] * 50, pa.int64()), "b": list(range(50))})
    result, found = cluster(group, [table, nulls], cluster=by("range", "a"), stats_columns=("a",))
    assert len(found) == 4
    inside = [[row["a"] for row in rows] for rows in found]
    assert inside[0] == sorted(inside[0])
    for before, after in pairwise(inside):
        assert max(before) < min(value for value in after if value is not None)
    assert [part.stats["a"][2] for part in result.parts] == [0, 0, 0, 50]
    assert all(400 <= len(rows) <= 700 for rows in found)


def test_a_value_that_fills_several_ranges_is_cut_by_the_next_column(group: Group) -> None:
    table = pa.table({"a": ["same"] * 1_000, "b": list(range(1_000))})
    _, found = cluster(group, [table], cluster=by("range", "a", "b"))
    assert [len(rows) for rows in found] == [250] * 4
    _, found = cluster(group, [table], cluster=by("range", "a"))
    assert [len(rows) for rows in found] == [1_000]


def test_a_z_order_narrows_every_column(group: Group) -> None:
    count = 4_096
    table = pa.table(
        {"a": [i % 64 for i in range(count)], "b": [f"{i // 64:03d}" for i in range(count)]}
    )
    wanted = by("zorder", "a", "b", outputs=16)
    result, _ = cluster(group, [table], cluster=wanted, stats_columns=("a", "b"))
    assert len(result.parts) == 16

    def read(column: str, value: Any) -> int:
        return sum(p.stats[column][0] <= value <= p.stats[column][1] for p in result.parts)

    assert max(read("a", value) for value in range(64)) <= 8
    assert max(read("b", f"{value:03d}") for value in range(64)) <= 8


def test_within_an_output_the_order_of_the_table_counts(group: Group) -> None:
    _, found = cluster(group, [numbers(1_000)], cluster=by("range", "a"), sort=("b",))
    for rows in found:
        assert [row["b"] for row in rows] == sorted(row["b"] for row in rows)


def test_deleted_rows_go_before_ranges_are_cut(group: Group) -> None:
    keys = group.put(numbers(1_000))
    hidden = {keys[0]: "a >= 500"}
    task = group.task(
        keys, {"a": "BIGINT", "b": "BIGINT"}, cluster=by("range", "a", outputs=2), hidden=hidden
    )
    result = group.run(task)
    assert (result.rows_deleted, [part.rows for part in result.parts]) == (500, [250, 250])


def test_rows_that_a_query_makes_are_clustered_too(group: Group) -> None:
    query = "SELECT a // 2 AS a, count(*) AS b FROM _rows GROUP BY ALL"
    result, found = cluster(
        group, [numbers(1_000)], cluster=by("range", "a", outputs=2), query=query
    )
    assert [len(rows) for rows in found] == [250, 250]
    assert result.rows_removed == 500


def test_a_table_may_have_columns_with_our_names(group: Group) -> None:
    table = pa.table({"cluster_key": list(range(100)), "range_number": list(range(100))})
    for method in ("range", "zorder", "hash"):
        wanted = by(method, "range_number", "cluster_key", outputs=3)
        _, found = cluster(group, [table], cluster=wanted)
        assert bag([row for rows in found for row in rows]) == bag(table.to_pylist())


def test_a_column_that_is_not_there_is_named(group: Group) -> None:
    keys = group.put(numbers(3))
    task = group.task(keys, {"a": "BIGINT", "b": "BIGINT"}, cluster=by("range", "missing"))
    error = group.run(task).error
    assert error is not None
    assert "'missing'" in error


@pytest.mark.parametrize("method", ["range", "hash"])
def test_the_same_key_in_many_parts_ends_in_one_output(group: Group, method: str) -> None:
    many = [numbers(200) for _ in range(5)]
    _, found = cluster(group, many, cluster=by(method, "a"))
    places = Counter(value for rows in found for value in {row["a"] for row in rows})
    assert set(places.values()) == {1}


def test_parts_have_bloom_filters_for_columns_of_few_values(group: Group) -> None:
    start = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    table = pa.table({"a": [f"user {i % 40}" for i in range(4_000)], "t": [start] * 4_000})
    result, _ = cluster(group, [table], cluster=by("range", "a"))
    import duckdb

    for part in result.parts:
        offsets = duckdb.execute(
            "SELECT bloom_filter_offset FROM parquet_metadata(?) WHERE path_in_schema = 'a'",
            [str(group.root / part.key)],
        ).fetchall()
        assert all(offset is not None for (offset,) in offsets)
