"""Streaming reads of the data source: ``spark.readStream.format("firnline").load(root)``."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pyarrow import RecordBatch
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from firnline.errors import PartGoneError, StreamBehindError, UsageError
from firnline.read.offsets import BEGIN_AGAIN, Bounds, Offset
from firnline.read.stream import AppendStream
from firnline.spark.format.options import Opened, size_option
from firnline.spark.format.read import Piece, Pieces
from firnline.spark.versions import (
    SPARK_4_2_PLUS,
    VERSION,
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxFiles,
    SupportsTriggerAvailableNow,
)

_LOG = logging.getLogger(__name__)
MOST_PARTS = 10_000
"""Default maximum of parts of a batch: the driver plans them one by one."""
_LIMITS = {"maxpartsperbatch", "maxbytesperbatch"}
_NO = {"at": "startingAt says where a stream begins", "dedup": "a stream gives every row"}


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A streaming query's view of a table; Spark keeps its offsets."""

    def __init__(self, table: Opened, options: Mapping[str, str], schema: StructType) -> None:
        named = {name.lower(): value for name, value in options.items()}
        for name, why in _NO.items():
            if name in named:
                raise UsageError(
                    f"a streaming read has no option {name}: {why}", next_step="leave it out"
                )
        self._pieces = Pieces(table, options, schema)
        self._starting = named.get("startingat", "earliest")
        self._bounds = bounds_of(named)
        self._table = table
        self._opened: AppendStream | None = None  # not in the tasks, to which this object is sent

    @property
    def _stream(self) -> AppendStream:
        if self._opened is None:
            self._opened = AppendStream(self._table.table())
        return self._opened

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 -- Spark's
        """Return the offset at which a query without checkpoint begins."""
        at = None if self._starting == "earliest" else self._starting
        return self._stream.start(at).to_json()

    def latestOffset(  # noqa: N802 -- Spark's
        self, start: dict[str, Any] | None = None, limit: ReadLimit | None = None
    ) -> dict[str, Any]:
        """Return the end of the next batch; the newest one for a Spark that says neither."""
        if start is None or limit is None:
            return self._stream.start("now").to_json()
        bounds = within(limit, self._bounds)
        return self._stream.latest(Offset.from_json(start), bounds).to_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 -- Spark's
        """Return the limit of parts; the limit of bytes is checked in addition."""
        return ReadMaxFiles(self._bounds.parts or MOST_PARTS)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 -- Spark's
        """Limit this run to the current state; later appends are for the next run."""
        self._stream.hold()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return groups of parts of one batch."""
        wanted = (Offset.from_json(start), Offset.from_json(end))
        if wanted[0] == wanted[1]:
            return []
        return self._pieces.of(self._stream.batch(*wanted, self._pieces.wanted))

    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:
        """Yield the rows of one group, in a task."""
        if not isinstance(partition, Piece):
            return
        try:
            yield from self._pieces.read(partition)
        except PartGoneError as error:
            raise StreamBehindError(
                f"the stream is behind by more than cleanup.grace: {error.message}",
                next_step=BEGIN_AGAIN,
            ) from None


def bounds_of(named: Mapping[str, str]) -> Bounds:
    """Return the limits of a batch by the options (lower case -> value). Raises UsageError.

    Before Spark 4.2 they have no effect, which is a warning in the log of the driver's Python.
    """
    stated = _LIMITS & named.keys()
    if stated and not SPARK_4_2_PLUS:
        _LOG.warning(
            "batches of a stream have limits from Spark 4.2 on, and this is %s: each takes all "
            "that is there, whatever the option %s says",
            VERSION,
            " or ".join(sorted(stated)),
        )
    return Bounds(
        parts=_count(named.get("maxpartsperbatch")),
        bytes=size_option(named, "maxbytesperbatch", 0) or None,
    )


def within(limit: ReadLimit, bounds: Bounds) -> Bounds:
    """Return the limits of a batch that Spark asks for."""
    if isinstance(limit, ReadAllAvailable):
        return Bounds()
    if isinstance(limit, ReadMaxBytes):
        return Bounds(bytes=limit.max_bytes)
    parts = limit.max_files if isinstance(limit, ReadMaxFiles) else bounds.parts
    return Bounds(parts=parts, bytes=bounds.bytes)


def _count(text: str | None) -> int:
    if text is None:
        return MOST_PARTS
    if not text.isdecimal() or int(text) < 1:
        raise UsageError(
            f"option maxPartsPerBatch is {text!r}", next_step="write a number of parts, 1 or more"
        )
    return int(text)
