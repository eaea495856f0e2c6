"""One append: checks rows, writes parts, publishes them with one log file or deletes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from firnline.commit.append_log import publish_append
from firnline.commit.outputs import Outputs
from firnline.errors import UsageError, some
from firnline.log.keyed import void
from firnline.log.records import LogContent, marker_of
from firnline.parquet.part import PartMetadata, WrittenPart
from firnline.properties.record import Properties
from firnline.rows.conform import new_in
from firnline.rows.parts import Layout, PartWriter, Place
from firnline.settings.load import TableSettings
from firnline.table import Table
from firnline.types.schema import SchemaUnion, added, as_known
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
        look_again: returns the table's current columns, for rows with an unknown column or field:
            another writer may have added it since.
        may_add: False to refuse rows with columns or fields that the table does not have.
    """

    table: Table
    origin: Origin
    known: SchemaUnion
    partition: str
    scratch: Path
    metadata: Mapping[str, str]
    look_again: Callable[[], SchemaUnion] | None = None
    may_add: bool = True
    declared: Mapping[str, str] = field(default_factory=dict)
    """SQL type by column, of those that the table gets even if no row has them."""
    records: tuple[bytes, ...] = ()
    """Extension records of the log file, in addition to the markers."""
    born: bool = False
    """True if it has written the table's birth record."""
    new: Outputs = field(init=False)
    """All parts whose upload was started; rows must be added within this context manager."""
    writer: PartWriter = field(init=False)
    _before: dict[str, str] = field(init=False)
    """SQL type by column of the table, without what the rows bring."""

    def __post_init__(self) -> None:
        table, origin = self.table, self.origin
        self.new = Outputs(table)
        self._before = self.known.columns
        self.writer = PartWriter(
            layout_of(table.settings, self.partition),
            Place(table.store, table.paths, table.ids, table.clock, self.scratch),
            PartMetadata(
                table=table.paths.prefix,
                partition=self.partition,
                writer=origin.writer,
                append=origin.id,
                q=origin.q,
                # The log file's own time is not known yet; the order among appends is that of this
                # time unless they overlapped.
                o=(origin.time_ms, origin.time_ms),
            ),
            self.metadata,
            self.known,
            self.new.add,
        )

    @property
    def columns(self) -> dict[str, str]:
        """SQL type by column, of the rows so far."""
        return self.writer.columns

    @property
    def stated(self) -> dict[str, str]:
        """SQL type by column, of those that the log file states."""
        return {**self.declared, **self.columns}

    @property
    def new_columns(self) -> dict[str, str]:
        """SQL type by column, or by path of a field; what the rows add, none to an empty table."""
        return added(self._before, self.columns) if self._before else {}

    @property
    def untyped(self) -> dict[str, int]:
        """What was left out because it has no type; see ``types.untyped.Waiting.left_out``."""
        return self.writer.waiting.told(self.columns)

    @property
    def parts(self) -> list[WrittenPart]:
        """Parts that are uploaded."""
        return self.writer.parts

    @property
    def chunk_bytes(self) -> int:
        """Maximum bytes of rows to pass to one call of ``add``."""
        return self.writer.buffer.chunk_bytes

    def add(self, rows: pa.Table) -> None:
        """Check and add rows; may write parts.

        Raises as ``PartWriter.add``; UsageError for new columns that are not wanted.
        """
        before = self.writer.known
        if self.look_again is not None and new_in(rows.schema, before.columns):
            self.writer.known = _with_old_names(self.look_again(), before)
            # Rows before these had no unknown column, so that all of this is the table's own.
            self._before = self.writer.known.columns
            self.look_again = None
        if not self.may_add:
            self._refuse_new(rows.schema)
        self.writer.add(rows)

    def _refuse_new(self, schema: pa.Schema) -> None:
        new = list(new_in(schema, self._before))
        if new:
            raise UsageError(
                f"table {self.table.settings.name} has no column or field {some(new)}, and the "
                "rows do",
                next_step="correct the rows, or let the append add columns; nothing was written",
            )

    def flush(self) -> None:
        """Write the parts that are still open."""
        self.writer.flush()

    def publish(self, t: int) -> str:
        """Make all parts visible at once; return the key of the log file.

        Args:
            t: time of the log file, unix milliseconds.

        Raises:
            AppendExpiredError, CommitUnknownError, StoreError: see ``publish_append``.
        """
        table, origin = self.table, self.origin
        key = table.paths.append_log(t, origin.writer)
        markers = [marker_of(part, t=t, q=origin.q) for part in self.parts]
        # Without a marker and a record the log file would end in a newline, on which clients of
        # version 1 fail.
        other = [*self.records, *([] if markers else [void(origin.id)])]
        self.born = publish_append(
            table,
            key,
            LogContent(t=t, schema=self.stated, markers=markers, other=other),
            origin.began_ms,
            self.new.attempt,
            begins=origin.begins,
            stated=origin.properties is not None,
        )
        return key


def layout_of(settings: TableSettings, partition: str) -> Layout:
    """Return the form of the parts of a table. ``partition``: of all rows, as in ``Layout``."""
    return Layout(
        table=settings.name,
        partition_by=settings.partition_by,
        partition=partition,
        sort_by=settings.sort_by,
        primary_key=settings.primary_key,
        version=settings.version,
        stats_columns=settings.statistics_columns,
        part_bytes=settings.append.part_bytes,
        buffer_bytes=settings.append.buffer,
        compression_level=settings.merge.compression_level,
        row_group_rows=settings.merge.row_group_rows,
    )


def _with_old_names(newest: SchemaUnion, then: SchemaUnion) -> SchemaUnion:
    """Return the original columns, in types widened since, together with columns added since.

    An original name stands for the original column, even if another column has that name now.
    """
    names = {fold_name(name) for name in then.columns}
    new = {c: kind for c, kind in newest.columns.items() if fold_name(c) not in names}
    both = SchemaUnion()
    both.add("the table when this append began", as_known(then.columns, newest.columns))
    both.add("the table", new)
    return both
