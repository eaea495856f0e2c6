"""Records of the batches of streaming queries that a table holds.

``{"sink":{"query":id,"batch":n}}`` is an extension record of the append's own log file, so it is
visible exactly when the rows of the batch are. Batches of a query are numbered in order, and each
begins after the one before is done: the largest number is enough, and a fold keeps only that.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from firnline.log.record_kind import RecordKind


class _Sink(msgspec.Struct, frozen=True):
    query: str
    batch: int


_KIND = RecordKind("sink", _Sink)
_read = _KIND.read


def sink_record(query: str, batch: int) -> bytes:
    """Return the record of a batch as a line."""
    return _KIND.line(_Sink(query, batch))


def newest_batches(lines: Iterable[bytes]) -> dict[str, int]:
    """Return query -> its newest batch, from extension records of any kind."""
    newest: dict[str, int] = {}
    for line in lines:
        record = _read(line)
        if record is not None:
            newest[record.query] = max(record.batch, newest.get(record.query, record.batch))
    return newest


def without_superseded(lines: Iterable[bytes]) -> list[bytes]:
    """Return the records without those of batches that are older than another of their query."""
    kept = sorted(set(lines))
    newest = newest_batches(kept)
    read = ((line, _read(line)) for line in kept)
    return [line for line, sink in read if sink is None or sink.batch == newest[sink.query]]
