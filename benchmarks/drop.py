"""A partition with 10,000 parts goes out of a table with a million; and a TTL from start to end.

    python -m benchmarks.drop [runs]      all, as a table
    python -m benchmarks.drop drop ROOT      one drop in this process, as JSON

The log is that of a table that is maintained: one file of 970,000 parts that transactions have
gathered, and 300 appends of 100 parts since the last of them. There are log files only: neither a
drop nor a TTL touches a part. Every run has a fresh copy (hard links) and a process of its own;
the S3 server is the one of the tests, on this machine.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.measure import run_json
from firnline.ids import format_uuid7
from firnline.log import codec
from firnline.log.records import LogContent, Marker, TxnMark, stats_json
from firnline.log.txn_file import RunIdentity
from firnline.operations.drop.run import run_drop
from firnline.operations.operation import Work
from firnline.operations.options import DropOptions
from firnline.paths import TablePaths
from firnline.settings.load import settings_for_root
from firnline.store.access import StoreAccess
from firnline.table import open_table
from tools.memory import peak_mib
from tools.s3server import S3Server

START_MS = 1_767_225_600_000
SCHEMA = {"event": "VARCHAR", "ts": "TIMESTAMP WITH TIME ZONE", "value": "DOUBLE"}
MERGED, APPENDS, PER_APPEND, PARTITIONS = 970_000, 300, 100, 100
CHOSEN = "ts_day=2026-01-08"
TTL = """tables:
  t:
    root: {root}
    partition_by: [day(ts)]
    ttl: {{keep: {keep}d}}
"""


def partition_of(number: int) -> str:
    """The hundred days from the first of January 2026, 10,000 parts each."""
    day = number % PARTITIONS
    month, past = next((m, p) for m, p in ((4, 90), (3, 59), (2, 31), (1, 0)) if day >= p)
    return f"ts_day=2026-{month:02d}-{day - past + 1:02d}"


def make_log(folder: Path, merged: int = MERGED) -> Path:
    """The table folder ``t`` under ``folder``; written once. ``merged``: parts besides appends."""
    table, done = folder / "t", folder / "complete"
    if done.exists():
        return table
    shutil.rmtree(table, ignore_errors=True)
    (table / "_log").mkdir(parents=True)
    paths = TablePaths("t")
    txn = format_uuid7(START_MS, 1)
    mark = TxnMark(seq=1, txn=txn, op="merge", purged=0)
    _write(table, paths.txn_log(START_MS, 1, txn), START_MS, 0, merged, mark)
    for index in range(APPENDS):
        t = START_MS + (index + 1) * 1000
        key = paths.append_log(t, f"host-{format_uuid7(t, index)}")
        _write(table, key, t, merged + index * PER_APPEND, PER_APPEND, None)
    done.touch()
    return table


def _write(table: Path, key: str, t: int, first: int, count: int, mark: TxnMark | None) -> None:
    paths = TablePaths("t")
    markers = [_marker(paths, number, t) for number in range(first, first + count)]
    content = LogContent(t=t, schema=SCHEMA, markers=markers, x=mark)
    (table / "_log" / Path(key).name).write_bytes(codec.encode(content))


def _marker(paths: TablePaths, number: int, t: int) -> Marker:
    day = partition_of(number)
    date = day.removeprefix("ts_day=")
    bounds = (f"{date}T00:00:00.000000Z", f"{date}T23:59:59.999999Z", 0)
    return Marker(
        p=paths.data_part(day, format_uuid7(t, number)),
        b=1_000_000 + number,
        t=t,
        n=10_000,
        q=1,
        s=stats_json({"event": ("event_000", "event_199", 0), "ts": bounds}),
    )


def drop_here(root: str) -> dict[str, Any]:
    """One drop in this process."""
    opened = open_table(settings_for_root(root), StoreAccess.from_env())
    began = time.perf_counter()
    report = run_drop(Work(opened, RunIdentity(run_id="bench")), DropOptions(partitions=(CHOSEN,)))
    return {
        "seconds": time.perf_counter() - began,
        "parts": report.parts,
        "peak_mb": peak_mib(),
        **report.requests,
    }


def run_ttl(table: Path, keep_days: int) -> dict[str, Any]:
    """``firnline ttl`` as a process, from its start to its end."""
    settings = table.parent / "tables.yaml"
    settings.write_text(TTL.format(root=f"file://{table}", keep=keep_days))
    program = Path(sys.executable).with_name("firnline")
    command = [str(program), "ttl", "t", "--json", "--settings", str(settings)]
    began = time.perf_counter()
    report = run_json(command, {})
    seconds = time.perf_counter() - began
    return {"seconds": seconds, "parts": report["parts"], **report["requests"]}


def copied(table: Path, name: str) -> Path:
    """A table of its own: log files are never changed, so links do."""
    folder = table.parent / name
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(table, folder / "t", copy_function=os.link)
    return folder / "t"


def small_log(folder: Path) -> Path:
    """A table like that of most: a hundred partitions of three parts each."""
    table = folder / "small" / "t"
    shutil.rmtree(table, ignore_errors=True)
    (table / "_log").mkdir(parents=True)
    for index in range(3):
        t = START_MS + index * 1000
        key = TablePaths("t").append_log(t, f"host-{format_uuid7(t, index)}")
        _write(table, key, t, index * PARTITIONS, PARTITIONS, None)
    return table


def drop_in_process(root: str, env: Mapping[str, str]) -> dict[str, Any]:
    """``drop_here`` in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.drop", "drop", root]
    return run_json(command, env)


def days_since(day: int) -> int:
    """Days from the ``day``-th of January 2026, exclusive, until now."""
    return int((time.time() * 1000 - START_MS) / 86_400_000) - day


def measure(runs: int) -> dict[str, list[dict[str, Any]]]:
    """All of them in turn, ``runs`` times: seconds, parts, requests and bytes of each."""
    folder = Path(".cache/bench/drop").resolve()
    table = make_log(folder)
    keep = days_since(10)
    results: dict[str, list[dict[str, Any]]] = {}
    with S3Server(folder / "s3") as server:
        for number in range(runs):
            on_disk = f"file://{copied(table, 'run')}"
            results.setdefault("drop of 10,000 parts of 1 M", []).append(
                drop_in_process(on_disk, {})
            )
            bucket = f"run-{number}"  # the log names its parts under t/: each copy has its bucket
            copied(table, f"s3/{bucket}")
            results.setdefault("the same on S3", []).append(
                drop_in_process(f"s3://{bucket}/t", server.env())
            )
            results.setdefault("firnline ttl, 100,000 of 1 M", []).append(
                run_ttl(copied(table, "run"), keep)
            )
            results.setdefault("firnline ttl, 30 of 300", []).append(
                run_ttl(small_log(folder), keep)
            )
    for name in ("run", "s3"):
        shutil.rmtree(folder / name, ignore_errors=True)
    return results


def main(arguments: list[str]) -> None:
    """See the module's docstring."""
    if arguments and arguments[0] == "drop":
        print(json.dumps(drop_here(arguments[1])))
        return
    for name, each in measure(int(arguments[0]) if arguments else 5).items():
        _print(name, each)


def _print(name: str, results: list[dict[str, Any]]) -> None:
    seconds = [result["seconds"] for result in results]
    one = results[0]
    requests = ", ".join(f"{one[k]} {k.upper()}" for k in ("get", "put", "list", "delete"))
    print(
        f"{name:30} {one['parts']:>7,} parts  median {statistics.median(seconds):5.2f} s  "
        f"min {min(seconds):5.2f} s  max {max(seconds):5.2f} s  {requests}  "
        f"{one['bytes_in'] / 2**20:.1f} MiB read  {one['bytes_out'] / 2**20:.1f} MiB written"
        + (f"  peak {one['peak_mb']:.0f} MB" if "peak_mb" in one else "")
    )


if __name__ == "__main__":
    main(sys.argv[1:])
