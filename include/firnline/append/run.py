"""One append: checks rows, writes parts, publishes them with one log file or deletes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from firnline.append.rows import check_settings, conform_rows, newest_of_each_key
from firnline.commit.append_log import publish_append
from firnline.commit.outputs import Outputs
from firnline.log.records import LogContent, Marker, stats_json
from firnline.parquet.io import write_part
from firnline.parquet.part import PartMetadata, WrittenPart
from firnline.parquet.partition import partition_batches
from firnline.parquet.stats import from_table
from firnline.properties.record import Properties
from firnline.settings.fields import PartitionField
from firnline.table import Table
from firnline.types.schema import SchemaUnion, as_known
from firnline.types.sql import fold_name

# ruff: noqa: TID253 - rows are handled here; no DAG file imports it at parse


@dataclass(frozen=True, slots=True)
class Origin:
    """The state of the table and the clocks when an append began."""

    id: str
    """UUIDv7 of the append."""
    writer: str
    """Name in the log file's key; ends in the id."""
    q: int
    """Newest transaction of the table when it began."""
    began_ms: int
    """``Clock.elapsed_ms`` from before ``q`` was read."""
    time_ms: int
    """Wall clock when it began, unix milliseconds."""
    properties: Properties | None = None
    """The table's properties as of ``q``; None: it has none of its own."""
    begins: bool = False
    """Nothing existed under ``_txn/``: the birth record must be written."""


@dataclass(slots=True)
class AppendRun:
    """State of one append.

    Args:
        table: the table.
        origin: the beginning of the append.
        known: the table's columns; extended by those of the rows.
        partition: path of all rows, for a table without partition fields.
        scratch: folder for temporary files.
        metadata: more key-value pairs for the footers.
        look_again: returns the table's current columns, for rows with an unknown column: another
            writer may have added it since.
        check: called with rows in their columns' types before they are taken; may refuse them.
    """

    table: Table
    origin: Origin
    known: SchemaUnion
    partition: str
    scratch: Path
    metadata: Mapping[str, str]
    look_again: Callable[[], SchemaUnion] | None = None
    check: Callable[[pa.Table], None] | None = None
    records: tuple[bytes, ...] = ()
    """Extension records of the log file, in addition to the markers."""
    columns: dict[str, str] = field(default_factory=dict)
    """SQL type by column, of the rows so far."""
    parts: list[WrittenPart] = field(default_factory=list)
    born: bool = False
    """True if it has written the table's birth record."""
    buffer: PartBuffer = field(init=False)
    new: Outputs = field(init=False)
    """All parts whose upload was started; rows must be added within this context manager."""
    _named_ms: int = 0
    """Timestamp in the name of the last part, unix ms."""

    def __post_init__(self) -> None:
        settings = self.table.settings
        self.new = Outputs(self.table)
        self.buffer = PartBuffer(
            settings.partition_by,
            self.partition,
            part_bytes=settings.append.part_bytes,
            buffer_bytes=settings.append.buffer,
        )

    def add(self, rows: pa.Table) -> None:
        """Check and add rows; may write parts.

        Raises:
            PartSchemaError, SchemaConflictError, UsageError: they do not fit the table.
            StoreError, ScratchFullError: a part could not be written.
        """
        conformed = self._conform(rows)
        if self.check is not None:
            self.check(conformed)
        if not conformed.num_rows:
            return  # else a table without rows would become a part without rows
        for partition, piece in self.buffer.add(conformed):
            self._write(partition, piece)

    def flush(self) -> None:
        """Write the parts that are still open."""
        for partition, piece in self.buffer.drain():
            self._write(partition, piece)

    def publish(self, t: int) -> str:
        """Make all parts visible at once; return the key of the log file.

        Args:
            t: time of the log file, unix milliseconds.

        Raises:
            AppendExpiredError, CommitUnknownError, StoreError: see ``publish_append``.
        """
        table, origin = self.table, self.origin
        key = table.paths.append_log(t, origin.writer)
        self.born = publish_append(
            table,
            key,
            self._content(t),
            origin.began_ms,
            self.new.attempt,
            begins=origin.begins,
        )
        return key

    def _content(self, t: int) -> LogContent:
        markers = [
            Marker(
                p=part.key,
                b=part.bytes,
                t=t,
                n=part.rows,
                q=self.origin.q,
                s=stats_json(part.stats),
            )
            for part in self.parts
        ]
        return LogContent(t=t, schema=self.columns, markers=markers, other=list(self.records))

    def _conform(self, rows: pa.Table) -> pa.Table:
        if self.look_again is not None and not set(rows.column_names) <= self.known.columns.keys():
            self.known, self.look_again = _with_old_names(self.look_again(), self.known), None
        conformed = conform_rows(rows, self.known)
        first = not self.columns
        self.columns |= conformed.columns
        if first:
            check_settings(self.table.settings, self.known.columns)
        return conformed.rows

    def _write(self, partition: str, rows: pa.Table) -> None:
        table, origin, policy = self.table, self.origin, self.table.settings.merge
        # Parts of one append have one time; among them only the names show which came later.
        self._named_ms = max(table.clock.now_ms(), self._named_ms + 1)
        name = table.ids.uuid7(self._named_ms)
        key = table.paths.data_part(partition, name)
        rows = newest_of_each_key(rows, table.settings.primary_key, table.settings.version)
        pairs = PartMetadata(
            table=table.paths.prefix,
            partition=partition,
            writer=origin.writer,
            append=origin.id,
            q=origin.q,
            # The log file's own time is not known yet; the order among appends is that of this time
            # unless they overlapped.
            o=(origin.time_ms, origin.time_ms),
            rows=rows.num_rows,
        )
        path = self.scratch / f"{name}.parquet"
        size = write_part(
            rows,
            path,
            sort_by=table.settings.sort_by,
            metadata={**self.metadata, **pairs.to_pairs()},
            compression_level=policy.compression_level,
            row_group_rows=policy.row_group_rows,
        )
        self.buffer.written(rows.nbytes, size)
        self.new.add(key)
        table.store.put_file(key, path)
        path.unlink()
        self.parts.append(
            WrittenPart(
                key=key,
                partition=partition,
                bytes=size,
                rows=rows.num_rows,
                stats=from_table(rows, table.settings.statistics_columns),
            )
        )


def _with_old_names(known: SchemaUnion, then: SchemaUnion) -> SchemaUnion:
    """Return the original columns, in types widened since, together with columns added since.

    An original name stands for the original column, even if another column has that name now.
    """
    names = {fold_name(name) for name in then.columns}
    new = {c: kind for c, kind in known.columns.items() if fold_name(c) not in names}
    both = SchemaUnion()
    both.add("the table when this append began", as_known(then.columns, known.columns))
    both.add("the table", new)
    return both


# ruff: noqa: TID253 - rows are handled here; no DAG file imports it at parse


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
