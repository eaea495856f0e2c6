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

from benchmarks.measure import MIB, Figures, Usage, run_json
from benchmarks.sizes import FULL, Bench
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
PER_APPEND, PARTITIONS = 100, 100
TTL_DAYS = 10
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


def make_log(folder: Path, merged: int, appends: int) -> Path:
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
    for index in range(appends):
        t = START_MS + (index + 1) * 1000
        key = paths.append_log(t, f"host-{format_uuid7(t, index)}")
        _write(table, key, t, merged + index * PER_APPEND, PER_APPEND)
    done.touch()
    return table


def _write(
    table: Path,
    key: str,
    t: int,
    first: int,
    count: int,
    mark: TxnMark | None = None,
    *,
    seq: int = 1,
) -> None:
    """One log file; ``seq``: the newest transaction when its parts were written."""
    paths = TablePaths("t")
    markers = [_marker(paths, number, t, seq) for number in range(first, first + count)]
    content = LogContent(t=t, schema=SCHEMA, markers=markers, x=mark)
    (table / "_log" / Path(key).name).write_bytes(codec.encode(content))


def _marker(paths: TablePaths, number: int, t: int, seq: int) -> Marker:
    day = partition_of(number)
    date = day.removeprefix("ts_day=")
    bounds = (f"{date}T00:00:00.000000Z", f"{date}T23:59:59.999999Z", 0)
    return Marker(
        p=paths.data_part(day, format_uuid7(t, number)),
        b=1_000_000 + number,
        t=t,
        n=10_000,
        q=seq,
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
    command = [str(program), "ttl", "t", "--json", "--yes", "--settings", str(settings)]
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
    """A table like that of most: a hundred partitions of three parts each, no transaction yet."""
    table = folder / "small" / "t"
    shutil.rmtree(table, ignore_errors=True)
    (table / "_log").mkdir(parents=True)
    for index in range(3):
        t = START_MS + index * 1000
        key = TablePaths("t").append_log(t, f"host-{format_uuid7(t, index)}")
        _write(table, key, t, index * PARTITIONS, PARTITIONS, seq=0)
    return table


def drop_in_process(root: str, env: Mapping[str, str]) -> dict[str, Any]:
    """``drop_here`` in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.drop", "drop", root]
    return run_json(command, env)


def days_since(day: int) -> int:
    """Days from the ``day``-th of January 2026, exclusive, until now."""
    return int((time.time() * 1000 - START_MS) / 86_400_000) - day


def measure(folder: Path, runs: int, merged: int, appends: int) -> dict[str, list[dict[str, Any]]]:
    """All of them in turn, ``runs`` times: seconds, parts, requests and bytes of each."""
    table = make_log(folder, merged, appends)
    total = merged + appends * PER_APPEND
    dropped, expired = total // PARTITIONS, total // PARTITIONS * TTL_DAYS
    keep = days_since(TTL_DAYS)
    results: dict[str, list[dict[str, Any]]] = {}

    def took(name: str, parts: int, found: dict[str, Any]) -> None:
        if found["parts"] != parts:
            raise RuntimeError(f"{name} took {found['parts']} parts instead of {parts}")
        results.setdefault(name, []).append(found)

    with S3Server(folder / "s3") as server:
        for number in range(runs):
            on_disk = f"file://{copied(table, 'run')}"
            of_all = f"drop of {dropped:,} parts of {_short(total)}"
            took(of_all, dropped, drop_in_process(on_disk, {}))
            bucket = f"run-{number}"  # the log names its parts under t/: each copy has its bucket
            copied(table, f"s3/{bucket}")
            on_s3 = drop_in_process(f"s3://{bucket}/t", server.env())
            took("the same on S3", dropped, on_s3)
            of_many = run_ttl(copied(table, "run"), keep)
            took(f"firnline ttl, {expired:,} of {_short(total)}", expired, of_many)
            took("firnline ttl, 30 of 300", 30, run_ttl(small_log(folder), keep))
    for name in ("run", "s3"):
        shutil.rmtree(folder / name, ignore_errors=True)
    return results


def _short(parts: int) -> str:
    return f"{parts // 1_000_000} M" if parts % 1_000_000 == 0 else f"{parts:,}"


def compare(bench: Bench) -> list[Figures]:
    """The figures of ``measure``."""
    sizes, figures = bench.sizes, []
    made = measure(bench.tables / "drop", bench.rounds, sizes.merged_parts, sizes.appends)
    for name, results in made.items():
        peak = [int(r.get("peak_mb", 0) * MIB) for r in results]
        usages = [Usage(r["seconds"], 0.0, p) for r, p in zip(results, peak, strict=True)]
        kinds = ("get", "put", "list", "delete")
        notes: dict[str, object] = {
            "parts": results[0]["parts"],
            "requests": sum(results[0][kind] for kind in kinds),
            "bytes_out": results[0]["bytes_out"],
        }
        figures.append(Figures(name, "", usages, notes))
        print(f"  drop      {name:30s} {figures[-1].median:6.2f} s")
    return figures


def main(arguments: list[str]) -> None:
    """See the module's docstring."""
    if arguments and arguments[0] == "drop":
        print(json.dumps(drop_here(arguments[1])))
        return
    folder, runs = Path(".cache/bench/drop").resolve(), int(arguments[0]) if arguments else 5
    for name, each in measure(folder, runs, FULL.merged_parts, FULL.appends).items():
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
