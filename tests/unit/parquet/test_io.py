from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as pe
import pytest

from firnline.errors import PartUnreadableError
from firnline.parquet.io import read_footer, read_local_footer
from firnline.parquet.write import write_part
from firnline.paths import Root
from firnline.store.base import Store
from firnline.store.client import open_store
from firnline.store.connect import forget_memory

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
        (lambda data: data[:-100] + b"\0" * 92 + data[-8:], "."),
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
