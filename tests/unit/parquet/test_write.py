"""Rows are written as parts, at once or column by column."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firnline.cores import Cores
from firnline.errors import FirnlineError, PartSchemaError, ScratchFullError, UsageError
from firnline.parquet import write as writing
from firnline.parquet.io import read_local_footer
from firnline.parquet.join import RowGroup, join_columns, read_footer
from firnline.parquet.thrift import encode
from firnline.parquet.write import runs_of, sort_rows, write_part
from firnline.rows.conform import conform_rows
from firnline.settings.load import SortField
from firnline.types.order import SortKey
from firnline.types.schema import SchemaUnion
from tests.support.anybody import plain as plain_values
from tests.support.anybody import tables
from tests.support.effort import examples
from tests.support.nulls import NULLS, nulls_by_duckdb, with_nulls

TABLE = pa.table({"x": [3, None, 1, 2], "s": ["c", "n", "a", "b"]})


def write(table: pa.Table, path: Path, **options: Any) -> int:
    given: dict[str, Any] = {"metadata": {}, "compression_level": 3, "row_group_rows": 1000}
    return write_part(table, path, **(given | options)).bytes


def test_a_part_is_sorted_zstd_and_says_where_it_belongs(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    noisy = TABLE.replace_schema_metadata({"pandas": "{}"})
    size = write(
        noisy,
        path,
        sort_by=[SortField(column="x"), SortField(column="not there")],
        metadata={"firnline.rows": "4"},
        row_group_rows=2,
    )
    footer = read_local_footer(path)
    assert size == path.stat().st_size
    assert pq.read_table(path).to_pydict() == {"x": [1, 2, 3, None], "s": ["a", "b", "c", "n"]}
    assert footer.metadata == {b"firnline.rows": b"4"}
    assert footer.num_row_groups == 2
    assert {footer.row_group(0).column(i).compression for i in range(2)} == {"ZSTD"}
    assert footer.row_group(0).column(0).statistics.max == 2
    assert duckdb.execute("SELECT count(*) FROM read_parquet(?)", [str(path)]).fetchall() == [(4,)]


@pytest.mark.parametrize("rows", [4, 40_000])
@pytest.mark.parametrize("idle", [0, 1])
def test_duckdb_finds_the_nulls_beside_one_text(
    tmp_path: Path, rows: int, idle: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By bounds in the headers of pages DuckDB 2.0 takes all rows of some pages for nulls."""
    monkeypatch.setattr(writing, "_LEAST_BYTES", 0)
    path = tmp_path / "x.parquet"
    write(with_nulls(0, rows), path, sort_by=[SortField(column="id")], cores=Cores(idle))
    assert list(nulls_by_duckdb(path)) == [rows // 2] * len(NULLS)


def test_types_survive_without_arrows_own_copy_of_the_schema(tmp_path: Path) -> None:
    table = pa.table(
        {
            "u": pa.uuid().wrap_array(pa.array([b"\x01" * 16], pa.binary(16))),
            "j": pa.json_().wrap_array(pa.array(["{}"])),
            "z": pa.array([1], pa.timestamp("us", "UTC")),
            "n": pa.array([1], pa.timestamp("ns")),
            "t": pa.array([1], pa.time64("ns")),
            "l": [[{"a": 1}]],
        }
    )
    write(table, tmp_path / "x.parquet")
    rows = duckdb.execute(
        "DESCRIBE SELECT * FROM read_parquet(?)", [str(tmp_path / "x.parquet")]
    ).fetchall()
    assert [row[1] for row in rows] == [
        "UUID",
        "JSON",
        "TIMESTAMP WITH TIME ZONE",
        "TIMESTAMP_NS",
        "TIME_NS",
        "STRUCT(a BIGINT)[]",
    ]
    assert pq.read_table(tmp_path / "x.parquet").column("n").to_pylist() == (
        table.column("n").to_pylist()
    )


@given(
    rows=st.lists(
        st.fixed_dictionaries(
            {"a": st.none() | st.integers(0, 2), "b": st.none() | st.sampled_from(["x", "ä", ""])}
        ),
        max_size=8,
    ),
    down=st.booleans(),
)
def test_rows_are_in_order_with_nulls_last(rows: list[dict[str, Any]], down: bool) -> None:
    table = pa.Table.from_pylist(rows, pa.schema([("a", pa.int64()), ("b", pa.string())]))
    keys = [SortKey("a", descending=down), SortKey("b")]
    found = sort_rows(table, keys).to_pylist()

    def order(row: dict[str, Any]) -> tuple[Any, ...]:
        a, b = row["a"], row["b"]
        return (a is None, -(a or 0) if down else a or 0, b is None, (b or "").encode())

    assert sorted(map(order, found)) == sorted(map(order, rows))
    assert found == sorted(found, key=order)


def test_a_uuid_can_be_sorted_by_and_a_nested_column_cannot() -> None:
    array = pa.uuid().wrap_array(pa.array([b"\x02" * 16, b"\x01" * 16], pa.binary(16)))
    table = pa.table({"u": array, "l": [[1], [2]]})
    assert sort_rows(table, [SortKey("u")]).column("l").to_pylist() == [[2], [1]]
    with pytest.raises(UsageError, match="'l'"):
        sort_rows(table, [SortKey("l")])


def test_a_full_disk_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_args: object, **_named: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(pq.ParquetWriter, "write_table", full)
    with pytest.raises(ScratchFullError, match="4 rows"):
        write(TABLE, tmp_path / "x.parquet")


def test_values_that_are_too_long_for_parquet_are_named_by_their_column(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_given: Any, **_options: Any) -> None:
        raise OSError("Uncompressed data page size overflows INT32_MAX. Size:2411725082")

    monkeypatch.setattr(pq.ParquetWriter, "write_table", fails)
    with pytest.raises(PartSchemaError, match=r"column 's' has .* bytes in 4 rows") as caught:
        write(TABLE.set_column(1, "s", pa.array(["a" * 100] * 4)), tmp_path / "a")
    assert "overflows INT32_MAX" in caught.value.message


# --- column by column -----------------------------------------------------------------------------


@pytest.fixture
def small_ones_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of any size have files of columns, if a core is idle."""
    monkeypatch.setattr(writing, "_LEAST_BYTES", 0)


def of_all_kinds(rows: int) -> pa.Table:
    numbers = range(rows)
    return pa.table(
        {
            "id": [n * 7919 % rows for n in numbers],
            "x": [None if n % 5 == 0 else n / 3 for n in numbers],
            "nan": [float("nan") if n == 7 else 1.0 for n in numbers],
            "s": [f"text {n % 11}" for n in numbers],
            "l": pa.array([[n, None][: n % 3] for n in numbers], pa.list_(pa.int64())),
            "st": [{"a": n, "b": {"c": str(n)}} for n in numbers],
            "m": pa.array([[(str(n), n)] for n in numbers], pa.map_(pa.string(), pa.int64())),
            "u": pa.uuid().wrap_array(
                pa.array([n.to_bytes(16, "big") for n in numbers], pa.binary(16))
            ),
            "j": pa.json_().wrap_array(pa.array(["{}"] * rows)),
            "z": pa.array(numbers, pa.timestamp("us", "UTC")),
            "d": pa.array(numbers, pa.decimal128(20, 2)),
        }
    )


def statistics(group: RowGroup) -> list[bytes | None]:
    """What Parquet's footer says of the values of each column: some are beyond Python's."""
    chunks = [chunk.struct(3) for chunk in group.chunks()]  # ColumnMetaData
    return [encode(meta.struct(12)) if 12 in meta.fields else None for meta in chunks]


def stated(path: Path) -> dict[str, Any]:
    """What a footer states, but for where things lie."""
    metadata = pq.read_metadata(path)
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    chunks = [[group.column(number) for number in range(group.num_columns)] for group in groups]
    return {
        "pairs": metadata.metadata,
        "schema": str(metadata.schema).partition("\n")[2],
        "rows": [group.num_rows for group in groups],
        "sorting": [group.sorting_columns for group in groups],
        "statistics": [statistics(group) for group in read_footer(path).row_groups],
        "indexes": [
            [(each.has_column_index, each.has_offset_index) for each in group] for group in chunks
        ],
        "bytes": [[each.total_compressed_size for each in group] for group in chunks],
    }


@pytest.mark.parametrize("sort_by", [(), (SortKey("s", descending=True), SortKey("id"))])
@pytest.mark.parametrize("idle", [1, 3])
def test_a_part_is_the_same_column_by_column(
    idle: int,
    sort_by: tuple[SortKey, ...],
    small_ones_too: None,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(writing, "_PAGE_INDEX_ROWS", 1_000)
    table = of_all_kinds(2_500)
    options: dict[str, Any] = {"sort_by": sort_by, "metadata": {"a": "b"}}
    write(table, tmp_path / "whole", **options)
    cores = Cores(idle)
    write(table, tmp_path / "columns", cores=cores, **options)
    assert cores.idle == idle
    assert stated(tmp_path / "columns") == stated(tmp_path / "whole")
    ours, theirs = (pq.read_table(tmp_path / name) for name in ("columns", "whole"))
    assert repr(ours.to_pylist()) == repr(theirs.to_pylist())  # NaN is no other NaN
    rows = "FROM read_parquet(?)"
    given = [str(tmp_path / name) for name in ("columns", "whole")]
    assert duckdb.execute(f"SELECT count(*) FROM ({rows} EXCEPT {rows})", given).fetchone() == (0,)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["columns", "whole"]


@pytest.mark.long
@examples(15, 1_000)
@given(given_rows=tables(), sort=st.booleans(), row_group_rows=st.integers(1, 8))
def test_whatever_the_rows_a_part_is_the_same_column_by_column(
    tmp_path_factory: pytest.TempPathFactory,
    given_rows: pa.Table,
    sort: bool,
    row_group_rows: int,
) -> None:
    try:
        rows = conform_rows(given_rows, SchemaUnion()).rows
    except FirnlineError:
        return  # no part holds them
    folder = tmp_path_factory.mktemp("any")
    plain = [
        n
        for n, kind in zip(rows.column_names, rows.schema.types, strict=True)
        if not pa.types.is_nested(kind)
    ]
    keys = [SortKey(name, descending=True) for name in plain[:2]] if sort else []
    options: dict[str, Any] = {"sort_by": keys, "row_group_rows": row_group_rows}
    options["metadata"] = {"a": "b"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writing, "_LEAST_BYTES", 0)
        patch.setattr(writing, "_PAGE_INDEX_ROWS", 5)
        write(rows, folder / "whole", **options)
        write(rows, folder / "columns", cores=Cores(1), **options)
    assert repr(stated(folder / "columns")) == repr(stated(folder / "whole"))
    ours, theirs = (pq.read_table(folder / name) for name in ("columns", "whole"))
    assert [plain_values(each) for each in ours.columns] == [
        plain_values(each) for each in theirs.columns
    ]


@pytest.mark.parametrize(
    ("columns", "idle", "by_columns"), [(2, 0, False), (2, 1, True), (1, 1, False)]
)
def test_columns_have_files_where_that_is_faster(
    columns: int,
    idle: int,
    by_columns: bool,
    small_ones_too: None,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    joined: list[Path] = []

    def join(footers: Any, path: Path, *others: Any) -> bool:
        joined.append(path)
        return join_columns(footers, path, *others)

    monkeypatch.setattr(writing, "join_columns", join)
    table = pa.table({f"c{number}": [1, 2] for number in range(columns)})
    write(table, tmp_path / "x", cores=Cores(idle))
    assert bool(joined) == by_columns


def test_a_small_part_is_written_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(writing, "join_columns")
    write(TABLE, tmp_path / "x", cores=Cores(1))


def test_where_the_disk_has_no_room_for_a_part_twice_it_is_written_at_once(
    small_ones_too: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def full(_footers: Any, path: Path, *_others: Any) -> bool:
        path.write_bytes(b"PAR1")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(writing, "join_columns", full)
    path = tmp_path / "x"
    assert write(TABLE, path, sort_by=[SortKey("x")], cores=Cores(1)) == path.stat().st_size
    assert pq.read_table(path).to_pydict() == {"x": [1, 2, 3, None], "s": ["a", "b", "c", "n"]}
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), ScratchFullError),
        (OSError("Uncompressed data page size overflows INT32_MAX"), PartSchemaError),
    ],
)
def test_of_columns_that_cannot_be_written_nothing_is_left(
    fault: Exception,
    error: type[Exception],
    small_ones_too: None,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    def fails(writer: pq.ParquetWriter, rows: pa.Table, **_options: Any) -> None:
        if "s" in rows.column_names:
            raise fault

    monkeypatch.setattr(pq.ParquetWriter, "write_table", fails)
    with pytest.raises(error, match="4 rows"):
        write(TABLE, tmp_path / "x", cores=Cores(1))
    assert not {each.name for each in tmp_path.iterdir()} - {"x"}


@pytest.mark.parametrize(("columns", "files", "most"), [(1, 1, 1), (16, 16, 1), (100, 15, 7)])
def test_columns_are_spread_over_some_files(columns: int, files: int, most: int) -> None:
    names = [f"c{number}" for number in range(columns)]
    runs = list(runs_of(names))
    assert [name for run in runs for name in run] == names
    assert (len(runs), max(map(len, runs))) == (files, most)
