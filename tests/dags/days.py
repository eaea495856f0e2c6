"""Tables with a partition for each day, read by other means than the code under test."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from firnline.appends.append import Appender
from firnline.state.snapshot import read_snapshot
from firnline.table import Table

DAYS = tuple(f"2024-03-{day:02d}" for day in range(1, 8))


def append_days(table: Table, days: Iterable[str], rows: int = 20, first: int = 0) -> None:
    """One append with ``rows`` rows (keys from ``first``) on every day: a part for each."""
    columns: dict[str, list[Any]] = {"k": [], "ts": []}
    for day in days:
        columns["k"] += range(first, first + rows)
        columns["ts"] += [datetime.fromisoformat(f"{day}T06:00").replace(tzinfo=UTC)] * rows
    kinds = {"k": pa.int64(), "ts": pa.timestamp("us", "UTC")}
    Appender(table).append(
        pa.table({name: pa.array(values, kinds[name]) for name, values in columns.items()})
    )


def rows_by_day(table: Table) -> dict[str, int]:
    """Rows of the live parts by day."""
    return dict(sorted(Counter(day for _, day in rows_of(table)).items()))


def rows_of(table: Table) -> list[tuple[int, str]]:
    """(k, day) of every row in live parts, read without the code under test."""
    found: list[tuple[int, str]] = []
    for path in part_files(table, read_snapshot(table.store, table.paths).live):
        read = pq.read_table(path, columns=["k", "ts"], partitioning=None)
        days = [value.date().isoformat() for value in read["ts"].to_pylist()]
        found += zip(read["k"].to_pylist(), days, strict=True)
    return sorted(found)


def part_files(table: Table, keys: Iterable[str]) -> list[Path]:
    """Files of parts of a table in a folder."""
    folder = Path(table.settings.root.removeprefix("file://"))
    return [folder.parent / key for key in keys]


def partition(day: str) -> str:
    """Its directory."""
    return f"ts_day={day}"
