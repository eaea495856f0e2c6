"""Writes a checkpoint; ``checkpoint_file`` reads it and says what is in it."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from firnline.errors import CheckpointError
from firnline.log.checkpoint import INTS, META, SUM, SUM_KEY, ZEROS, CheckpointHead
from firnline.log.part_columns import NONE
from firnline.log.records import Marker
from firnline.paths import TablePaths

GROUP_ROWS = 65_536
"""Rows of a row group: what is decoded when the first name or marker of it is asked for."""
_SCHEMA = pa.schema(
    [
        pa.field("partition", pa.string(), nullable=False),
        pa.field("p", pa.string(), nullable=False),
        *(pa.field(name, pa.int64(), nullable=False) for name in INTS),
        pa.field("d", pa.string(), nullable=False),
        *(pa.field(name, pa.int64(), nullable=False) for name in ("o", "o_last")),
        pa.field("s", pa.binary(), nullable=False),
        pa.field("c", pa.string(), nullable=False),
        pa.field("x", pa.binary(), nullable=False),
    ]
)


def encode(head: CheckpointHead, parts: Iterable[Marker], paths: TablePaths) -> bytes:
    """A checkpoint as its object holds it.

    Raises CheckpointError when there is something in a marker that its columns cannot hold.
    """
    start = len(paths.data_dir)
    rows = sorted((*_split(marker.p[start:]), marker) for marker in parts)
    sink = pa.BufferOutputStream()
    try:
        with pq.ParquetWriter(
            sink,
            _SCHEMA,
            compression="zstd",
            use_dictionary=["partition", *INTS, "o", "o_last", "d", "c", "x"],
            write_statistics=False,
            store_schema=False,
        ) as writer:
            for low in range(0, len(rows), GROUP_ROWS):
                writer.write_table(_table(rows[low : low + GROUP_ROWS]), row_group_size=GROUP_ROWS)
            writer.add_key_value_metadata({META: msgspec.json.encode(head)})
            writer.add_key_value_metadata({SUM_KEY: (SUM + ZEROS).decode()})
    except (pa.ArrowException, OverflowError) as error:
        raise CheckpointError(
            f"the parts under {paths.data_dir} do not fit a checkpoint: {error}",
            next_step="nothing is lost: the log is read without one",
        ) from error
    return _sealed(sink.getvalue().to_pybytes())


def _split(path: str) -> tuple[str, str]:
    folder, _, name = path.rpartition("/")
    return folder, name


def _table(rows: list[tuple[str, str, Marker]]) -> pa.Table:
    markers = [marker for _, _, marker in rows]
    orders = [(NONE, NONE) if m.o is None else _order(m.o) for m in markers]
    unknown = [m.unknown() for m in markers]
    columns: dict[str, list[Any]] = {
        "partition": [partition for partition, _, _ in rows],
        "p": [name for _, name, _ in rows],
        "b": [m.b for m in markers],
        "t": [m.t for m in markers],
        "tmb": [_number(m.tmb) for m in markers],
        "n": [_number(m.n) for m in markers],
        "q": [_number(m.q) for m in markers],
        "d": [msgspec.json.encode(m.d).decode() if m.d is not None else "" for m in markers],
        "o": [first for first, _ in orders],
        "o_last": [last for _, last in orders],
        "s": [bytes(m.s) for m in markers],
        "c": [m.c or "" for m in markers],
        "x": [msgspec.json.encode(extra) if extra else b"" for extra in unknown],
    }
    return pa.table(columns, schema=_SCHEMA)


def _number(value: int | None) -> int:
    if value is None:
        return NONE
    if value < 0:
        raise OverflowError(f"{value} is negative")
    return value


def _order(order: int | tuple[int, int]) -> tuple[int, int]:
    return (order, NONE) if isinstance(order, int) else order


def _sealed(data: bytes) -> bytes:
    at = data.rindex(SUM + ZEROS) + len(SUM)
    return b"%s%08x%s" % (data[:at], zlib.crc32(data), data[at + len(ZEROS) :])
