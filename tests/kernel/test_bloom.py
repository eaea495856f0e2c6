"""Bloom filters of outputs: which column chunks have one, how large it is, what it excludes."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firnline.kernel.duckdb import tries
from firnline.kernel.sql import distinct_limit
from firnline.kernel.task import BloomFilters, Cluster
from tests.kernel.conftest import Group

ROWS = 8_192
FIFTH = 2_048 // 5


def table() -> pa.Table:
    """``few`` and ``fifth`` have as many values per row group as get a dictionary by default."""
    numbers = range(ROWS)
    return pa.table(
        {
            "few": [f"event {n % 40}" for n in numbers],
            "fifth": [n % FIFTH for n in numbers],
            "more": [n % (FIFTH + 1) for n in numbers],
            "own": [2 * n for n in numbers],
        }
    )


def filters_of(path: Path) -> dict[str, list[int | None]]:
    """Column -> bytes of its filter in each row group."""
    found: dict[str, list[int | None]] = {}
    chunks = duckdb.execute(
        "SELECT path_in_schema, bloom_filter_length FROM parquet_metadata(?) ORDER BY row_group_id",
        [str(path)],
    ).fetchall()
    for column, size in chunks:
        found.setdefault(column, []).append(size)
    return found


def merged(group: Group, rows: pa.Table, **changed: Any) -> Path:
    result, _ = group.merge(rows.slice(0, rows.num_rows // 2), rows, **changed)
    return group.root / result.parts[0].key


def with_filters(path: Path) -> set[str]:
    return {column for column, sizes in filters_of(path).items() if all(sizes)}


def test_columns_of_few_values_have_filters_by_default(group: Group) -> None:
    path = merged(group, table())
    assert with_filters(path) == {"few", "fifth"}
    assert set(filters_of(path)["own"]) == {None}


def test_no_column_has_a_filter_when_none_is_wanted(group: Group) -> None:
    path = merged(group, table(), bloom_filters=None)
    assert {size for sizes in filters_of(path).values() for size in sizes} == {None}
    assert "PLAIN_DICTIONARY" in pq.read_metadata(path).row_group(0).column(0).encodings


def test_columns_of_more_values_have_filters_when_they_may_be_more(group: Group) -> None:
    path = merged(group, table(), bloom_filters=BloomFilters(max_distinct=FIFTH + 1))
    assert with_filters(path) == {"few", "fifth", "more"}
    path = merged(group, table(), bloom_filters=BloomFilters(max_distinct=10**8))
    assert with_filters(path) == {"few", "fifth", "more", "own"}


def test_fewer_false_positives_are_larger_filters(group: Group) -> None:
    sizes = [
        filters_of(merged(group, table(), bloom_filters=BloomFilters(false_positives=part)))
        for part in (0.5, 0.01, 0.00001)
    ]
    each = [found["fifth"][0] or 0 for found in sizes]
    assert each == sorted(set(each))
    assert len(each) == 3


def test_a_filter_excludes_absent_values_within_the_bounds_and_no_other(group: Group) -> None:
    path = merged(group, table(), bloom_filters=BloomFilters(max_distinct=2_048))

    def excluded(value: int) -> list[bool]:
        query = f"SELECT bloom_filter_excludes FROM parquet_bloom_probe('{path}', 'own', {value})"
        return [one for (one,) in duckdb.execute(query).fetchall()]

    for value in range(0, 2 * ROWS, 1_111):
        present = value % 2 == 0
        assert all(excluded(value)) is False or not present
    absent = [one for value in range(1, 2 * ROWS, 202) for one in excluded(value)]
    assert sum(absent) > 0.95 * len(absent)


@pytest.mark.parametrize("method", ["range", "hash"])
def test_clustered_outputs_have_them_too(group: Group, method: Any) -> None:
    rows = table()
    cluster = Cluster(method=method, columns=("own",), outputs=3)
    schema = {"few": "VARCHAR", "own": "BIGINT"}
    for filters, columns in (
        (BloomFilters(max_distinct=2_048), {"few", "own"}),
        (BloomFilters(), {"few"}),
        (None, set()),
    ):
        keys = group.put(rows.select(list(schema)))
        result = group.run(group.task(keys, schema, cluster=cluster, bloom_filters=filters))
        assert result.error is None
        assert len(result.parts) > 1
        assert all(with_filters(group.root / part.key) == columns for part in result.parts)


def test_a_table_of_many_columns_is_merged_within_its_memory(group: Group) -> None:
    rows = pa.table(
        {f"c{n}": [uuid.UUID(int=n * ROWS + i).bytes for i in range(ROWS)] for n in range(60)}
    )
    path = merged(
        group,
        rows,
        bloom_filters=BloomFilters(max_distinct=10**8),
        row_group_rows=1_048_576,
        memory=128 * 2**20,
    )
    assert pq.read_metadata(path).num_rows == ROWS + ROWS // 2


@pytest.mark.parametrize(
    ("columns", "memory", "threads", "limit"),
    [
        (5, 2 * 2**30, 1, 1_048_576),
        (10, 2 * 2**30, 1, 524_288),
        (10, 2 * 2**30, 2, 262_144),
        (20, 2 * 2**30, 1, 262_144),
        (40, 2 * 2**30, 1, None),  # 131,072 would be fewer than DuckDB's own limit
        (5, 256 * 2**20, 1, None),
        (1, 128 * 2**20, 1, 262_144),
    ],
)
def test_dictionaries_are_no_larger_than_there_is_memory_for(
    group: Group, columns: int, memory: int, threads: int, limit: int | None
) -> None:
    schema = {f"c{n}": "DECIMAL(18, 2)" for n in range(columns)}
    wanted = BloomFilters(max_distinct=1_048_576)
    task = group.task([], schema, bloom_filters=wanted, row_group_rows=1_048_576)
    first, last = tries(memory, threads)
    assert distinct_limit(task, first) == limit
    assert distinct_limit(task, last) is None


def test_every_field_of_a_nested_column_has_its_dictionary(group: Group) -> None:
    first, _ = tries(2 * 2**30, 1)
    wanted = BloomFilters(max_distinct=1_048_576)

    def limit(kind: str) -> int | None:
        task = group.task([], {"a": kind}, bloom_filters=wanted, row_group_rows=1_048_576)
        return distinct_limit(task, first)

    fields = ", ".join(f"f{n} DECIMAL(18, 2)" for n in range(20))
    assert limit(f"STRUCT({fields})") == 262_144
    assert limit("BIGINT[]") == 1_048_576
