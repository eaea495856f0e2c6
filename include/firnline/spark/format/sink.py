"""The streaming sink: every batch of a query is in the table once, however often it is retried.

A batch is one append whose log file also holds the record ``log.sinks`` of the query and the
batch. Before a batch is published the log is read: if its record is there, the batch was published
before (the driver died before Spark recorded it), and the parts of its repetition are deleted.

Not covered: two drivers that run one query on one checkpoint at the same time, which Spark itself
forbids, and a log that was rebuilt from the parts, which has no such record.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

from pyarrow import RecordBatch
from pyspark.sql.datasource import WriterCommitMessage

from firnline.commit.outputs import Outputs
from firnline.errors import ObjectNotFoundError, UsageError
from firnline.log.sinks import newest_batches, sink_record
from firnline.log.txn_file import RunIdentity
from firnline.operations.mirror.after import publish_after, warn
from firnline.spark.format.options import Opened
from firnline.spark.format.write import (
    PartWriter,
    Written,
    begin,
    mirror_option,
    publish,
    withdraw,
)
from firnline.spark.versions import DataSourceStreamArrowWriter
from firnline.state.snapshot import read_snapshot
from firnline.store.access import StoreAccess
from firnline.store.client import open_store
from firnline.table import Table


class StreamWriter(DataSourceStreamArrowWriter):
    """Spark creates one for the tasks of a batch and another one for its end."""

    def __init__(self, table: Opened, options: Mapping[str, str]) -> None:
        self._table = table
        self._options = {name.lower(): value for name, value in options.items()}
        self._parts = PartWriter(table, self._options.get("partition"))
        self._mirror = mirror_option(table, self._options)

    def write(self, iterator: Iterator[RecordBatch]) -> Written:
        """Write the parts of a task. It reads its own base: a writer may outlive its batch."""
        begun = begin(self._table.table(), self._options.get("writer"))
        return self._parts.write(iterator, begun)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 -- Spark's
        """Publish a batch, unless it was before, and the mirrors if that is asked for.

        Requests: a read of the log and one PUT; those of ``run_mirror`` besides.
        """
        table = self._table.table()
        query = query_of(self._options, self._table)
        self._publish(table, query, messages, batchId)
        if self._mirror:  # a repetition too: the driver may have died before it did
            warn(publish_after(table, RunIdentity(run_id=f"spark-{query}-{batchId}")))

    def _publish(
        self,
        table: Table,
        query: str,
        messages: Sequence[WriterCommitMessage | None],
        number: int,
    ) -> None:
        written = [message for message in messages if isinstance(message, Written)]
        done = newest_batches(read_snapshot(table.store, table.paths).other).get(query, -1)
        if number <= done:
            keys = (part.key for message in written for part in message.decoded())
            Outputs(table, keys).delete()
            return
        if any(message.decoded() for message in written):
            publish(table, written, (sink_record(query, number),))

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803, ARG002 -- Spark's
        """Clean up after a task or the commit failed."""
        withdraw(self._table, messages)


def query_of(options: Mapping[str, str], table: Opened) -> str:
    """Return the query's id, which its checkpoint keeps over restarts.

    Raises:
        UsageError: no checkpoint is named, or this process cannot read its id.
    """
    given = options.get("queryid")
    if given:
        return given
    place = options.get("checkpointlocation")
    if not place:
        raise UsageError(
            "the streaming query has no checkpoint location, so its batches could not be "
            "distinguished from those of another query",
            next_step='add .option("checkpointLocation", …) to the writer, or a queryId of its own',
        )
    try:
        found = json.loads(_metadata(place, table))["id"]
    except (OSError, ValueError, KeyError, TypeError, ObjectNotFoundError) as error:
        raise UsageError(
            f"the checkpoint {place} has no readable query id ({type(error).__name__})",
            next_step='add .option("queryId", …): a name for this query and this checkpoint alone',
        ) from None
    return str(found)


def _metadata(place: str, table: Opened) -> bytes:
    """Read the file in which Spark keeps the id."""
    parts = urlsplit(place)
    if parts.scheme in ("", "file"):
        return (Path(unquote(parts.path)) / "metadata").read_bytes()
    scheme = "s3" if parts.scheme in ("s3a", "s3n") else parts.scheme
    folder = parts.path.strip("/")
    root = f"{scheme}://{parts.netloc}/{folder}"
    return open_store(root, StoreAccess.from_json(table.access)).get(f"{folder}/metadata")
