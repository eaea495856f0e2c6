"""What filters by equality read of a table without bloom filters, with them, and with larger ones.

    python -m benchmarks.bloom [files] [rows]      as a table, without writing docs

One table without partitions for each setting of ``merge.bloom_filters``; the rows are those of
``benchmarks.data``, merged once, sorted by (event, ts). Users are everywhere, so bounds exclude
nothing. What is counted are the requests and bytes of ``firnline.scan``, all columns, while DuckDB
reads the rows.
"""

from __future__ import annotations

import shutil
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import firnline
from benchmarks import data
from benchmarks.cluster import merge
from benchmarks.measure import Figures, Usage
from firnline.appends.append import Appender
from firnline.settings.load import TableSettings
from firnline.state.snapshot import read_snapshot
from firnline.store.access import StoreAccess
from firnline.table import Table, open_table

FILES, ROWS = 20, 100_000
ROW_GROUP = 262_144
_USERS = 240_000
"""Above the distinct users of a row group, and below those of columns that differ in every row."""
WAYS: dict[str, Any] = {
    "false": False,
    "default": True,
    "max_distinct 240,000: users": {"max_distinct": _USERS},
    "the same, false_positives 0.1": {"max_distinct": _USERS, "false_positives": 0.1},
    "max_distinct 262,144: all columns": {"max_distinct": ROW_GROUP},
}


def compare(work: Path, files: int = FILES, rows: int = ROWS) -> list[Figures]:
    """Every setting once: seconds of its merge, its MB, and what each filter reads."""
    tables = [data.make_table(file, rows) for file in range(files)]
    filters = _filters(pa.concat_tables(tables).column("user_id"))
    found: list[Figures] = []
    for name, setting in WAYS.items():
        table = _filled(work / "bloom", setting, tables)
        began = time.perf_counter()
        merge(table, work / "scratch")
        seconds = time.perf_counter() - began
        size = sum(m.b for m in read_snapshot(table.store, table.paths).live.values())
        notes = {"MB": f"{size / 1e6:.1f}"}
        notes |= {what: _read(table, where) for what, where in filters.items()}
        found.append(Figures(name, "", [Usage(seconds, seconds, 0)], dict(notes)))
        print(f"  bloom     {name:34s} {seconds:6.1f} s {notes}")
        shutil.rmtree(work / "bloom")
    return found


def _filters(users: pa.ChunkedArray) -> dict[str, str]:
    """By equality: users of one row and of none, and an event, by which rows are sorted."""
    counts = np.bincount(users.to_numpy())
    one, none = (np.flatnonzero(counts == count) for count in (1, 0))
    five = ", ".join(str(user) for user in one[1_000:6_000:1_000])
    return {
        "a user with one row": f"user_id = {one[1_000]}",
        "five of them": f"user_id IN ({five})",
        "a user without rows": f"user_id = {none[1_000]}",
        "an event": "event = 'event_042'",
    }


def _filled(root: Path, setting: object, tables: list[pa.Table]) -> Table:
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    settings = {
        "name": "t",
        "root": f"file://{root.absolute()}/t",
        "sort_by": ["event", "ts"],
        "merge": {"row_group_rows": ROW_GROUP, "bloom_filters": setting},
    }
    table = open_table(TableSettings.model_validate(settings), StoreAccess.from_env())
    appender = Appender(table)
    for rows in tables:
        appender.append(rows)
    return table


def _read(table: Table, where: str) -> str:
    """MB and requests of a read, besides those of the log."""
    scan = firnline.scan(table, where=where)
    before = table.store.counters.as_dict()
    scan.to_arrow()
    after = table.store.counters.as_dict()
    megabytes = (after["bytes_in"] - before["bytes_in"]) / 1e6
    return f"{megabytes:.2f} ({after['get'] - before['get']})"


if __name__ == "__main__":
    sizes = [int(text) for text in sys.argv[1:3]]
    place = Path(__file__).parents[1] / ".cache" / "bench" / "work"
    compare(place, *sizes)
