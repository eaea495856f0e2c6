from __future__ import annotations

import errno
import uuid
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as pe
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firnline.errors import PartSchemaError, PartUnreadableError, ScratchFullError, UsageError
from firnline.parquet.io import read_footer, read_local_footer, sort_rows, write_part
from firnline.paths import Root
from firnline.settings.load import SortField
from firnline.store.base import Store
from firnline.store.client import open_store
from firnline.store.connect import forget_memory
from firnline.types.order import SortKey

TABLE = pa.table({"x": [3, None, 1, 2], "s": ["c", "n", "a", "b"]})


def write(table: pa.Table, path: Path, **options: Any) -> int:
    given: dict[str, Any] = {"metadata": {}, "compression_level": 3, "row_group_rows": 1000}
    return write_part(table, path, **(given | options)).bytes


@pytest.fixture
def store() -> Store:
    root = Root.parse(f"memory://{uuid.uuid1()}/t")
    forget_memory(root.bucket)
    return open_store(root.url)


def put(store: Store, data: bytes) -> int:
    store.put_new("t/x.parquet", data)
    return len(data)


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


def test_a_footer_takes_one_request_and_a_very_wide_one_two(store: Store, tmp_path: Path) -> None:
    write(TABLE, tmp_path / "x.parquet")
    size = put(store, (tmp_path / "x.parquet").read_bytes())
    assert read_footer(store, "t/x.parquet", size).num_rows == 4
    assert store.counters.get == 1
    wide = pa.table({f"a_rather_long_column_name_{i}": [i] for i in range(1000)})
    size = write(wide, tmp_path / "wide.parquet")
    store.put_file("t/wide.parquet", tmp_path / "wide.parquet")
    assert read_footer(store, "t/wide.parquet", size).num_columns == 1000
    assert read_local_footer(tmp_path / "wide.parquet").num_columns == 1000
    assert store.counters.get == 3


def whole(tmp_path: Path) -> bytes:
    write(TABLE, tmp_path / "whole.parquet")
    return (tmp_path / "whole.parquet").read_bytes()


class _Kms(pe.KmsClient):  # type: ignore[misc]  # pyarrow has no type information
    """A key server that keeps the key beside what it locks."""

    def wrap_key(self, key_bytes: bytes, master_key_identifier: str) -> str:
        return key_bytes.hex()

    def unwrap_key(self, wrapped_key: str, master_key_identifier: str) -> bytes:
        return bytes.fromhex(wrapped_key)


def encrypted(tmp_path: Path) -> bytes:
    properties = pe.CryptoFactory(lambda _config: _Kms()).file_encryption_properties(
        pe.KmsConnectionConfig(),
        pe.EncryptionConfiguration(footer_key="f", uniform_encryption=True),
    )
    path = tmp_path / "encrypted.parquet"
    with pq.ParquetWriter(path, TABLE.schema, encryption_properties=properties) as writer:
        writer.write_table(TABLE)
    return path.read_bytes()


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda data: data[:-1], "is truncated"),
        (lambda data: data[: len(data) // 2], "is truncated"),
        (lambda data: data[:-8] + b"\xff\xff\xff\x7fPAR1", "footer states"),
        (lambda data: data[:-8] + b"\x04\x00\x00\x00PAR1", "cannot be read"),
        (lambda data: b"", "not a Parquet file"),
        (lambda data: b"a,b\n1,2\n", "not a Parquet file"),
        (lambda data: b"PAR1", "is truncated"),
        (lambda data: data[: -len(data) // 2] + b"\0" * (len(data) // 2 - 8) + data[-8:], "."),
    ],
)
def test_a_file_that_does_not_read_says_why(
    store: Store, tmp_path: Path, change: Any, why: str
) -> None:
    data = change(whole(tmp_path))
    (tmp_path / "bad.parquet").write_bytes(data)
    with pytest.raises(PartUnreadableError, match=why) as caught:
        read_local_footer(tmp_path / "bad.parquet")
    assert "bad.parquet" in str(caught.value)
    with pytest.raises(PartUnreadableError, match=why) as caught:
        read_footer(store, "t/x.parquet", put(store, data))
    assert "t/x.parquet" in str(caught.value)


def test_an_encrypted_file_is_called_encrypted(store: Store, tmp_path: Path) -> None:
    size = put(store, encrypted(tmp_path))
    with pytest.raises(PartUnreadableError, match="is encrypted"):
        read_local_footer(tmp_path / "encrypted.parquet")
    with pytest.raises(PartUnreadableError, match="is encrypted"):
        read_footer(store, "t/x.parquet", size)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(PartUnreadableError, match="nosuch"):
        read_local_footer(tmp_path / "nosuch.parquet")


def test_values_that_are_too_long_for_parquet_are_named_by_their_column(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_given: Any, **_options: Any) -> None:
        raise OSError("Uncompressed data page size overflows INT32_MAX. Size:2411725082")

    monkeypatch.setattr(pq.ParquetWriter, "write_table", fails)
    with pytest.raises(PartSchemaError, match=r"column 's' has .* bytes in 4 rows") as caught:
        write(TABLE.set_column(1, "s", pa.array(["a" * 100] * 4)), tmp_path / "a")
    assert "overflows INT32_MAX" in caught.value.message
