"""Reads rows as a reader of this format must, and as a v1 client does: written from the rules."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Mapping
from itertools import chain
from typing import Any

import pyarrow.parquet as pq

from firnline.predicate.pruning import evaluate
from firnline.predicate.tree import parse_json
from firnline.settings.load import TableSettings
from firnline.state.snapshot import Snapshot, read_snapshot
from firnline.table import Table

Row = dict[str, Any]


def part_rows(table: Table, key: str) -> list[Row]:
    """All rows of an object."""
    return rows_of(table.store.get(key))


def rows_of(data: bytes) -> list[Row]:
    """All rows of a Parquet file."""
    found: list[Row] = pq.read_table(io.BytesIO(data), partitioning=None).to_pylist()
    return found


def visible_by_partition(
    table: Table, snapshot: Snapshot | None = None, known: Mapping[str, list[Row]] | None = None
) -> dict[str, list[Row]]:
    """Partition -> rows of its live parts that no delete hides, in order of insertion.

    ``known``: parts read before.
    """
    state = snapshot or read_snapshot(table.store, table.paths)
    read = known or {}
    found: dict[str, list[Row]] = {}
    for partition, markers in state.partitions.items():
        rows = found.setdefault(partition, [])
        for marker in sorted(markers, key=lambda m: (*m.order(), m.p)):
            trees = [parse_json(d.where) for d in state.pending_deletes(marker, partition)]
            rows += [
                row
                for row in (read[marker.p] if marker.p in read else part_rows(table, marker.p))
                if not any(evaluate(tree, row, state.schema) for tree in trees)
            ]
    return found


def newest_of_keys(settings: TableSettings, rows: list[Row]) -> list[Row]:
    """Of rows of one partition, in order of insertion, those that readers see (no ``version``)."""
    if not settings.primary_key:
        return rows
    found = {tuple(row[name] for name in settings.primary_key): row for row in rows}
    return [row for row in found.values() if not (settings.deleted and row[settings.deleted])]


def visible_rows(table: Table, snapshot: Snapshot | None = None) -> list[Row]:
    """Rows of live parts that no delete hides."""
    return list(chain.from_iterable(visible_by_partition(table, snapshot).values()))


def visible_ids(table: Table, column: str = "id") -> Counter[Any]:
    """How often each value of a column is visible."""
    return Counter(row.get(column) for row in visible_rows(table))


def stored_ids(table: Table, column: str = "id") -> Counter[Any]:
    """How often each value stands in live parts, hidden or not: what a v1 client reads."""
    live = read_snapshot(table.store, table.paths).live
    return Counter(row.get(column) for key in live for row in part_rows(table, key))
