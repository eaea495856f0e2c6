"""Reading a table: ``firnline.scan``.

A scan is planned from the log: parts that cannot hold a wanted row are skipped. In every form it
returns the visible rows: deletes that wait for a merge are applied, and a table with a primary key
has one row per key, as after a merge of everything.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from firnline import arguments
from firnline.arguments import typed
from firnline.errors import UsageError
from firnline.extras import require
from firnline.predicate.sql import parse_sql
from firnline.predicate.tree import Predicate
from firnline.predicate.words import in_words
from firnline.read.plan import ReadOptions, ReadPlan, plan_read
from firnline.settings.load import find_table
from firnline.shown import Shown
from firnline.state.moment import At, snapshot_at
from firnline.store.access import StoreAccess
from firnline.table import Table, open_table
from firnline.units import about_size, counted

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]
    import polars
    import pyarrow as pa
    from polars import DataFrame
    from pyarrow import dataset

    from firnline.read.duckdb import Connection, Limits, Relation

MEMORY = 2**30
"""Bytes of DuckDB's buffers in ``arrow_reader``, ``to_arrow`` and ``polars``; it spills beyond."""


@typed
def scan(
    table: Table | str,
    columns: Iterable[str] | None = None,
    where: str | Predicate | None = None,
    at: At | None = None,
    dedup: bool | None = None,
    partitions: str | Iterable[str] = (),
    *,
    settings: Path | str | None = None,
    access: StoreAccess | None = None,
) -> Scan:
    """Plan a read of a table. Requests: those of its log (``snapshot.read_snapshot``).

    Args:
        table: a name of the settings file, a root URL (``s3://bucket/prefix``,
            ``file:///folder``), or an open table.
        columns: names, in the order wanted; None for all.
        where: a condition in SQL: and, or, not, ``= != < <= > >=``, IN, BETWEEN, IS NULL between
            columns and literals. Parts whose statistics rule it out are not read.
        at: the past: an aware datetime, ISO 8601 text (in UTC without a zone), unix milliseconds,
            or the number of a transaction; None for now.
        dedup: one row per primary key; None: if the table has a primary key.
        partitions: globs over partition paths, such as ``day=2013-01-*``; empty for all.
        settings: the settings file; None: $FIRNLINE_TABLES, else include/tables.yaml.
        access: endpoint and credentials of an S3 store; None: the environment's.

    Raises:
        UsageError: no such table, column, partition or time; a ``where`` beyond that grammar.
        SnapshotExpiredError: parts of that time are deleted.
        SchemaConflictError, LogCorruptError, StoreError: the log is not readable.
    """
    target = opened(table, settings, access)
    snapshot = snapshot_at(target, at)
    tree = condition(where, snapshot.schema)
    options = ReadOptions(
        columns=None if columns is None else names_of(columns, "columns"),
        where=tree,
        dedup=dedup,
        partitions=globs_of(partitions),
    )
    return Scan(target, plan_read(snapshot, target.settings, options))


@dataclass(frozen=True, slots=True, repr=False)
class Scan(Shown):
    """The selected rows of one snapshot; lazy.

    The snapshot's parts exist for ``cleanup.grace`` at least; a scan held for longer ends with
    PartGoneError if a clean-up has run.
    """

    table: Table
    plan: ReadPlan

    @property
    def columns(self) -> dict[str, str]:
        """SQL type by column, in the order of the rows."""
        return dict(self.plan.task.columns)

    def duckdb(self, connection: Connection | None = None) -> Relation:
        """Return the rows as a relation, which DuckDB reads on demand, as often as it needs them.

        Only the columns and row groups that the query on top needs are fetched. The parts to open
        are chosen by ``where`` and ``partitions`` of the scan alone: a filter on the relation costs
        one small request for the footer of each of them. A failure of the store is a
        ``duckdb.Error`` whose text ends with firnline's. That of a part that DuckDB cannot read is
        its own, which may not name the part: ``arrow_reader`` and ``firnline verify --rows`` do.

        Args:
            connection: connection for joins with other data; None for a new one (times in UTC).
                Memory and threads are the connection's.
        """
        from firnline.read.duckdb import relation

        return relation(self.plan.task, self.table.store, connection)

    @typed
    def arrow_reader(
        self, memory: int = MEMORY, threads: int | None = None
    ) -> pa.RecordBatchReader:
        """Return the rows as a stream of Arrow batches, in no order, read on demand.

        Parts that hold the rows as they are are decoded by Arrow, all others by DuckDB: those with
        hidden rows or other column types, and every part if there is a ``where`` or a key.

        Memory: ``memory`` bytes for DuckDB or for batches decoded ahead, a batch (65,536 rows), and
        per thread its first batch (up to 131,072 rows of a row group of at most 16 MiB) and the
        column chunks of one row group. Beyond that, one row per key is chosen on disk.

        Raises, also while it is read:
            PartGoneError, PartUnreadableError, StoreError, ScratchFullError, KernelError.
        """
        from firnline.read.batches import stream

        return stream(self.plan.task, self.table.store, self.limits(memory, threads))

    @typed
    def to_arrow(self, memory: int = MEMORY, threads: int | None = None) -> pa.Table:
        """Return all rows in memory. Errors as ``arrow_reader``."""
        return self.arrow_reader(memory, threads).read_all()

    def arrow_dataset(self) -> dataset.Dataset:
        """Return the parts as a pyarrow dataset, for tools that take one.

        A dataset cannot hide rows of single files or choose among them, so a scan with deletes
        that wait for a merge, or with one row per key, is refused: a merge removes the former,
        ``arrow_reader`` supports both. Requests: one per part, for its footer.

        Raises:
            UsageError: this scan has rows to hide or to choose, or columns that Arrow does not
                find in the files by their exact name.
            PartGoneError, PartUnreadableError, StoreError: a part or the store failed.
        """
        from firnline.read.arrow import open_dataset

        return open_dataset(self.plan, self.table.store)

    @typed
    def polars(self, memory: int = MEMORY, threads: int | None = None) -> polars.LazyFrame:
        """Return the rows as a LazyFrame; it reads only the columns that its query needs.

        A filter on the frame is applied to the rows that were read: to skip parts, put it into
        ``where`` of the scan. Memory as ``arrow_reader``.

        Raises EnvironmentFaultError if Polars is not installed.
        """
        require("polars")
        from firnline.read.lazy import lazy_frame

        return lazy_frame(self.plan.task, self.table.store, self.limits(memory, threads))

    @typed
    def to_polars(self, memory: int = MEMORY, threads: int | None = None) -> DataFrame:
        """Return all rows as a DataFrame of Polars, with the types of ``polars()``.

        Requests and errors as ``to_arrow``. Memory: all rows once, and that of ``arrow_reader``
        while they are read.

        Raises EnvironmentFaultError if Polars is not installed.
        """
        require("polars")
        from firnline.read.lazy import frame_of

        return frame_of(self.to_arrow(memory, threads))

    @typed
    def to_pandas(self, memory: int = MEMORY, threads: int | None = None) -> pd.DataFrame:
        """Return all rows as a DataFrame of pandas, with the types that Arrow gives it.

        Integers with nulls become floats, and dates Python objects;
        ``to_arrow().to_pandas(types_mapper=pandas.ArrowDtype)`` keeps both. Requests and errors as
        ``to_arrow``. Memory: all rows once as Arrow and once as pandas, less what is converted
        already; texts become a Python object each where pandas has no text type of its own.

        Raises EnvironmentFaultError if pandas is not installed.
        """
        require("pandas")
        rows = self.to_arrow(memory, threads)
        return rows.to_pandas(split_blocks=True, self_destruct=True)

    @typed
    def head(self, n: int = 5, memory: int = MEMORY, threads: int | None = None) -> pa.Table:
        """Return up to ``n`` rows, which ones is undefined; fewer only if there are no more.

        Requests: those of as many parts as hold so many rows by the log; parts of which it does
        not tell (with a ``where``, rows that deletes hide, a key, a writer that states no rows)
        are read 1, 2, 4, … at a time until there are enough, with one row per key by whole
        partitions. Memory: the rows returned, and that of ``arrow_reader`` while they are read.

        Raises:
            UsageError: ``n`` is below 0.
            others: as ``arrow_reader``.
        """
        from firnline.read.few import head

        return head(self.plan.task, self.table.store, self.limits(memory, threads), n)

    @typed
    def count(self, memory: int = MEMORY, threads: int | None = None) -> int:
        """Return the number of rows.

        Requests: none for parts of which the log states the rows, unless there is a ``where`` or a
        key, or a delete may hide some of them; such an answer does not look whether the parts are
        there. Of the other parts the columns that decide are read, and only the footer where a
        writer has not stated the rows. Memory: that of ``arrow_reader``, however many rows.

        Raises as ``arrow_reader``.
        """
        from firnline.read.few import count

        return count(self.plan.task, self.table.store, self.limits(memory, threads))

    @typed
    def limits(self, memory: int = MEMORY, threads: int | None = None) -> Limits:
        """Return the resource limits of a read of this scan."""
        return limits_for(self.table, memory, threads)

    def _title(self) -> str:
        """Return whose rows it has."""
        return f"Scan of {self.table.settings.name}"

    def _facts(self) -> Mapping[str, str]:
        """Return what will be read; known from the plan, without a request."""
        parts, size = len(self.plan.task.parts), self.plan.task.bytes
        all_parts = parts + sum(self.plan.passed_over.values())
        facts = {
            "reads": f"{parts:,} of {counted(all_parts, 'part')}, {about_size(size)} of "
            f"{about_size(size + self.plan.bytes_passed_over)}",
            "where": "" if self.plan.where is None else in_words(self.plan.where),
            "transaction": f"{self.plan.seq:,}",
            "columns": ", ".join(f"{name} {sql}" for name, sql in self.columns.items()),
        }
        return {name: value for name, value in facts.items() if value}

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yield rows as dictionaries, to look at a few of them."""
        for batch in self.arrow_reader():
            yield from batch.to_pylist()


def names_of(given: Iterable[str], what: str) -> tuple[str, ...]:
    """Return the names of an argument. Raises UsageError for a text, which is one name, or none."""
    names = arguments.names(what, given)
    if not any(names):  # rows without a column have no form
        raise no_name(what)
    return names


def globs_of(given: str | Iterable[str]) -> tuple[str, ...]:
    """Return the globs of an argument, which may be one. Raises UsageError: not of texts."""
    return arguments.names("partitions", [given] if isinstance(given, str) else given)


def no_name(what: str) -> UsageError:
    """Return the error for an argument or option that names nothing. ``what``: its name."""
    return UsageError(f"{what} names no column", next_step=f"name one, or leave {what} out for all")


def condition(where: str | Predicate | None, schema: Mapping[str, str]) -> Predicate | None:
    """Return the condition of an argument. Raises UsageError: it does not parse, or is none."""
    if isinstance(where, str):
        return parse_sql(where, schema)
    if where is None or isinstance(where, Predicate):
        return where
    raise UsageError(
        f"where is of type {type(where).__name__}",
        next_step='write a condition in SQL, such as "delay > 60"',
    )


def limits_for(table: Table, memory: int = MEMORY, threads: int | None = None) -> Limits:
    """Return the resource limits of a read of a table; ``threads`` None: one per core."""
    from firnline.read.duckdb import Limits

    name = f"firnline-read-{table.ids.uuid7(table.clock.now_ms())}"
    return Limits(
        memory=memory,
        threads=threads or os.cpu_count() or 1,
        spill=Path(tempfile.gettempdir()) / name,
    )


def opened(table: Table | str, settings: Path | str | None, access: StoreAccess | None) -> Table:
    """Return the table that an argument names. Raises UsageError, SettingsError."""
    if isinstance(table, Table):
        return table
    found = find_table(table, settings)
    return open_table(found, StoreAccess.from_env() if access is None else access)
