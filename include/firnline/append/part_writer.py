"""Rows on their way into parts: bounded in memory, one open part per partition."""

# ruff: noqa: TID253 - rows are handled here; no DAG file imports it at parse

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from firnline.parquet.partition import partition_batches
from firnline.settings.fields import PartitionField

CHUNK_BYTES = 32 * 2**20
"""Rows are gathered up to this size before they are split: a thousand tiny batches would else
become a thousand tiny slices per partition."""


class PartBuffer:
    """Collects rows per partition and gives them up as they fill a part.

    Args:
        fields: partition levels; none: everything goes to ``partition``.
        partition: path for a table without partition fields.
        part_bytes: size of a Parquet file at which a part is closed.
        buffer_bytes: rows kept in memory, all partitions together, in Arrow's bytes. While a part
            is sorted it is there twice.
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
        """Most bytes of rows that ``add`` should be given at once."""
        return max(1, min(CHUNK_BYTES, self._part_bytes, self._buffer_bytes // 4))

    @property
    def bytes(self) -> int:
        """Arrow's bytes of the rows held."""
        return sum(self._bytes.values())

    def add(self, rows: pa.Table) -> Iterator[tuple[str, pa.Table]]:
        """Take rows in; gives up parts that are full, and the largest when memory is.

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
        """Give up what is left, in the order of the paths."""
        for partition in sorted(self._open):
            yield self._close(partition)

    def written(self, memory_bytes: int, file_bytes: int) -> None:
        """Learn how much smaller rows become on disk, so that full parts are full there."""
        self._ratio = max(1.0, memory_bytes / max(1, file_bytes))

    def _close(self, partition: str) -> tuple[str, pa.Table]:
        del self._bytes[partition]
        # Batches of one stream may differ in their columns: what is missing is null.
        pieces = self._open.pop(partition)
        return partition, pa.concat_tables(pieces, promote_options="default")
