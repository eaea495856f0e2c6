"""Writes of the data source: tasks write parts, the driver publishes them all at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from pathlib import Path

import msgspec
import pyarrow as pa
from pyarrow import RecordBatch
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from firnline.appends.append import Appender, check_partition, scratch_folder
from firnline.appends.columns import KnownColumns
from firnline.appends.run import AppendRun, Origin
from firnline.commit.base import take_base
from firnline.commit.outputs import Outputs
from firnline.errors import CommitExpiredError, UsageError
from firnline.kernel.local import LocalEngine
from firnline.log.txn_file import RunIdentity
from firnline.operations.mirror.after import (
    publish_after,
    publish_committed,
    refuse_unmirrored,
    warn,
)
from firnline.operations.mirror.ended import however_it_ends
from firnline.operations.operation import Work
from firnline.operations.options import ReplaceOptions
from firnline.operations.replace.plan import span_of
from firnline.operations.replace.rows import NewParts, NewRows
from firnline.operations.replace.run import run_replace
from firnline.parquet.part import WrittenPart
from firnline.properties.record import Properties
from firnline.rows.source import CAST, gather, tables_of
from firnline.spark.format.options import Opened, flag_option, object_option, scratch
from firnline.table import Table
from firnline.types.schema import SchemaUnion

WRITER = "spark"
"""Who writes, where no option says so."""


@dataclass(frozen=True)
class Begun:
    """The common base of all parts of one write."""

    id: str
    """UUIDv7."""
    q: int
    """Newest transaction of the table when the write began."""
    at_ms: int
    """Wall clock when the write began, possibly on another machine than its end; unix ms."""
    properties: Properties | None = None
    """The table's properties as of ``q``."""
    begins: bool = False
    """As ``Origin.begins``."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """SQL type by column, of the table right after ``q``: the columns that the rows' names mean."""
    writer: str = WRITER
    """Who writes."""

    def origin(self, table: Table) -> Origin:
        """Return the origin of an append, by this machine's clocks."""
        age = max(0, table.clock.now_ms() - self.at_ms)
        began = table.clock.elapsed_ms() - age
        return Origin(
            self.id,
            f"{self.writer}-{self.id}",
            self.q,
            began,
            self.at_ms,
            self.properties,
            self.begins,
        )


def begin(table: Table, writer: str | None = None) -> Begun:
    """Read sequence and columns of one state; requests and errors of ``Appender.knowing``.

    Args:
        table: the table.
        writer: who writes, by the option of this name; None: ``WRITER``.

    Raises UsageError for a name that a key cannot hold.
    """
    name = WRITER if writer is None else writer
    origin, known = Appender(table, writer=name).knowing()
    return Begun(
        origin.id,
        origin.q,
        origin.time_ms,
        origin.properties,
        origin.begins,
        known.columns,
        name,
    )


@dataclass
class Written(WriterCommitMessage):
    """The parts that one task wrote."""

    parts: bytes
    """A list of WrittenPart as JSON."""
    columns: dict[str, str]
    """SQL type by column."""
    begun: Begun
    """Without the table's columns, to keep the message of each task small."""

    def decoded(self) -> list[WrittenPart]:
        return msgspec.json.decode(self.parts, type=list[WrittenPart])


@dataclass(frozen=True)
class PartWriter:
    """Writes the parts of one task: uploaded, but not visible."""

    table: Opened
    partition: str | None
    """Path of all rows, for a table without ``partition_by``."""
    replaces: ReplaceOptions | None = None
    delete: str = ""
    """With ``replaces``: id of the record that hides the old rows but not these."""

    def write(self, batches: Iterator[RecordBatch], begun: Begun) -> Written:
        """Check and upload the rows of one task; after an error no part stays.

        Memory: ``append.buffer`` for rows, and twice the part that is being sorted.
        """
        table = self.table.table().under(begun.properties)
        with scratch_folder(scratch()) as folder:
            if self.replaces is None:
                new = self._append(table, tables_of(batches), begun, folder)
            else:
                new = self._replace(table, tables_of(batches), self.replaces, folder)
        base = replace(begun, columns={})
        return Written(msgspec.json.encode(new.parts), dict(new.columns), base)

    def _append(
        self, table: Table, tables: Iterator[pa.Table], begun: Begun, folder: Path
    ) -> NewRows:
        known = SchemaUnion()
        # Not read again: a later change may have given this name to another column.
        known.add("the table when this write began", begun.columns)
        where = check_partition(table, self.partition)
        run = AppendRun(table, begun.origin(table), known, where, folder, {})
        with run.new:
            for rows in gather(tables, run.chunk_bytes):
                run.add(rows)
            run.flush()
        return NewRows(tuple(run.parts), dict(run.columns))

    def _replace(
        self, table: Table, tables: Iterator[pa.Table], options: ReplaceOptions, folder: Path
    ) -> NewRows:
        first = next((rows for rows in tables if rows.num_rows), None)
        if first is None:
            return NewRows()  # a task without rows is not an error
        base = take_base(table)
        table = base.table
        parts = NewParts(
            table, base, span_of(options, table.settings), self.delete, folder, self.partition
        )
        return parts.write(chain([first], tables))


class Writer(DataSourceArrowWriter):
    """One batch write: an append, or the replacement of an interval; all of it or nothing."""

    def __init__(
        self, table: Opened, options: Mapping[str, str], *, replaces: ReplaceOptions | None
    ) -> None:
        here = table.table()
        self._table = table
        self._replaces = replaces
        self._mirror = mirror_option(table, options)
        self._begun = begin(here, options.get("writer"))
        partition = options.get("partition")
        delete = here.ids.uuid7(here.clock.now_ms())
        self._parts = PartWriter(table, partition, replaces, delete)

    def write(self, iterator: Iterator[RecordBatch]) -> Written:
        """Write the parts of a task."""
        return self._parts.write(iterator, self._begun)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Publish the parts of all tasks: one log file, or one transaction; on the driver.

        A replace then publishes the mirrors of the table, and so does an append that is asked to;
        what was written stands, whatever comes of that.

        Raises AppendExpiredError, CommitUnknownError and others as an append or a replace.
        """
        table = self._table.table()
        if self._replaces is None:
            appended = publish(table, [m for m in messages if isinstance(m, Written)])
            if appended and self._mirror:
                warn(publish_after(table, self._run))
            return
        table = table.under(self._begun.properties)
        age = table.clock.now_ms() - self._begun.at_ms
        new = replace(gathered(messages), delete=self._parts.delete, since=self._begun.q)
        if age > table.settings.commit_ttl:
            Outputs(table, new.keys).delete()
            raise CommitExpiredError(
                f"the new rows were written over {age // 1000} s, longer than commit_ttl",
                next_step="replace a smaller interval; nothing was changed",
            )
        options = msgspec.structs.replace(self._replaces, nothing=not new.parts)
        scratch_path = scratch() / "firnline"
        engine = LocalEngine(
            lambda: self._table.table().store, scratch_path, table.ids, table.clock
        )
        with however_it_ends(partial(self._publish, table)):
            run_replace(
                Work(table, self._run, lambda: engine), options, data=new if new.parts else None
            )

    def _publish(self, table: Table) -> None:
        published = publish_committed(table, self._run)
        if published is not None:
            warn(published)

    @property
    def _run(self) -> RunIdentity:
        return RunIdentity(run_id=f"spark-{self._begun.id}")

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Clean up on the driver, after a task or the commit failed."""
        withdraw(self._table, messages)


def mirror_option(table: Opened, options: Mapping[str, str]) -> bool:
    """Return True if an append is to publish the mirrors of the table, as ``append_rows`` does.

    The append stands, whatever comes of that: a failure is a warning in the log of the driver.

    Raises UsageError: it is asked to, and the settings name none.
    """
    asked = flag_option(options, "mirror") or False
    if asked:
        refuse_unmirrored(table.settings, "the option mirror")
    return asked


def gathered(messages: Sequence[WriterCommitMessage | None]) -> NewRows:
    """Return the parts of all tasks. Raises SchemaConflictError if two disagree on a column."""
    union, parts = SchemaUnion(), []
    for message in messages:
        if isinstance(message, Written):
            union.add("the rows of another task", message.columns, next_step=CAST)
            parts += message.decoded()
    return NewRows(tuple(parts), union.columns)


def publish(
    table: Table, messages: Sequence[Written], records: tuple[bytes, ...] = ()
) -> str | None:
    """Make the parts of all tasks visible with one log file; return its key, None without rows.

    Requests: those of ``KnownColumns.refuse``, 1 PUT. A change of columns that is committed between
    the two is not detected, as in an append.

    Raises SchemaConflictError if the table's columns were changed so that these contradict them,
    and as ``AppendRun.publish``. After any error but CommitUnknownError nothing is visible and no
    part stays.
    """
    parts = tuple(part for message in messages for part in message.decoded())
    if not parts and not records:
        return None
    # The oldest base of the tasks: a delete that one of them did not know applies to all.
    begun = min((m.begun for m in messages), key=lambda b: b.q, default=None) or begin(table)
    oldest = min((m.begun.at_ms for m in messages), default=begun.at_ms)
    newest = max((m.begun.q for m in messages), default=begun.q)
    table = table.under(begun.properties)
    origin = replace(begun, at_ms=oldest).origin(table)
    run = AppendRun(table, origin, SchemaUnion(), "", scratch(), {})
    run.new.add(*(part.key for part in parts))
    with run.new:
        lines = {tuple(m.columns.items()): m.columns for m in messages}
        KnownColumns(table).refuse(lines.values(), begun.q, newest)
        columns = dict(gathered(messages).columns)
        run.writer.columns, run.writer.parts, run.records = columns, list(parts), records
        return run.publish(table.clock.now_ms())


def withdraw(table: Opened, messages: Sequence[WriterCommitMessage | None]) -> None:
    """Delete the parts of a write of which a task failed: they were never published.

    If all tasks succeeded, the commit failed. Spark does not pass on the error: the commit itself
    has deleted what is certainly not visible, and kept what may be.
    """
    written = [message for message in messages if isinstance(message, Written)]
    if len(written) == len(messages):
        return
    Outputs(table.table(), (part.key for m in written for part in m.decoded())).delete()


def interval_of(options: Mapping[str, str]) -> ReplaceOptions:
    """Return the interval that an overwrite replaces. Raises UsageError if it is missing."""
    column, start, end = (options.get(f"replace{name}") for name in ("column", "start", "end"))
    if column is None or start is None or end is None:
        raise UsageError(
            "an overwrite replaces an interval, and none is given",
            next_step="add the options replaceColumn, replaceStart and replaceEnd (and "
            "replaceEqual), or append; `firnline drop` drops partitions",
        )
    mode = options.get("mode")
    if mode not in (None, "eager", "lazy"):
        raise UsageError(f"option mode is {mode!r}", next_step="write eager or lazy")
    return ReplaceOptions(
        column=column,
        start=start,
        end=end,
        equal=object_option(options, "replaceequal"),
        mode=mode,  # type: ignore[arg-type]  # checked above
        partition=options.get("partition"),
    )
