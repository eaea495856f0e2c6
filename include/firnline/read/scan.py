"""Reading a table: ``firnline.scan``.

A scan is planned from the log: parts that cannot hold a wanted row are not looked at. What it
gives, in whatever form, are the visible rows: deletes that wait for a merge are applied, and of a
table with a primary key there is one row per key, as after a merge of everything.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from firnline.errors import EnvironmentFaultError, UsageError
from firnline.predicate.sql import parse_sql
from firnline.predicate.tree import Predicate
from firnline.read.plan import ReadOptions, ReadPlan, plan_read
from firnline.settings.load import find_table
from firnline.state.moment import At, snapshot_at
from firnline.store.access import StoreAccess
from firnline.table import Table, open_table

if TYPE_CHECKING:
    import polars
    import pyarrow as pa
    from pyarrow import dataset

    from firnline.read.duckdb import Connection, Limits, Relation

MEMORY = 2**30
"""Bytes of DuckDB's buffers in ``arrow_reader``, ``to_arrow`` and ``polars``; it spills beyond."""


def scan(
    table: Table | str,
    columns: Iterable[str] | None = None,
    where: str | Predicate | None = None,
    at: At | None = None,
    dedup: bool | None = None,
    partitions: str | Iterable[str] = (),
    *,
    settings: Path | None = None,
    access: StoreAccess | None = None,
) -> Scan:
    """Plan a read of a table. Requests: those of its log (``snapshot.read_snapshot``).

    Args:
        table: a name of the settings file, a root URL (``s3://bucket/prefix``,
            ``file:///folder``), or an open table.
        columns: names, in the order wanted; None for all.
        where: a condition in SQL: and, or, not, ``= != < <= > >=``, IN, BETWEEN, IS NULL between
            columns and literals. Parts whose statistics rule it out are not read.
        at: the past: an aware datetime, ISO 8601 text with its zone, unix milliseconds, or the
            number of a transaction; None for now.
        dedup: one row per primary key; None: where the table has a primary key.
        partitions: globs over partition paths, such as ``day=2013-01-*``; empty for all.
        settings: the settings file; None: $FIRNLINE_TABLES, else include/tables.yaml.
        access: endpoint and credentials of an S3 store; None: the environment's.

    Raises:
        UsageError: no such table, column, partition or time; a ``where`` that is more than that.
        SnapshotExpiredError: parts of that time are deleted.
        SchemaConflictError, LogCorruptError, StoreError: the log does not read.
    """
    opened = table if isinstance(table, Table) else _opened(table, settings, access)
    snapshot = snapshot_at(opened, at)
    tree = parse_sql(where, snapshot.schema) if isinstance(where, str) else where
    options = ReadOptions(
        columns=None if columns is None else _names(columns, "columns"),
        where=tree,
        dedup=dedup,
        partitions=(partitions,) if isinstance(partitions, str) else tuple(partitions),
    )
    return Scan(opened, plan_read(snapshot, opened.settings, options))


@dataclass(frozen=True, slots=True)
class Scan:
    """The rows of one snapshot that were asked for; reads nothing until it is asked for them.

    The snapshot's parts are there for ``cleanup.grace`` at least; a scan held for longer ends with
    PartGoneError where a clean-up has passed.
    """

    table: Table
    plan: ReadPlan

    @property
    def columns(self) -> dict[str, str]:
        """Column -> SQL type, in the order of the rows."""
        return dict(self.plan.task.columns)

    def duckdb(self, connection: Connection | None = None) -> Relation:
        """The rows as a relation, which DuckDB reads as it needs them, as often as it needs them.

        Only the columns and row groups that the query on top needs are fetched. Which parts are
        looked at is decided by ``where`` and ``partitions`` of the scan alone: a filter on the
        relation costs one small request for the footer of each of them. A failure of a part or
        the store is a ``duckdb.Error`` whose text ends with ours.

        Args:
            connection: to join the rows with others; None for one of its own (times in UTC).
                Memory and threads are the connection's.
        """
        from firnline.read.duckdb import relation

        return relation(self.plan.task, self.table.store, connection)

    def arrow_reader(
        self, memory: int = MEMORY, threads: int | None = None
    ) -> pa.RecordBatchReader:
        """The rows as a stream of Arrow batches, in no order, read while it is consumed.

        Memory: ``memory`` bytes for DuckDB, a batch (65,536 rows), and per thread the column
        chunks of one row group. One row per key is chosen on disk beyond that.

        Raises, also while it is read:
            PartGoneError, PartUnreadableError, StoreError, ScratchFullError, KernelError.
        """
        from firnline.read.duckdb import stream

        return stream(self.plan.task, self.table.store, self.limits(memory, threads))

    def to_arrow(self, memory: int = MEMORY, threads: int | None = None) -> pa.Table:
        """All rows in memory. Errors as ``arrow_reader``."""
        return self.arrow_reader(memory, threads).read_all()

    def arrow_dataset(self) -> dataset.Dataset:
        """The parts as a pyarrow dataset, for tools that take one.

        A dataset cannot hide rows of single files or choose among them, so a scan with deletes
        that wait for a merge, or with one row per key, is refused: a merge takes the first away,
        ``arrow_reader`` gives the rows of either. Requests: one per part, for its footer.

        Raises:
            UsageError: this scan has rows to hide or to choose, or columns that Arrow does not
                find in the files by their exact name.
            PartGoneError, PartUnreadableError, StoreError: as they say.
        """
        from firnline.read.arrow import open_dataset

        return open_dataset(self.plan, self.table.store)

    def polars(self, memory: int = MEMORY, threads: int | None = None) -> polars.LazyFrame:
        """The rows as a LazyFrame; it reads only the columns that its query needs.

        A filter on the frame is applied to the rows that were read: say it in ``where`` of the
        scan, where parts are to be passed over. Memory as ``arrow_reader``.

        Raises EnvironmentFaultError where Polars is not installed.
        """
        try:
            from firnline.read.polars import lazy_frame
        except ImportError:
            raise EnvironmentFaultError(
                "Polars is not installed", next_step="install it: pip install polars"
            ) from None
        return lazy_frame(self.plan.task, self.table.store, self.limits(memory, threads))

    def limits(self, memory: int = MEMORY, threads: int | None = None) -> Limits:
        """What a read of this scan may use."""
        from firnline.read.duckdb import Limits

        name = f"firnline-read-{self.table.ids.uuid7(self.table.clock.now_ms())}"
        return Limits(
            memory=memory,
            threads=threads or os.cpu_count() or 1,
            spill=Path(tempfile.gettempdir()) / name,
        )

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Rows as dictionaries, for a look at few of them."""
        for batch in self.arrow_reader():
            yield from batch.to_pylist()


def _names(given: Iterable[str], what: str) -> tuple[str, ...]:
    if isinstance(given, str):
        raise UsageError(f"{what} is one text, {given!r}", next_step="give a list of names")
    return tuple(given)


def _opened(target: str, settings: Path | None, access: StoreAccess | None) -> Table:
    return open_table(find_table(target, settings), access or StoreAccess.from_env())
