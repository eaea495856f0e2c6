"""A table with a primary key as a reader sees it, written from docs/format.md alone.

Shares nothing with the product but the snapshot: parts, their markers and the delete records.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow.parquet as pq

from firnline.log.records import Marker
from firnline.state.snapshot import read_snapshot
from tests.support.world import World

Row = dict[str, Any]
Key = tuple[Any, ...]


def matches(tree: Mapping[str, Any], row: Row) -> bool:
    """Whether a predicate is true for a row; a comparison with null is not."""
    op = tree["op"]
    if op == "and":
        return all(matches(arg, row) for arg in tree["args"])
    if op == "or":
        return any(matches(arg, row) for arg in tree["args"])
    value = row.get(tree["column"])
    if op == "is_null":
        return value is None
    if value is None:
        return False
    if op == "in":
        return value in tree["values"]
    compare = {
        "=": value.__eq__,
        "<": value.__lt__,
        "<=": value.__le__,
        ">": value.__gt__,
        ">=": value.__ge__,
    }
    return bool(compare[op](tree["value"]))


def stored(world: World) -> Iterator[tuple[str, Marker, list[Row]]]:
    """(partition, part, its rows that no delete record hides), in order of insertion."""
    snapshot = read_snapshot(world.store, world.table.paths)
    for partition, markers in snapshot.partitions.items():
        for marker in sorted(markers, key=lambda m: (*m.order(), m.p)):
            rows = pq.ParquetFile(io.BytesIO(world.store.objects[marker.p][0])).read().to_pylist()
            trees = [
                json.loads(bytes(delete.where))
                for delete in snapshot.deletes.values()
                if delete.seq > snapshot.sequence_of(marker) and delete.id not in (marker.d or ())
            ]
            yield partition, marker, [r for r in rows if not any(matches(t, r) for t in trees)]


def visible(world: World) -> dict[Key, Row]:
    """Key (with its partition) -> the row that readers see."""
    settings = world.settings
    found: dict[Key, tuple[Any, Row]] = {}
    for partition, _, rows in stored(world):
        for row in rows:
            key = (partition, *(row[name] for name in settings.primary_key))
            rank = row.get(settings.version) if settings.version else None
            known = found.get(key)
            # Later wins among equals; a null version loses to every other.
            if known is None or known[0] is None or (rank is not None and rank >= known[0]):
                found[key] = rank, row
    return {
        key: row
        for key, (_, row) in found.items()
        if settings.deleted is None or row.get(settings.deleted) is not True
    }
