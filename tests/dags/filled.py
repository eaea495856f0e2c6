"""Small tables with real parts, written and read back by other means than the code under test."""

from __future__ import annotations

import io
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from firnline.ids import SystemIds
from firnline.log import codec
from firnline.log.records import LogContent, Marker
from firnline.state.snapshot import read_snapshot
from firnline.table import Table

PARTITIONS = ("day=a", "day=b")
Row = tuple[int, str]


def fill(
    table: Table, appends: int, rows: int = 50, partitions: Sequence[str] = PARTITIONS
) -> None:
    """``appends`` log files, each with a part of ``rows`` rows in every partition."""
    ids = SystemIds()
    for number in range(appends):
        t = table.clock.now_ms() - 60_000 + number
        markers = [
            _part(table, partition, ids.uuid7(t), t, range(number * rows, (number + 1) * rows))
            for partition in partitions
        ]
        content = LogContent(t=t, schema={"k": "BIGINT", "day": "VARCHAR"}, markers=markers)
        table.store.put_new(
            table.paths.append_log(t, f"test-{ids.uuid7(t)}"), codec.encode(content)
        )


def _part(table: Table, partition: str, name: str, t: int, keys: range) -> Marker:
    day = partition.partition("=")[2]
    sink = io.BytesIO()
    # Backwards: a merge has to sort.
    columns = {"k": pa.array(reversed(keys), pa.int64()), "day": pa.array([day] * len(keys))}
    pq.write_table(pa.table(columns), sink)
    key = table.paths.data_part(partition, name)
    table.store.put_new(key, sink.getvalue())
    return Marker(p=key, b=len(sink.getvalue()), t=t, n=len(keys))


def live_keys(table: Table) -> list[str]:
    """Keys of the live parts."""
    return sorted(read_snapshot(table.store, table.paths).live)


def live_rows(table: Table) -> list[Row]:
    """All rows, sorted."""
    found: list[Row] = []
    for _, data in table.store.get_many(live_keys(table)):
        assert data is not None
        read = pq.read_table(io.BytesIO(data), columns=["k", "day"])
        found += zip(read["k"].to_pylist(), read["day"].to_pylist(), strict=True)
    return sorted(found)
