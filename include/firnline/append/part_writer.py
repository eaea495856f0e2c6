"""Collect rows into parts: bounded in memory, one open part per partition."""

# ruff: noqa: TID253 - rows are handled here; no DAG file imports it at parse

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from firnline.parquet.partition import partition_batches
from firnline.settings.fields import PartitionField

CHUNK_BYTES = 32 * 2**20
"""Maximum bytes of rows gathered before they are split by partition: a thousand tiny batches would
otherwise become a thousand tiny slices per partition."""


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
        fields: Sequence[PartitionField],
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
        pieces = (
            partition_batches(rows, self._fields) if self._fields else [(self._partition, rows)]
        )
        for partition, piece in pieces:
            self._open.setdefault(partition, []).append(piece)
            self._bytes[partition] = self._bytes.get(partition, 0) + piece.nbytes
        for partition, _ in pieces:
            if self._bytes[partition] >= self._part_bytes * self._ratio:
                yield self._close(partition)
        while self._open and self.bytes > self._buffer_bytes:
            yield self._close(max(self._bytes, key=self._bytes.__getitem__))

    def drain(self) -> Iterator[tuple[str, pa.Table]]:
        """Yield the remaining rows, sorted by partition path."""
        for partition in sorted(self._open):
            yield self._close(partition)

    def written(self, memory_bytes: int, file_bytes: int) -> None:
        """Record the ratio of memory to file size, so that a full part is full on disk."""
        self._ratio = max(1.0, memory_bytes / max(1, file_bytes))

    def _close(self, partition: str) -> tuple[str, pa.Table]:
        del self._bytes[partition]
        # Batches of one stream may differ in their columns: missing ones are null.
        pieces = self._open.pop(partition)
        return partition, pa.concat_tables(pieces, promote_options="default")
