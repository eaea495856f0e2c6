"""Files are joined without decoding: every reader reads the rows, filters and indexes of all."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firnline.errors import KernelError, PartUnreadableError
from firnline.parquet.join import ZSTD, Footer, join, join_columns, read_footer, state
from firnline.parquet.thrift import decode
from firnline.types.order import SortKey

SCHEMA = pa.schema(
    {
        "id": pa.int64(),
        "name": pa.string(),
        "at": pa.timestamp("us", "UTC"),
        "price": pa.decimal128(12, 3),
        "tags": pa.list_(pa.string()),
        "where": pa.struct({"x": pa.float64(), "y": pa.int16()}),
    }
)


def rows(start: int, count: int) -> pa.Table:
    numbers = range(start, start + count)
    return pa.table(
        {
            "id": list(numbers),
            "name": [None if i % 7 == 0 else f"n{i % 50}" for i in numbers],
            "at": [datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=i) for i in numbers],
            "price": [Decimal(i) / 8 for i in numbers],
            "tags": [[f"t{i % 3}"] * (i % 4) for i in numbers],
            "where": [{"x": i / 2, "y": i % 100} for i in numbers],
        },
        SCHEMA,
    )


def write(path: Path, table: pa.Table, **options: Any) -> Path:
    pq.write_table(table, path, compression="zstd", store_schema=False, **options)
    return path


def write_duckdb(path: Path, table: pa.Table) -> Path:
    connection = duckdb.connect()
    connection.register("made", table)
    connection.execute(f"COPY made TO '{path}' (FORMAT parquet, ROW_GROUP_SIZE 2048)")
    return path


def query(text: str) -> list[Any]:
    with duckdb.connect() as connection:
        return connection.execute(text).fetchall()


def joined(folder: Path, *paths: Path, **options: Any) -> Path:
    target = folder / "joined.parquet"
    count = join([read_footer(path) for path in paths], target, {"k": "v"}, **options)
    assert count == pq.read_metadata(target).num_rows
    return target


@pytest.mark.long
@pytest.mark.parametrize("writer", [write, write_duckdb])
def test_every_reader_reads_the_rows_of_all_files_in_order(tmp_path: Path, writer: Any) -> None:
    tables = [rows(0, 5000), rows(5000, 1), rows(5001, 3000)]
    paths = [writer(tmp_path / f"{n}.parquet", table) for n, table in enumerate(tables)]
    target = joined(tmp_path, *paths)
    wanted = pa.concat_tables(pq.read_table(path) for path in paths)
    assert pq.read_table(target).replace_schema_metadata(None).equals(wanted)
    assert pl.read_parquet(target).equals(pl.concat(pl.read_parquet(path) for path in paths))
    assert query(f"SELECT * FROM '{target}'") == query(
        f"SELECT * FROM read_parquet({list(map(str, paths))})"
    )
    footer = pq.read_metadata(target)
    assert footer.num_row_groups == sum(pq.read_metadata(path).num_row_groups for path in paths)
    assert footer.metadata == {b"k": b"v"}


@pytest.mark.long
def test_statistics_and_bloom_filters_still_exclude_row_groups(tmp_path: Path) -> None:
    paths = [write_duckdb(tmp_path / f"{n}.parquet", rows(n * 4000, 4000)) for n in range(3)]
    target = joined(tmp_path, *paths)
    for name in ("n3", "n49"):
        found = query(f"SELECT count(*) FROM '{target}' WHERE name = '{name}'")
        assert found == [(sum(str(i % 50) == name[1:] and i % 7 != 0 for i in range(12_000)),)]
    absent = (
        f"SELECT DISTINCT bloom_filter_excludes FROM parquet_bloom_probe('{target}', 'name', 'no')"
    )
    assert query(absent) == [(True,)]
    there = (
        f"SELECT DISTINCT bloom_filter_excludes FROM parquet_bloom_probe('{target}', 'name', 'n3')"
    )
    assert query(there) == [(False,)]
    footer = pq.read_metadata(target)
    bounds = [footer.row_group(n).column(0).statistics for n in range(footer.num_row_groups)]
    assert [(each.min, each.max) for each in bounds] == [
        (start, min(start + 2047, part * 4000 + 3999))
        for part in range(3)
        for start in (part * 4000, part * 4000 + 2048)
    ]


@pytest.mark.long
def test_page_indexes_point_to_the_pages_of_the_new_file(tmp_path: Path) -> None:
    paths = [
        write(
            tmp_path / f"{n}.parquet",
            rows(n * 9000, 9000),
            write_page_index=True,
            data_page_size=4096,
        )
        for n in range(2)
    ]
    target = joined(tmp_path, *paths)
    footer = pq.read_metadata(target)
    assert footer.row_group(1).column(0).has_offset_index
    # Polars skips pages by them.
    found = pl.scan_parquet(target).filter(pl.col("id") == 12_345).collect()
    assert found["id"].to_list() == [12_345]
    assert read_footer(target).row_groups[1].rows == 9000
    data = target.read_bytes()
    for number, group in enumerate(read_footer(target).row_groups):
        for place, chunk in enumerate(group.chunks()):
            at, length = chunk.integer(4), chunk.integer(5)
            assert at is not None
            assert length is not None
            pages = decode(data[at : at + length]).structs(1)
            column = footer.row_group(number).column(place)
            assert pages[0].integer(1) == column.data_page_offset
            last, size = pages[-1].integer(1), pages[-1].integer(2)
            assert last is not None
            assert size is not None
            start = column.dictionary_page_offset or column.data_page_offset
            assert last + size == start + column.total_compressed_size


def test_the_order_of_the_rows_stands_in_the_footer(tmp_path: Path) -> None:
    paths = [write(tmp_path / f"{n}.parquet", rows(n, 10)) for n in range(2)]
    target = joined(tmp_path, *paths)
    order = (SortKey("price", descending=True), SortKey("id"))
    assert state(target, order) == order
    for number in range(2):
        assert pq.read_metadata(target).row_group(number).sorting_columns == (
            pq.SortingColumn(3, descending=True, nulls_first=False),
            pq.SortingColumn(0, descending=False, nulls_first=False),
        )


def test_the_order_is_stated_in_a_file_that_is_there(tmp_path: Path) -> None:
    path = write_duckdb(tmp_path / "a", rows(0, 5000))
    before = pq.read_table(path)
    assert state(path, (SortKey("at"),)) == (SortKey("at"),)
    footer = pq.read_metadata(path)
    found = [footer.row_group(number).sorting_columns for number in range(footer.num_row_groups)]
    assert found == [(pq.SortingColumn(2),)] * 3
    assert pq.read_table(path).equals(before)
    bytes_before = path.read_bytes()
    assert state(path, (SortKey("at"), SortKey("where"))) == ()  # no plain column
    assert path.read_bytes() == bytes_before


def test_a_joined_file_can_be_joined_again(tmp_path: Path) -> None:
    one = joined(tmp_path, write(tmp_path / "a", rows(0, 10)), write(tmp_path / "b", rows(10, 10)))
    again = tmp_path / "again"
    join([read_footer(one), read_footer(write(tmp_path / "c", rows(20, 5)))], again, {})
    assert pq.read_table(again)["id"].to_pylist() == list(range(25))


def test_what_is_copied_can_be_deleted_at_once(tmp_path: Path) -> None:
    kept, gone = write(tmp_path / "a", rows(0, 10)), write(tmp_path / "b", rows(10, 10))
    joined(tmp_path, kept, gone, used_up=[gone])
    assert (kept.exists(), gone.exists()) == (True, False)


def test_files_of_different_schemas_are_refused(tmp_path: Path) -> None:
    other = write(tmp_path / "b", rows(0, 1).rename_columns([*"abcdef"]))
    with pytest.raises(KernelError, match="different Parquet schemas"):
        joined(tmp_path, write(tmp_path / "a", rows(0, 1)), other)


@pytest.mark.parametrize("cut", [1, 8, 40, 10_000])
def test_a_file_that_is_cut_is_refused(tmp_path: Path, cut: int) -> None:
    path = write(tmp_path / "a", rows(0, 100))
    path.write_bytes(path.read_bytes()[:-cut])
    with pytest.raises(PartUnreadableError, match="footer of a cannot be read"):
        read_footer(path)


def test_an_encrypted_file_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a", rows(0, 1))
    path.write_bytes(path.read_bytes()[:-4] + b"PARE")
    with pytest.raises(PartUnreadableError):
        read_footer(path)


def test_a_row_group_says_its_codec_and_whether_it_has_filters(tmp_path: Path) -> None:
    (plain,) = read_footer(write(tmp_path / "a", rows(0, 10))).row_groups
    assert plain.codecs == frozenset([ZSTD])
    assert (plain.has_bloom_filter, plain.rows) == (False, 10)
    first, *_ = read_footer(write_duckdb(tmp_path / "b", rows(0, 4000))).row_groups
    assert first.has_bloom_filter


# --- side by side ---------------------------------------------------------------------------------


def beside(folder: Path, *paths: Path, like: Footer, without: tuple[str, ...] = ()) -> Path | None:
    target = folder / "beside.parquet"
    footers = [read_footer(path) for path in paths]
    return target if join_columns(footers, target, {"k": "v"}, like, without) else None


@pytest.mark.long
def test_columns_of_several_files_are_those_of_one(tmp_path: Path) -> None:
    table = rows(0, 5000)
    options = {"row_group_size": 2048, "write_page_index": True}
    whole = write(tmp_path / "whole.parquet", table, **options)
    some = (["id", "name"], ["at"], ["price", "tags", "where"])
    paths = [
        write(tmp_path / f"{n}.parquet", table.select(names), **options)
        for n, names in enumerate(some)
    ]
    target = beside(tmp_path, *paths, like=read_footer(whole))
    assert target is not None
    assert read_footer(target).schema == read_footer(whole).schema
    assert pq.read_table(target).equals(table)
    assert pl.read_parquet(target).equals(pl.read_parquet(whole))
    assert query(f"SELECT * FROM '{target}'") == query(f"SELECT * FROM '{whole}'")
    footer, other = pq.read_metadata(target), pq.read_metadata(whole)
    assert footer.metadata == {b"k": b"v"}
    for n in range(footer.num_row_groups):
        one, two = footer.row_group(n), other.row_group(n)
        assert (one.num_rows, one.total_byte_size) == (two.num_rows, two.total_byte_size)
        assert [one.column(c).statistics for c in range(one.num_columns)] == [
            two.column(c).statistics for c in range(two.num_columns)
        ]
    # A row group lies together, and joins as any other does.
    places = [group.place for group in read_footer(target).row_groups]
    assert all(end <= start for (_, end), (start, _) in pairwise(places))
    again = joined(tmp_path, target, whole)
    assert pq.read_table(again).equals(pa.concat_tables([table, table]))


def test_columns_lose_the_bounds_that_are_not_theirs(tmp_path: Path) -> None:
    table = rows(0, 100).select(["id", "price"])
    whole = write(tmp_path / "whole.parquet", table)
    paths = [write(tmp_path / f"{n}.parquet", table.select([n])) for n in table.column_names]
    target = beside(tmp_path, *paths, like=read_footer(whole), without=("price",))
    assert target is not None
    group = pq.read_metadata(target).row_group(0)
    assert [group.column(n).statistics.has_min_max for n in range(2)] == [True, False]


def test_columns_in_another_order_or_of_another_type_make_no_file(tmp_path: Path) -> None:
    table = rows(0, 100).select(["id", "price"])
    whole = write(tmp_path / "whole.parquet", table)
    paths = [write(tmp_path / f"{n}.parquet", table.select([n])) for n in ("price", "id")]
    assert beside(tmp_path, *paths, like=read_footer(whole)) is None
    assert not (tmp_path / "beside.parquet").exists()


def test_columns_of_row_groups_that_differ_in_their_rows_are_refused(tmp_path: Path) -> None:
    table = rows(0, 100)
    whole = write(tmp_path / "whole.parquet", table.select(["id", "name"]))
    one = write(tmp_path / "one.parquet", table.select(["id"]))
    other = write(tmp_path / "other.parquet", table.select(["name"]).slice(1))
    with pytest.raises(KernelError, match="99, 100"):
        beside(tmp_path, one, other, like=read_footer(whole))
