"""Parquet files of other writers: in forms that readers understand differently, or damaged."""

from __future__ import annotations

import base64
import datetime
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow.parquet import encryption

DAY = datetime.datetime(2020, 1, 1)  # noqa: DTZ001 - of a column without a zone
JULIAN = (2_440_588 + 18_262).to_bytes(4, "little")
"""``DAY`` in an INT96."""


def rows(x: pa.Array) -> pa.Table:
    """Rows of the partition ``d=1``."""
    return pa.table({"d": [1] * len(x), "id": list(range(len(x))), "x": x})


def parquet(table: pa.Table, **options: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, **{"store_schema": False, **options})
    return sink.getvalue()


def by_duckdb(x: str, folder: Path) -> bytes:
    """A file that DuckDB writes, with two rows and this expression."""
    path = folder / "duckdb.parquet"
    duckdb.sql(
        f"COPY (SELECT 1::BIGINT AS d, id, {x} AS x FROM range(2) t(id)) "
        f"TO '{path}' (FORMAT parquet)"
    )
    return path.read_bytes()


def int96(day: int) -> bytes:
    """Times as old Spark writes them, the first of them on a day of the Julian calendar."""
    times = pa.array([DAY] * 2, pa.timestamp("ns"))
    data = parquet(
        rows(times),
        use_deprecated_int96_timestamps=True,
        use_dictionary=False,
        compression="none",
        write_statistics=False,
    )
    return data.replace(JULIAN, day.to_bytes(4, "little"), 1)


def split() -> bytes:
    """Bytes of a fixed length in an encoding of which DuckDB reads only numbers."""
    return parquet(
        rows(pa.array([b"abcd", b"efgh"], pa.binary(4))),
        use_dictionary=False,
        column_encoding={"x": "BYTE_STREAM_SPLIT", "d": "PLAIN", "id": "PLAIN"},
    )


def not_utf8() -> bytes:
    raw = pa.array([b"ok", b"caf\xe9"], pa.binary())
    return parquet(rows(pa.Array.from_buffers(pa.string(), 2, raw.buffers())))


def damaged(data: bytes) -> bytes:
    """The page of the last column begins with bytes that no page begins with."""
    chunk = pq.read_metadata(io.BytesIO(data)).row_group(0).column(2)
    start = chunk.dictionary_page_offset or chunk.data_page_offset
    return data[:start] + b"\xff" * 20 + data[start + 20 :]


class _Keys(encryption.KmsClient):  # type: ignore[misc]  # pyarrow has no types for it
    def __init__(self, _config: object) -> None:
        encryption.KmsClient.__init__(self)

    def wrap_key(self, key: bytes, _master: str) -> str:
        return base64.b64encode(key).decode()

    def unwrap_key(self, key: str, _master: str) -> bytes:
        return base64.b64decode(key)


def encrypted() -> bytes:
    """An encrypted column behind a footer that is not encrypted."""
    config = encryption.EncryptionConfiguration(
        footer_key="f", column_keys={"c": ["x"]}, plaintext_footer=True, double_wrapping=False
    )
    factory = encryption.CryptoFactory(_Keys)
    properties = factory.file_encryption_properties(encryption.KmsConnectionConfig(), config)
    table, sink = rows(pa.array(["a", "b"])), io.BytesIO()
    with pq.ParquetWriter(sink, table.schema, encryption_properties=properties) as writer:
        writer.write_table(table)
    return sink.getvalue()


def in_groups(*counts: int) -> bytes:
    """A file with row groups of these numbers of rows."""
    sink = io.BytesIO()
    with pq.ParquetWriter(sink, rows(pa.array(["a"])).schema, store_schema=False) as writer:
        for count in counts:
            writer.write_table(rows(pa.array(["a"] * 9)).slice(0, count))
    return sink.getvalue()


MERGED: dict[str, tuple[str, Callable[[Path], bytes]]] = {
    "uuid": ("BLOB", lambda _: parquet(rows(pa.array([b"u" * 16] * 2, pa.uuid())))),
    "json": ("VARCHAR", lambda _: parquet(rows(pa.array(['{"a":1}', "2"], pa.json_())))),
    "geometry": ("BLOB", lambda folder: by_duckdb("'POINT(1 2)'::GEOMETRY", folder)),
    "interval": ("BLOB", lambda folder: by_duckdb("INTERVAL '1 month 2 days'", folder)),
    "int96 out of range": ("TIMESTAMP", lambda _: int96(0)),
    "converted time": (
        "TIMESTAMP WITH TIME ZONE",
        lambda _: parquet(rows(pa.array([DAY] * 2, pa.timestamp("us"))), version="1.0"),
    ),
    "split bytes": ("BLOB", lambda _: split()),
}
"""Name -> the type that an earlier version gave the column ``x``, and the file: Arrow reads it, and
a repair writes it anew."""
LOST: dict[str, Callable[[], bytes]] = {
    "not utf-8": not_utf8,
    "damaged page": lambda: damaged(in_groups(2)),
    "encrypted column": encrypted,
}
"""Files with texts that no reader gives back as they are."""
