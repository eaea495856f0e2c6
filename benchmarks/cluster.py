"""What ten filters have to read of a table that is merged without clusters and with each method.

    python -m benchmarks.cluster [files] [rows]      as a table, without writing docs

One table without partitions for each way; the rows are those of ``benchmarks.data``, appended file
by file and merged in one run. A part is read unless its statistics or hash ranges prove that no row
matches: all tables are asked by bounds of all columns, taken from the footers, so that none is at
an advantage.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from benchmarks import data
from benchmarks.measure import MIB, Figures, Usage
from firnline.appends.append import Appender
from firnline.clock import SystemClock
from firnline.ids import SystemIds
from firnline.kernel.local import LocalEngine
from firnline.log.txn_file import RunIdentity
from firnline.operations.merge.run import run_merge
from firnline.operations.operation import Work
from firnline.operations.options import MergeOptions
from firnline.parquet.stats import from_footer
from firnline.predicate.pruning import Pruner
from firnline.predicate.sql import parse_sql
from firnline.settings.load import TableSettings
from firnline.state.snapshot import read_snapshot
from firnline.store.access import StoreAccess
from firnline.table import Table, open_table

FILES, ROWS = 100, 20_000
WAYS: dict[str, dict[str, Any]] = {
    "appended": {},
    "merged": {},
    "sort_by event, ts": {"sort_by": ["event", "ts"]},
    "range user_id, ts": {"cluster_by": ["user_id", "ts"]},
    "range ts": {"cluster_by": ["ts"]},
    "zorder user_id, ts": {"cluster_by": {"columns": ["user_id", "ts"], "method": "zorder"}},
    "zorder user_id, ts, event": {
        "cluster_by": {"columns": ["user_id", "ts", "event"], "method": "zorder"}
    },
    "hash user_id": {"cluster_by": {"columns": ["user_id"], "method": "hash"}},
}
_HOUR = "ts >= '2026-01-01 05:00:00+00' AND ts < '2026-01-01 06:00:00+00'"
_MORNING = "ts >= '2026-01-01 02:00:00+00' AND ts < '2026-01-01 06:00:00+00'"
FILTERS = {
    "one hour": _HOUR,
    "one minute": "ts >= '2026-01-01 05:00:00+00' AND ts < '2026-01-01 05:01:00+00'",
    "one user": "user_id = 123456",
    "ten users": f"user_id IN ({', '.join(str(99_991 * n) for n in range(1, 11))})",
    "1 % of users": "user_id >= 500000 AND user_id < 510000",
    "one user, one hour": f"user_id = 123456 AND {_HOUR}",
    "10 % of users, 4 hours": f"user_id >= 200000 AND user_id < 300000 AND {_MORNING}",
    "one event": "event = 'event_042'",
    "one event, one hour": f"event = 'event_042' AND {_HOUR}",
    "all but a user": "user_id != 123456",
}


@dataclass(frozen=True, slots=True)
class Read:
    """What is left of a table after its statistics were asked."""

    parts: int
    bytes: int


def compare(work: Path, files: int = FILES, rows: int = ROWS) -> list[Figures]:
    """Every way once: seconds of its merge, and parts and MB that each filter reads."""
    found: list[Figures] = []
    for name, settings in WAYS.items():
        table = _filled(work / "cluster", settings, files, rows)
        size = sum(m.b for m in read_snapshot(table.store, table.paths).live.values())
        target = max(size // 36, MIB)  # parts enough to tell the ways apart
        table = _opened(work / "cluster", {**settings, "merge": {"target_size": target}})
        began = time.perf_counter()
        if name != "appended":
            merge(table, work / "scratch")
        seconds = time.perf_counter() - began
        figures = Figures(name, "", [Usage(seconds, seconds, 0)], dict(_reads(table)))
        found.append(figures)
        print(f"  cluster   {name:28s} {seconds:6.1f} s {figures.notes}")
        shutil.rmtree(work / "cluster")
    return found


def _opened(root: Path, settings: Mapping[str, Any]) -> Table:
    declared = {"name": "t", "root": f"file://{root}/t", **settings}
    cluster = declared.get("cluster_by")
    if cluster is not None:  # one run: what many merges come to in the end
        given = cluster if isinstance(cluster, dict) else {"columns": cluster}
        declared["cluster_by"] = {**given, "run_size": "1TiB"}
    return open_table(TableSettings.model_validate(declared), StoreAccess.from_env())


def _filled(root: Path, settings: Mapping[str, Any], files: int, rows: int) -> Table:
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    table = _opened(root, settings)
    appender = Appender(table)
    for file in range(files):
        appender.append(data.make_table(file, rows))
    return table


def merge(table: Table, scratch: Path) -> None:
    """One run in this process, which leaves the fewest parts."""
    engine = LocalEngine(
        lambda: open_table(table.settings, table.access).store,
        scratch,
        SystemIds(),
        SystemClock(),
    )
    run_merge(Work(table, RunIdentity(run_id="bench"), lambda: engine), MergeOptions(full=True))


def _reads(table: Table) -> Mapping[str, str]:
    """Filter -> parts and MB to read; the whole table first."""
    state = read_snapshot(table.store, table.paths)
    columns, folder = dict(state.schema), Path(table.settings.root.removeprefix("file://")).parent
    parts = [
        (
            marker.b,
            from_footer(pq.read_metadata(folder / key), list(columns)),
            state.hashes_of(marker),
        )
        for key, marker in state.live.items()
    ]
    told = {"whole table": _told(Read(len(parts), sum(size for size, _, _ in parts)))}
    for name, where in FILTERS.items():
        pruner = Pruner(parse_sql(where, columns), columns)
        left = [b for b, stats, hashes in parts if not pruner.matches_nothing(stats, hashes)]
        told[name] = _told(Read(len(left), sum(left)))
    return told


def _told(read: Read) -> str:
    return f"{read.parts} ({read.bytes / 1e6:.1f})"


if __name__ == "__main__":
    sizes = [int(text) for text in sys.argv[1:3]]
    place = Path(__file__).parents[1] / ".cache" / "bench" / "work"
    compare(place, *sizes)
