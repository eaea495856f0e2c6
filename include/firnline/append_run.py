"""One append: checks rows, writes parts, publishes them with one log file or takes them back."""

# ruff: noqa: TID253 - rows are handled here; no DAG file imports it at parse

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from firnline import append_birth
from firnline.append_buffer import PartBuffer
from firnline.append_rows import check_settings, conform_rows, newest_of_each_key
from firnline.errors import (
    AppendExpiredError,
    CommitUnknownError,
    FirnlineError,
    StoreError,
    TransactionError,
)
from firnline.log import codec
from firnline.log.properties import Properties
from firnline.log.records import LogContent, Marker, stats_json
from firnline.parquet_io import write_part
from firnline.part import WrittenPart
from firnline.part_metadata import PartMetadata
from firnline.schema import SchemaUnion
from firnline.sql_types import fold_name
from firnline.stats import from_table
from firnline.store.create import create
from firnline.table import Table
from firnline.widening import as_known

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Origin:
    """Where an append began."""

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
    """Of the table at ``q``; None: it says nothing of itself."""
    begins: bool = False
    """There was nothing at all under ``_txn/``: the birth record is to be written."""


@dataclass(slots=True)
class AppendRun:
    """State of one append.

    Args:
        table: the table.
        origin: where it began.
        known: the table's columns; grows by those of the rows.
        partition: of all rows, when the table has no partition fields.
        scratch: folder for files on their way.
        metadata: more key-value pairs for the footers.
        look_again: gives the table's columns as they are now, for rows with a column that is not
            known: another writer may have named it since.
        check: called with rows in their columns' types before they are taken in; may refuse them.
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
    """Extension records of the log file, beside the markers."""
    columns: dict[str, str] = field(default_factory=dict)
    """Columns of the rows so far, column -> SQL type."""
    parts: list[WrittenPart] = field(default_factory=list)
    born: bool = False
    """It has written the table's birth record."""
    buffer: PartBuffer = field(init=False)
    _named_ms: int = 0
    """Time in the name of the last part."""
    _keys: list[str] = field(default_factory=list)
    """Every key an upload was begun under."""

    def __post_init__(self) -> None:
        settings = self.table.settings
        self.buffer = PartBuffer(
            settings.partition_by,
            self.partition,
            part_bytes=settings.append.part_bytes,
            buffer_bytes=settings.append.buffer,
        )

    def add(self, rows: pa.Table) -> None:
        """Check rows and take them in; may write parts.

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
        """Make all parts visible at once; returns the key of the log file.

        Args:
            t: time of the log file, unix milliseconds.

        Raises:
            AppendExpiredError: it took too long; nothing is visible.
            CommitUnknownError: nobody can say whether it is visible.
        """
        table, origin = self.table, self.origin
        key = table.paths.append_log(t, origin.writer)
        data = codec.encode(self._content(t))
        latest = self._latest_ms()
        self._refuse_when_late(latest)
        try:
            found = create(
                table.store, key, data, may_put=lambda: table.clock.elapsed_ms() <= latest
            )
        except StoreError as error:
            # Also when the last answer was a clear one: an earlier put may still take effect.
            raise CommitUnknownError(
                f"nobody can say whether the append was published ({error.message})",
                next_step=f"append again only if {key} does not appear; nothing was deleted",
            ) from error
        if found is not None:
            raise TransactionError(
                f"log file {key} exists and is somebody else's",
                next_step="look for a source of ids that repeats itself; nothing was published",
            )
        if origin.begins:
            self.born = append_birth.write(table, key, t)
        return key

    def _content(self, t: int) -> LogContent:
        begins, settings = self.origin.begins, self.table.settings
        return LogContent(
            t=t,
            schema=self.columns,
            markers=[
                Marker(
                    p=part.key,
                    b=part.bytes,
                    t=t,
                    n=part.rows,
                    q=self.origin.q,
                    s=stats_json(part.stats),
                )
                for part in self.parts
            ],
            properties=[append_birth.record(settings, t)] if begins else [],
            other=list(self.records),
        )

    def discard(self) -> None:
        """Delete the parts of an append that is surely not published.

        What cannot be deleted now is left to the orphan sweep.
        """
        try:
            for answer in self.table.store.delete_many(self._keys):
                if answer.error is not None:
                    _LOG.warning("part %s of a failed append stays: %s", answer.key, answer.error)
        except FirnlineError as error:
            _LOG.warning("%d parts of a failed append stay: %s", len(self._keys), error)

    def _latest_ms(self) -> int:
        """Until when the log file may be put, by ``Clock.elapsed_ms``.

        An append that begins the table looks for rivals first, which may have given it an
        ``append.ttl`` of their own, and puts right after that.

        Raises PropertiesDifferError.
        """
        table, began = self.table, self.origin.began_ms
        ttl = table.settings.append.ttl
        if not self.origin.begins:
            return began + ttl
        looked = table.clock.elapsed_ms()
        found = append_birth.look_again(table)
        ttl = min(ttl, append_birth.LONGEST_MS, ttl if found is None else found.append_ttl)
        return min(began + ttl, looked + append_birth.FRESH_MS)

    def _refuse_when_late(self, latest_ms: int) -> None:
        now, began = self.table.clock.elapsed_ms(), self.origin.began_ms
        if now > latest_ms:
            # A delete record may be gone by now that has to hide some of these rows.
            raise AppendExpiredError(
                f"the append took {(now - began) // 1000} s, longer than append.ttl "
                f"({(latest_ms - began) // 1000} s)",
                next_step="append fewer rows at once, or raise append.ttl; nothing was published",
            )

    def _conform(self, rows: pa.Table) -> pa.Table:
        if self.look_again is not None and not set(rows.column_names) <= self.known.columns.keys():
            self.known, self.look_again = _with_names_of_then(self.look_again(), self.known), None
        conformed = conform_rows(rows, self.known)
        first = not self.columns
        self.columns |= conformed.columns
        if first:
            check_settings(self.table.settings, self.known.columns)
        return conformed.rows

    def _write(self, partition: str, rows: pa.Table) -> None:
        table, origin, policy = self.table, self.origin, self.table.settings.merge
        # Parts of one append are at one time, and then their names tell which came later.
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
            # The log file's own time is not known yet; its order among appends is this one's
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
        self._keys.append(key)
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


def _with_names_of_then(known: SchemaUnion, then: SchemaUnion) -> SchemaUnion:
    """Columns of when the append began, in types that are wider by now, and new ones of now.

    A name of then stands for the column of then, also where another one has got that name since.
    """
    names = {fold_name(name) for name in then.columns}
    new = {c: kind for c, kind in known.columns.items() if fold_name(c) not in names}
    both = SchemaUnion()
    both.add("the table when this append began", as_known(then.columns, known.columns))
    both.add("the table", new)
    return both
