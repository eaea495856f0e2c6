"""The feed of changes as a data source: option ``changes`` of batch and streaming reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa
from pyarrow import RecordBatch
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from firnline.errors import UsageError
from firnline.read import position as positions
from firnline.read.changes import Request, ends_of, offset_of
from firnline.read.difference import ADDED, run_changes
from firnline.read.duckdb import Limits
from firnline.read.feed import ChangeFeed
from firnline.read.offsets import Offset
from firnline.read.plan import split_task
from firnline.read.task import ChangeTask, ReadTask
from firnline.spark.format.options import (
    BYTES_PER_TASK,
    MEMORY,
    Opened,
    flag_option,
    list_option,
    scratch,
    size_option,
)
from firnline.spark.format.read import narrowed
from firnline.spark.format.stream import MOST_PARTS, bounds_of, within
from firnline.spark.format.types import duckdb_type, spark_schema
from firnline.spark.versions import (
    ReadLimit,
    ReadMaxFiles,
    SupportsTriggerAvailableNow,
    arrow_schema,
)
from firnline.types.sql import fold_name

_NO = {
    "at": "since and until say which changes are read",
    "dedup": "with a primary key the changes are those of one row per key",
}


def wanted(options: Mapping[str, str]) -> bool:
    """Return True if the option ``changes`` is set. Raises UsageError."""
    named = {name.lower(): value for name, value in options.items()}
    found = flag_option(named, "changes") or False
    for name in ("since", "until"):
        if name in named and not found:
            raise UsageError(
                f"option {name} is for a read of changes", next_step="set changes to true"
            )
    for name, why in _NO.items():
        if found and name in named:
            raise UsageError(
                f"a read of changes has no option {name}: {why}", next_step="leave it out"
            )
    return found


def change_schema(columns: Mapping[str, str], options: Mapping[str, str]) -> StructType:
    """Return the selected columns of the table and those that the feed adds."""
    named = {name.lower(): value for name, value in options.items()}
    Request(None, None, ()).shown(columns)  # refuses columns that the feed adds
    return spark_schema({**narrowed(columns, named), **ADDED})


@dataclass
class ChangePiece(InputPartition):
    """The changes of one task."""

    task: bytes
    """A ChangeTask as JSON."""


class ChangePieces:
    """A read of changes in pieces; created on the driver, sent to the tasks.

    Args:
        table: the table.
        options: options of the reader.
        schema: the schema that Spark expects.
    """

    def __init__(self, table: Opened, options: Mapping[str, str], schema: StructType) -> None:
        self.table = table
        self.options = {name.lower(): value for name, value in options.items()}
        self._schema = schema
        self._memory = size_option(self.options, "memory", MEMORY)
        self._bytes = size_option(self.options, "bytespertask", BYTES_PER_TASK)

    def of(self, feed: ChangeFeed, start: Offset | None, end: Offset) -> list[InputPartition]:
        """Plan the changes between two positions. What is compared is one piece, however large."""
        globs = list_option(self.options, "partitions")
        request = Request(None, self.options.get("where"), globs)
        _, columns = feed.settings_and_columns()
        tasks = feed.changes(start, end, request.options)
        return [
            ChangePiece(msgspec.json.encode(piece))
            for task in tasks
            for piece in self._split(self._cast(task, columns))
        ]

    def read(self, piece: ChangePiece) -> Iterator[RecordBatch]:
        """Yield the changed rows. Memory: ``memory`` bytes for DuckDB, and a batch."""
        table = self.table.table()
        name = f"firnline-read-{table.ids.uuid7(table.clock.now_ms())}"
        limits = Limits(memory=self._memory, threads=1, spill=scratch() / name)
        expected = arrow_schema(self._schema)
        task = msgspec.json.decode(piece.task, type=ChangeTask)
        names = self._schema.names
        columns = [name for name in names if fold_name(name) not in ADDED]
        for batch in run_changes([task], table.store, limits, columns):
            rows = pa.Table.from_batches([batch]).select(names).cast(expected)
            yield from rows.combine_chunks().to_batches()

    def _split(self, task: ChangeTask) -> Iterator[ChangeTask]:
        """Yield pieces of rows that are all inserted or all deleted; else the task itself."""
        if task.before and task.after:
            yield task
            return
        for side in ("before", "after"):
            for read in getattr(task, side):
                for piece in split_task(read, self._bytes):
                    yield msgspec.structs.replace(task, **{side: (piece,)})

    def _cast(self, task: ChangeTask, columns: Mapping[str, str]) -> ChangeTask:
        """Return the task with the types and spelling that Spark expects."""
        fields = [*spark_schema(columns), *self._schema]
        asked = {fold_name(field.name): field for field in fields}

        def cast(read: ReadTask) -> ReadTask:
            found = [asked[fold_name(name)] for name, _ in read.columns]
            pairs = tuple((field.name, duckdb_type(field.dataType)) for field in found)
            return msgspec.structs.replace(read, columns=pairs, cast=True)

        return msgspec.structs.replace(
            task, before=tuple(map(cast, task.before)), after=tuple(map(cast, task.after))
        )


class ChangesReader(DataSourceReader):
    """One batch read of changes, between ``since`` and ``until``."""

    def __init__(self, table: Opened, options: Mapping[str, str], schema: StructType) -> None:
        self._pieces = ChangePieces(table, options, schema)

    def partitions(self) -> list[InputPartition]:
        """Return the input of the tasks."""
        options = self._pieces.options
        feed = ChangeFeed(self._pieces.table.table())
        feed.hold()
        start, end = ends_of(feed, options.get("since"), options.get("until"))
        return self._pieces.of(feed, start, end)

    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:
        """Read one partition, in a task."""
        if isinstance(partition, ChangePiece):  # else Spark's stand-in for no partition at all
            yield from self._pieces.read(partition)


class ChangesStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A streaming query's view of the changes of a table; Spark keeps its offsets."""

    def __init__(self, table: Opened, options: Mapping[str, str], schema: StructType) -> None:
        named = {name.lower(): value for name, value in options.items()}
        for name in ("since", "until"):
            if name in named:
                raise UsageError(
                    f"a streaming read has no option {name}: startingAt says where it begins",
                    next_step="leave it out",
                )
        self._pieces = ChangePieces(table, options, schema)
        self._starting = named.get("startingat", "earliest")
        self._bounds = bounds_of(named)
        self._table = table
        self._opened: ChangeFeed | None = None  # not in the tasks, to which this object is sent

    @property
    def _feed(self) -> ChangeFeed:
        if self._opened is None:
            self._opened = ChangeFeed(self._table.table())
        return self._opened

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 -- Spark's
        """Return the offset at which a query without checkpoint begins."""
        if self._starting == "earliest":
            return positions.to_json(None)
        return positions.to_json(offset_of(self._feed, self._starting))

    def latestOffset(  # noqa: N802 -- Spark's
        self, start: dict[str, Any] | None = None, limit: ReadLimit | None = None
    ) -> dict[str, Any]:
        """Return the end of the next batch; the newest one for a Spark that says neither."""
        if start is None or limit is None:
            return positions.to_json(self._feed.newest(None))
        begun = positions.from_json(start)
        return positions.to_json(self._feed.newest(begun, within(limit, self._bounds)))

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 -- Spark's
        """Return the limit of parts; the limit of bytes is checked in addition."""
        return ReadMaxFiles(self._bounds.parts or MOST_PARTS)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 -- Spark's
        """Limit this run to the current state; later changes are for the next run."""
        self._feed.hold()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the changes of one batch."""
        begun, reached = positions.from_json(start), positions.from_json(end)
        if reached is None or begun == reached:
            return []
        return self._pieces.of(self._feed, begun, reached)

    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:
        """Yield the changed rows of one piece, in a task."""
        if isinstance(partition, ChangePiece):
            yield from self._pieces.read(partition)
