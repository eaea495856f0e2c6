"""Batch reads of the data source: planned from the log on the driver, executed in DuckDB."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa
from pyarrow import RecordBatch
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from firnline.errors import UsageError
from firnline.predicate.sql import parse_sql
from firnline.predicate.tree import And, Predicate
from firnline.read.batches import stream
from firnline.read.duckdb import Limits
from firnline.read.plan import ReadOptions, ReadPlan, plan_read
from firnline.read.scan import no_name
from firnline.read.task import ReadTask
from firnline.spark.format.options import (
    BYTES_PER_TASK,
    MEMORY,
    Opened,
    flag_option,
    list_option,
    scratch,
    size_option,
)
from firnline.spark.format.types import duckdb_type
from firnline.spark.versions import arrow_schema
from firnline.state.moment import snapshot_at
from firnline.types.sql import fold_name

if TYPE_CHECKING:
    from firnline.spark.versions import Filter


@dataclass
class Piece(InputPartition):
    """The read of one task."""

    task: bytes
    """A ReadTask as JSON."""


class Pieces:
    """A read in groups of parts; created on the driver, sent to the tasks.

    Args:
        table: the table.
        options: options of the reader.
        schema: the schema that Spark expects.
    """

    def __init__(self, table: Opened, options: Mapping[str, str], schema: StructType) -> None:
        self.table = table
        self.options = {name.lower(): value for name, value in options.items()}
        self._schema = schema
        self._memory = size_option(options, "memory", MEMORY)
        self._bytes = size_option(options, "bytespertask", BYTES_PER_TASK)

    def wanted(self, columns: Mapping[str, str], more: Predicate | None = None) -> ReadOptions:
        """Return the read options for a table with these columns (column -> SQL type)."""
        where = self.options.get("where")
        trees = [parse_sql(where, columns)] if where else []
        trees += [more] if more is not None else []
        return ReadOptions(
            columns=tuple(self._schema.names),
            where=And(tuple(trees)) if trees else None,
            dedup=flag_option(self.options, "dedup"),
            partitions=list_option(self.options, "partitions"),
        )

    def of(self, plan: ReadPlan) -> list[InputPartition]:
        """Group parts to about ``bytesPerTask``, and by whole partitions with one row per key."""
        tasks = (self._cast(task) for task in plan.tasks(self._bytes))
        return [Piece(msgspec.json.encode(task)) for task in tasks]

    def read(self, piece: Piece) -> Iterator[RecordBatch]:
        """Yield the rows of one group. Memory: ``memory`` bytes for DuckDB, and a batch."""
        table = self.table.table()
        name = f"firnline-read-{table.ids.uuid7(table.clock.now_ms())}"
        limits = Limits(memory=self._memory, threads=1, spill=scratch() / name)
        wanted = arrow_schema(self._schema)
        task = msgspec.json.decode(piece.task, type=ReadTask)
        for batch in stream(task, table.store, limits):
            # The only differences are names inside lists and maps.
            rows = pa.Table.from_batches([batch]).cast(wanted)
            yield from rows.combine_chunks().to_batches()

    def _cast(self, task: ReadTask) -> ReadTask:
        """Return the task with the types that Spark expects."""
        kinds = {fold_name(field.name): duckdb_type(field.dataType) for field in self._schema}
        as_asked = {fold_name(field.name): field.name for field in self._schema}
        return msgspec.structs.replace(
            task,
            columns=tuple((as_asked[fold_name(n)], kinds[fold_name(n)]) for n, _ in task.columns),
            cast=True,
        )


class Reader(DataSourceReader):
    """One batch read."""

    def __init__(self, table: Opened, options: Mapping[str, str], schema: StructType) -> None:
        self._pieces = Pieces(table, options, schema)
        self._pushed: Predicate | None = None

    def partitions(self) -> list[InputPartition]:
        """Return the input of the tasks."""
        pieces, table = self._pieces, self._pieces.table.table()
        snapshot = snapshot_at(table, pieces.options.get("at"))
        wanted = pieces.wanted(snapshot.schema, self._pushed)
        return pieces.of(plan_read(snapshot, table.settings, wanted))

    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:
        """Read one partition, in a task."""
        if isinstance(partition, Piece):  # else Spark's stand-in for no partition at all
            yield from self._pieces.read(partition)


class PushingReader(Reader):
    """A read to which Spark passes its filters, for a data frame that is used by one query.

    Spark 4.0 passes none, and applies all of them itself. Spark 4.3.0 keeps the plan of such a
    reader with its data frame: a later query of the same frame without filters gets the rows of the
    earlier one. Hence it is used only on request.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 -- Spark's
        """Take the filters that the table evaluates exactly as Spark does; leave the rest."""
        from firnline.spark.format.filters import pushed

        at = self._pieces.options.get("at")
        columns = snapshot_at(self._pieces.table.table(), at).schema
        self._pushed, left = pushed(filters, columns)
        return left


def narrowed(columns: Mapping[str, str], options: Mapping[str, str]) -> dict[str, str]:
    """Return the columns that the option ``columns`` selects, in the given order.

    Args:
        columns: of the table, column -> SQL type.
        options: options of the reader, by their names in lower case.

    Raises UsageError.
    """
    if "columns" not in options:
        return dict(columns)
    names = list_option(options, "columns")
    if not names:
        raise no_name("columns")
    spelled = {fold_name(name): name for name in columns}
    for name in names:
        if fold_name(name) not in spelled:
            raise UsageError(
                f"the table has no column {name!r}",
                next_step=f"choose among {', '.join(columns) or 'none'}",
            )
    return {spelled[fold_name(name)]: columns[spelled[fold_name(name)]] for name in names}
