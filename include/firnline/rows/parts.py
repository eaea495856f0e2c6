"""New rows become parts: conformed, checked, split by partition, sorted, uploaded.

Knows no log: what makes the parts visible is the caller's. An append uses it, and a replace, in the
driver or in a kernel.
"""

# ruff: noqa: TID253 - rows are handled here; no DAG file imports it at parse

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

import msgspec
import pyarrow as pa

from firnline.clock import Clock
from firnline.cores import Cores, side_by_side
from firnline.ids import Ids
from firnline.parquet.part import PartitionLevel, PartMetadata, WrittenPart
from firnline.parquet.stats import from_table
from firnline.parquet.write import write_part
from firnline.paths import TablePaths
from firnline.rows.conform import check_columns, conform_rows, newest_of_each_key
from firnline.store.base import Store
from firnline.types.digests import total
from firnline.types.hashes import Hashes
from firnline.types.order import SortColumn
from firnline.types.schema import SchemaUnion
from firnline.types.untyped import Waiting

CHUNK_BYTES = 32 * 2**20
"""Maximum bytes of rows gathered before they are split by partition: a thousand tiny batches would
otherwise become a thousand tiny slices per partition."""
_HASHED_ROWS = 2**17
"""Rows that one core hashes at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The form of a table's parts, from its settings."""

    table: str
    """Name of the table, for errors."""
    partition_by: Sequence[PartitionLevel]
    partition: str
    """Path of all rows, without ``partition_by``."""
    sort_by: Sequence[SortColumn]
    primary_key: Sequence[str]
    version: str | None
    stats_columns: Sequence[str]
    part_bytes: int
    """Size in bytes of a Parquet file at which a part is closed."""
    buffer_bytes: int
    """Bytes of rows kept in memory, all partitions together, in Arrow's size. While a part is
    sorted it is held twice."""
    compression_level: int
    row_group_rows: int


@dataclass(frozen=True, slots=True)
class Place:
    """The store and folders of new parts, and the sources of their names."""

    store: Store
    paths: TablePaths
    ids: Ids
    clock: Clock
    scratch: Path
    """Folder for a part on its way."""


@dataclass(slots=True)
class PartWriter:
    """Writes the parts of one append or replace, in bounded memory.

    Args:
        layout: the form of the parts.
        place: where they go.
        metadata: of every part, but for its partition and rows.
        more: more key-value pairs for the footers.
        known: the table's columns; extended by those of the rows.
        uploading: called with the key of each part before it is uploaded.
        cores: lends idle cores.
        check: called with rows in their columns' types before they are taken; may refuse them.
    """

    layout: Layout
    place: Place
    metadata: PartMetadata
    more: Mapping[str, str]
    known: SchemaUnion
    uploading: Callable[[str], None]
    cores: Cores = field(default_factory=Cores)
    check: Callable[[pa.Table], None] | None = None
    columns: dict[str, str] = field(default_factory=dict)
    """SQL type by column, of the rows so far."""
    parts: list[WrittenPart] = field(default_factory=list)
    waiting: Waiting = field(default_factory=lambda: Waiting(tells=False))
    """Columns and fields of the rows so far that were left out because they have no type."""
    buffer: PartBuffer = field(init=False)
    _named_ms: int = 0
    """Timestamp in the name of the last part, unix ms."""

    def __post_init__(self) -> None:
        layout = self.layout
        self.buffer = PartBuffer(
            layout.partition_by,
            layout.partition,
            part_bytes=layout.part_bytes,
            buffer_bytes=layout.buffer_bytes,
        )

    def add(self, rows: pa.Table) -> None:
        """Check and add rows; may write parts.

        Raises:
            PartSchemaError, SchemaConflictError, UsageError: they do not fit the table.
            StoreError, ScratchFullError: a part could not be written.
        """
        conformed = conform_rows(rows, self.known, self.waiting)
        first = not self.columns
        self.columns |= conformed.columns
        if first:
            check_columns(self.layout.table, self.layout.stats_columns, self.known.columns)
        if self.check is not None:
            self.check(conformed.rows)
        if not conformed.rows.num_rows:
            return  # else a table without rows would become a part without rows
        for partition, piece in self.buffer.add(conformed.rows):
            self._write(partition, piece)

    def flush(self) -> None:
        """Write the parts that are still open."""
        for partition, piece in self.buffer.drain():
            self._write(partition, piece)

    def _hashes(self, partition: str) -> Hashes:
        """Return what the partition says of the rows: nothing unless they were split here."""
        if not self.layout.partition_by:
            return ()
        # It needs numpy, which executors have only where they split.
        from firnline.parquet.partition import buckets_of

        return buckets_of(partition, self.layout.partition_by, self.columns)

    def _write(self, partition: str, rows: pa.Table) -> None:
        layout, place = self.layout, self.place
        # Parts of one append have one time; among them only the names show which came later.
        self._named_ms = max(place.clock.now_ms(), self._named_ms + 1)
        name = place.ids.uuid7(self._named_ms)
        key = place.paths.data_part(partition, name)
        rows = newest_of_each_key(rows, layout.primary_key, layout.version)
        digest = _digest_of(rows, self.cores)
        pairs = msgspec.structs.replace(
            self.metadata, partition=partition, rows=rows.num_rows, digest=digest or ""
        )
        path = place.scratch / f"{name}.parquet"
        size, order = write_part(
            rows,
            path,
            sort_by=layout.sort_by,
            metadata={**self.more, **pairs.to_pairs()},
            compression_level=layout.compression_level,
            row_group_rows=layout.row_group_rows,
            cores=self.cores,
        )
        self.buffer.written(rows.nbytes, size)
        self.uploading(key)
        place.store.put_file(key, path)
        path.unlink()
        self.parts.append(
            WrittenPart(
                key=key,
                partition=partition,
                bytes=size,
                rows=rows.num_rows,
                stats=from_table(rows, layout.stats_columns),
                hashes=self._hashes(partition),
                digest=digest,
                sorted_by=order,
            )
        )


def _digest_of(rows: pa.Table, cores: Cores) -> str | None:
    """Return the digest of rows; None for types without one, and on executors without numpy.

    Args:
        rows: any.
        cores: lends idle cores, which hash some of the rows each.
    """
    if find_spec("numpy") is None:
        return None
    from firnline.types.rowhash import can_digest, digest_of

    if not all(map(can_digest, rows.schema.types)):
        return None
    begins = range(0, rows.num_rows, _HASHED_ROWS)
    # What is computed of a batch takes no memory that counts.
    jobs = [(rows.slice(begin, _HASHED_ROWS), 0) for begin in begins]
    return str(total(side_by_side(jobs, digest_of, cores, 0)))


class PartBuffer:
    """Collects rows per partition and yields them when they fill a part.

    Args:
        fields: partition levels; none: all rows go to ``partition``.
        partition: path for a table without partition fields.
        part_bytes: size in bytes of a Parquet file at which a part is closed.
        buffer_bytes: bytes of rows kept in memory, all partitions together, in Arrow's size. While
            a part is sorted it is held twice.
    """

    def __init__(
        self,
        fields: Sequence[PartitionLevel],
        partition: str,
        *,
        part_bytes: int,
        buffer_bytes: int,
    ) -> None:
        self._fields = tuple(fields)
        self._partition = partition
        self._part_bytes = part_bytes
        self._buffer_bytes = buffer_bytes
        self._ratio = 1.0
        self._open: dict[str, list[pa.Table]] = {}
        self._bytes: dict[str, int] = {}

    @property
    def chunk_bytes(self) -> int:
        """Maximum bytes of rows to pass to one call of ``add``."""
        return max(1, min(CHUNK_BYTES, self._part_bytes, self._buffer_bytes // 4))

    @property
    def bytes(self) -> int:
        """Size in bytes of the rows held, in Arrow's size."""
        return sum(self._bytes.values())

    def add(self, rows: pa.Table) -> Iterator[tuple[str, pa.Table]]:
        """Add rows; yield parts that are full, and the largest ones while memory is exceeded.

        Raises UsageError as ``partition_batches``.
        """
        pieces = self._split(rows)
        for partition, piece in pieces:
            self._open.setdefault(partition, []).append(piece)
            self._bytes[partition] = self._bytes.get(partition, 0) + piece.nbytes
        for partition, _ in pieces:
            if self._bytes[partition] >= self._part_bytes * self._ratio:
                yield self._close(partition)
        while self._open and self.bytes > self._buffer_bytes:
            yield self._close(max(self._bytes, key=self._bytes.__getitem__))

    def _split(self, rows: pa.Table) -> list[tuple[str, pa.Table]]:
        if not self._fields:
            return [(self._partition, rows)]
        # It needs numpy, which executors have only where they split.
        from firnline.parquet.partition import partition_batches

        return partition_batches(rows, self._fields)

    def drain(self) -> Iterator[tuple[str, pa.Table]]:
        """Yield the remaining rows, sorted by partition path."""
        for partition in sorted(self._open):
            yield self._close(partition)

    def written(self, memory_bytes: int, file_bytes: int) -> None:
        """Record the ratio of memory to file size, so that a full part is full on disk."""
        self._ratio = max(1.0, memory_bytes / max(1, file_bytes))

    def _close(self, partition: str) -> tuple[str, pa.Table]:
        del self._bytes[partition]
        # Batches of one stream may differ in their columns and fields: missing ones are null.
        pieces = self._open.pop(partition)
        return partition, pa.concat_tables(pieces, promote_options="default")
