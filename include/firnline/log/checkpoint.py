"""Files under ``_ckpt/``: a state of the log as Parquet (docs/format.md, "Checkpoints").

One row per part, sorted by partition and name; everything else is in the file's metadata. The
checksum covers the whole object with its own eight digits replaced by zeros: no Parquet structure,
page headers and footer included, is trusted before it matches.
"""

from __future__ import annotations

import zlib
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from firnline.errors import CheckpointError, CheckpointVersionError, FirnlineError
from firnline.log.codec import UNREADABLE
from firnline.log.columnar import NONE, ColumnarParts, PartColumns
from firnline.log.records import Delete, LogContent, LogTombstone, Marker, TxnMark
from firnline.log.union import combine, union_parts
from firnline.paths import TablePaths
from firnline.properties.record import PropertiesRecord

VERSION = 1
META = b"firnline.checkpoint"
SUM_KEY = "firnline.sum"
SUM, ZEROS = b"crc32=", b"00000000"
INTS = ("b", "t", "tmb", "n", "q")

_KEY = attrgetter("p")
GROUP_ROWS = 65_536
"""Rows of a row group, the unit in which names and markers are decoded lazily."""
_SCHEMA = pa.schema(
    [
        pa.field("partition", pa.string(), nullable=False),
        pa.field("p", pa.string(), nullable=False),
        *(pa.field(name, pa.int64(), nullable=False) for name in INTS),
        pa.field("d", pa.string(), nullable=False),
        *(pa.field(name, pa.int64(), nullable=False) for name in ("o", "o_last")),
        pa.field("s", pa.binary(), nullable=False),
        pa.field("c", pa.string(), nullable=False),
        pa.field("h", pa.binary(), nullable=False),
        pa.field("x", pa.binary(), nullable=False),
    ]
)


class Covered(msgspec.Struct, frozen=True, array_like=True):
    """A log file whose content is in a checkpoint."""

    key: str
    line: int
    """Index of its schema line in ``CheckpointHead.schemas``."""


class Tombstone(msgspec.Struct, frozen=True, array_like=True):
    """The log tombstone of a folded log file."""

    key: str
    t: int
    """Time when it was first folded, unix milliseconds."""
    ours: bool
    """True if a transaction folded it, not a foreign client: its content need not be read."""


class CheckpointHead(msgspec.Struct, frozen=True, kw_only=True):
    """A checkpoint without the parts."""

    v: int = VERSION
    seq: int
    """Sequence number of the newest transaction in it."""
    parts: int
    covered: list[Covered]
    schemas: list[dict[str, str]]
    """The distinct schema lines of the covered log files: column -> SQL type name."""
    stones: list[Tombstone] = []
    deletes: list[Delete] = []
    properties: list[PropertiesRecord] = []
    other: list[str] = []
    """Extension records of kinds that this version does not know, as JSON text."""
    mark: TxnMark | None = None
    """Mark of the newest transaction, with the purge horizon."""


class _Version(msgspec.Struct, frozen=True):
    v: int


_HEAD = msgspec.json.Decoder(CheckpointHead)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A decoded checkpoint."""

    key: str
    head: CheckpointHead
    columns: PartColumns
    covered: frozenset[str]
    folded: frozenset[str]
    """Log files that transactions had folded."""

    def content(self) -> LogContent:
        """Return everything but parts and schema lines in the form of a log file."""
        head = self.head
        return LogContent(
            t=0,
            schema={},
            tombstones=[LogTombstone(tombstone.key, tombstone.t) for tombstone in head.stones],
            deletes=head.deletes,
            other=[line.encode() for line in head.other],
            x=head.mark,
        )

    def schema_lines(self, folded: Container[str]) -> list[tuple[str, dict[str, str]]]:
        """Return (log file, its schema line) of the covered log files that are not ``folded``."""
        lines = self.head.schemas
        return [(c.key, lines[c.line]) for c in self.head.covered if c.key not in folded]

    def speaks_of(self, deletes: Container[str], parts: Iterable[str]) -> bool:
        """Return True if it holds the record of one of the deletes, or the marker of a part."""
        held = ColumnarParts(self.columns, {})
        return any(d.id in deletes for d in self.head.deletes) or any(p in held for p in parts)

    def with_newer(self, contents: Iterable[LogContent]) -> Mapping[str, Marker]:
        """Return all parts: those of the checkpoint and those of log files that it does not cover.

        Raises LogCorruptError: see ``union.combine``.
        """
        old = ColumnarParts(self.columns, {})
        newer = union_parts(contents)
        for path, marker in newer.items():
            marker_before = old.get(path)
            if marker_before is not None:
                newer[path] = combine(marker_before, marker)
        return ColumnarParts(self.columns, newer)


def _check_sum(key: str, data: bytes) -> None:
    at = data.rfind(SUM) + len(SUM)
    view = memoryview(data)
    computed = zlib.crc32(view[at + len(ZEROS) :], zlib.crc32(ZEROS, zlib.crc32(view[:at])))
    if at < len(SUM) or data[at : at + len(ZEROS)] != b"%08x" % computed:
        raise _unreadable(key, "its checksum does not match: the object was truncated or changed")


def _unreadable(key: str, why: object) -> CheckpointError:
    return CheckpointError(
        f"checkpoint {key} cannot be read: {why}",
        next_step="delete it; the log holds the same content",
    )


def decode(key: str, data: bytes, paths: TablePaths) -> Checkpoint:
    """Decode a checkpoint.

    Raises:
        CheckpointVersionError: a later version wrote it.
        CheckpointError: it was truncated or changed.
    """
    _check_sum(key, data)
    try:
        file = pq.ParquetFile(pa.py_buffer(data), read_dictionary=["partition"])
        head = _head(key, (file.metadata.metadata or {}).get(META, b""))
        for path in (*(c.key for c in head.covered), *(s.key for s in head.stones)):
            paths.check_log(path)
        columns = _columns(file, paths)
    except (*UNREADABLE, pa.ArrowException, OSError, KeyError, ValueError) as error:
        raise _unreadable(key, error) from error
    except CheckpointError:
        raise
    except FirnlineError as error:
        raise _unreadable(key, error.message) from error
    if len(columns) != head.parts or any(c.line >= len(head.schemas) for c in head.covered):
        raise _unreadable(key, "its parts and its metadata do not match")
    return Checkpoint(
        key,
        head,
        columns,
        frozenset(c.key for c in head.covered),
        frozenset(s.key for s in head.stones if s.ours),
    )


def _head(key: str, text: bytes) -> CheckpointHead:
    version = msgspec.json.decode(text, type=_Version).v
    if version != VERSION:
        raise CheckpointVersionError(
            f"checkpoint {key} has format version {version}, this firnline reads {VERSION}",
            next_step="upgrade firnline to read the table as fast as its writer does",
        )
    return _HEAD.decode(text)


def _columns(file: pq.ParquetFile, paths: TablePaths) -> PartColumns:
    table = file.read(columns=["partition", *INTS], use_threads=True)
    partitions, starts = _runs(table.column("partition"))
    for partition in partitions:
        paths.check_part(f"{paths.partition_dir(partition)}x")
    return PartColumns(
        data_dir=paths.data_dir,
        partitions=partitions,
        starts=starts,
        **{name: _numbers(table.column(name), np.int64) for name in INTS},
        group_rows=file.metadata.row_group(0).num_rows if len(table) else 1,
        read_names=lambda group: file.read_row_group(group, columns=["p"])["p"].combine_chunks(),
        read_rest=lambda group, names: _rest(file, group, names),
    )


def _rest(file: pq.ParquetFile, group: int, names: Sequence[str]) -> dict[str, Any]:
    has = [name for name in names if name in file.schema_arrow.names]
    table = file.read_row_group(group, columns=has)
    columns = {name: table.column(name).combine_chunks() for name in has}
    # A version that did not know hash ranges left them in "x".
    return {"h": pa.nulls(len(table), pa.binary()), **columns}


def _numbers(column: Any, kind: Any) -> Any:  # noqa: ANN401 - pyarrow and numpy types as values
    """Return the numbers of a column without nulls; ``to_numpy`` would import pandas (0.4 s)."""
    pieces = [
        np.frombuffer(chunk.buffers()[1], kind, len(chunk), chunk.offset * np.dtype(kind).itemsize)
        for chunk in getattr(column, "chunks", [column])
        if len(chunk)
    ]
    return np.concatenate(pieces) if pieces else np.empty(0, kind)


def _runs(column: pa.ChunkedArray) -> tuple[list[str], list[int]]:
    """Return the partitions of a sorted column, and the first row of each."""
    partitions: list[str] = []
    starts: list[int] = []
    offset = 0
    for chunk in column.chunks:
        codes = _numbers(chunk.indices, np.int32)
        begins = [0, *(np.flatnonzero(np.diff(codes)) + 1).tolist()] if len(codes) else []
        for begin in begins:
            name = chunk.dictionary[int(codes[begin])].as_py()
            if not partitions or partitions[-1] != name:
                partitions.append(name)
                starts.append(offset + begin)
        offset += len(codes)
    return partitions, [*starts, offset]


def encode(head: CheckpointHead, parts: Iterable[Marker], paths: TablePaths) -> bytes:
    """Encode a checkpoint.

    Raises CheckpointError if its columns cannot hold a value of a marker.
    """
    rows = _in_order(parts, paths)
    sink = pa.BufferOutputStream()
    try:
        with pq.ParquetWriter(
            sink,
            _SCHEMA,
            compression="zstd",
            use_dictionary=["partition", *INTS, "o", "o_last", "d", "c", "h", "x"],
            write_statistics=False,
            store_schema=False,
        ) as writer:
            for some in iter(lambda: list(islice(rows, GROUP_ROWS)), []):
                writer.write_table(_table(some), row_group_size=GROUP_ROWS)
            writer.add_key_value_metadata({META: msgspec.json.encode(head)})
            writer.add_key_value_metadata({SUM_KEY: (SUM + ZEROS).decode()})
    except (pa.ArrowException, OverflowError) as error:
        raise CheckpointError(
            f"the parts under {paths.data_dir} cannot be written as a checkpoint: {error}",
            next_step="nothing is lost: the log is read without one",
        ) from error
    return _sealed(sink.getvalue().to_pybytes())


def _in_order(parts: Iterable[Marker], paths: TablePaths) -> Iterator[tuple[str, str, Marker]]:
    """Yield (partition, name, marker) by partition and name: a list of all would be as much again.

    Within a partition the order of the keys is that of the names.
    """
    start = len(paths.data_dir)
    by_partition: dict[str, list[Marker]] = {}
    for marker in parts:
        by_partition.setdefault(marker.p[start:].rpartition("/")[0], []).append(marker)
    for partition in sorted(by_partition):
        begin = start + len(partition) + bool(partition)
        for marker in sorted(by_partition.pop(partition), key=_KEY):
            yield partition, marker.p[begin:], marker


def _table(rows: list[tuple[str, str, Marker]]) -> pa.Table:
    markers = [marker for _, _, marker in rows]
    orders = [(NONE, NONE) if m.o is None else _order(m.o) for m in markers]
    unknown = [_unknown(m) for m in markers]
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
        "h": [bytes(m.h) for m in markers],
        "x": [msgspec.json.encode(extra) if extra else b"" for extra in unknown],
    }
    return pa.table(columns, schema=_SCHEMA)


def _unknown(marker: Marker) -> dict[str, msgspec.Raw]:
    """Return the keys without a column: earlier versions refuse one that they do not know."""
    extra = marker.unknown()
    if marker.g is not None:
        extra = {**extra, "g": msgspec.Raw(msgspec.json.encode(marker.g))}
    if marker.w is not None:
        extra = {**extra, "w": msgspec.Raw(msgspec.json.encode(marker.w))}
    return {**extra, "k": marker.k} if marker.k else extra


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
