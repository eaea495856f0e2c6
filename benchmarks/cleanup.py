"""Clean-up of many dead parts: ``python -m benchmarks.cleanup [--parts N] [--rounds N]``.

Every contender deletes as many files of 1,000 bytes, each round a table laid out anew and a process
of its own, once on a local S3 server and once on the same local disk. firnline does all that a
clean-up is: two readings of the log, probe of the store, deletes, commit. Its rate is not bounded
here (``cleanup.deletes_per_second`` is 3,000 by default, which 100,000 parts make 33 s).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measure import Figures, Usage, load_average, watched
from firnline.clock import SystemClock
from firnline.commit.base import take_base
from firnline.commit.transaction import Change, commit
from firnline.ids import format_uuid7
from firnline.log import codec
from firnline.log.records import LogContent, Marker
from firnline.log.txn_file import Counts, RunIdentity
from firnline.operations.cleanup.run import run_cleanup
from firnline.operations.operation import Work
from firnline.operations.options import CleanupOptions
from firnline.settings.load import TableSettings
from firnline.store.access import StoreAccess
from firnline.table import Table, open_table
from tools.s3server import S3Server

WORK = Path(__file__).parents[1] / ".cache" / "bench" / "work"
BODY = b"x" * 1_000
DAY_MS = 86_400_000
_KINDS = ("list", "get", "put", "head", "delete")


class Later(SystemClock):
    """Two days ahead, so that the grace is over."""

    def now_ms(self) -> int:
        return super().now_ms() + 2 * DAY_MS


def opened(root: str, env: dict[str, str], *, later: bool) -> Table:
    unbounded = {"deletes_per_second": 10_000_000}
    settings = TableSettings.model_validate({"name": "t", "root": root, "cleanup": unbounded})
    access = StoreAccess.from_env(env) if root.startswith("s3") else None
    return open_table(settings, access, clock=Later() if later else SystemClock())


def lay_out_firnline(root: str, env: dict[str, str], folder: Path, parts: int) -> None:
    """One append of all parts, buried by one transaction. Objects are files in both stores."""
    table = opened(root, env, later=False)
    now = table.clock.now_ms()
    keys = [table.paths.data_part("d=1", format_uuid7(now, n)) for n in range(parts)]
    data = folder / "_data" / "d=1"
    data.mkdir(parents=True)
    for key in keys:
        (data / key.rpartition("/")[2]).write_bytes(BODY)
    markers = [Marker(p=key, b=len(BODY), t=now, n=10, q=0) for key in keys]
    log = LogContent(t=now, schema={"a": "INTEGER"}, markers=markers)
    name = table.paths.append_log(now, f"bench-{format_uuid7(now, 1 << 70)}")
    table.store.put_new(name, codec.encode(log))
    counts = Counts(parts_in=parts, rows_in=10 * parts, rows_removed=10 * parts)
    change = Change(op="drop", replaces=tuple(keys), adds=(), counts=counts)
    commit(table, take_base(table), change, RunIdentity(run_id="bench"))


def lay_out_delta(_root: str, _env: dict[str, str], folder: Path, parts: int) -> None:
    """One version that adds all files, one that removes them, eight days ago."""
    log = folder / "_delta_log"
    log.mkdir(parents=True)
    then = int(time.time() * 1000) - 8 * DAY_MS
    names = [f"part-{n:06d}-{format_uuid7(then, n)}.parquet" for n in range(parts)]
    for name in names:
        (folder / name).write_bytes(BODY)
    column = {"name": "a", "type": "integer", "nullable": True, "metadata": {}}
    schema = json.dumps({"type": "struct", "fields": [column]})
    meta = {
        "id": "00000000-0000-4000-8000-000000000000",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": schema,
        "partitionColumns": [],
        "configuration": {},
        "createdTime": then,
    }
    common: dict[str, object] = {"partitionValues": {}, "size": len(BODY), "dataChange": True}
    first: list[dict[str, object]] = [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {"metaData": meta},
    ]
    first += [{"add": {"path": name, "modificationTime": then, **common}} for name in names]
    gone: dict[str, object] = {"deletionTimestamp": then, "extendedFileMetadata": True}
    second: list[dict[str, object]] = [
        {"remove": {"path": name, **gone, **common}} for name in names
    ]
    for version, lines in enumerate((first, second)):
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (log / f"{version:020d}.json").write_text(text)


def run_firnline(root: str) -> dict[str, object]:
    table = opened(root, dict(os.environ), later=True)
    began = time.perf_counter()
    report = run_cleanup(Work(table, RunIdentity(run_id="bench")), CleanupOptions())
    seconds = time.perf_counter() - began
    deletes = -(-(report.parts + report.log_files) // 1000)
    sent = {kind: report.requests[kind] for kind in _KINDS}
    notes: dict[str, object] = {"seconds": seconds, "deleted": report.parts, "requests": sent}
    if root.startswith("s3"):
        notes["requests_besides_the_deletes"] = sum(sent.values()) - deletes
    return notes


def run_delta(root: str) -> dict[str, object]:
    from deltalake import DeltaTable

    options = {**os.environ, "aws_conditional_put": "etag"} if root.startswith("s3") else None
    began = time.perf_counter()
    table = DeltaTable(root, storage_options=options)
    found = table.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)
    return {"seconds": time.perf_counter() - began, "deleted": len(found)}


def left_firnline(root: str, env: dict[str, str], _folder: Path) -> int:
    """Data parts of the table; a checkpoint of its log is a Parquet file too, and has to stay."""
    table = opened(root, env, later=False)
    parts = [table.paths.parse_part(m.key) for m in table.store.list(table.paths.data_dir)]
    return len(parts)


def left_delta(_root: str, _env: dict[str, str], folder: Path) -> int:
    """Files that lie where they were laid out, beside the log and its checkpoints."""
    return sum(1 for _ in folder.glob("*.parquet"))


@dataclass(frozen=True, slots=True)
class Contender:
    """How one of them lays a table out, and counts what a clean-up has left of it.

    Both are given the table's URL, the store's environment and the table's folder on disk.
    """

    what: str
    lay_out: Callable[[str, dict[str, str], Path, int], None]
    left: Callable[[str, dict[str, str], Path], int]


CONTENDERS = {
    "firnline": Contender("plan, probe, deletes, commit", lay_out_firnline, left_firnline),
    "delta-rs": Contender("open, vacuum(retention_hours=0)", lay_out_delta, left_delta),
}


@contextmanager
def places(work: Path) -> Iterator[dict[str, tuple[str, Path, dict[str, str]]]]:
    """Store -> (root URL without the table's name, its folder on disk, environment)."""
    (work / "disk").mkdir(parents=True)
    with S3Server(work / "s3") as server:
        yield {
            "S3": (server.url(), server.data_dir / server.bucket, server.env()),
            "local disk": (f"file://{work}/disk", work / "disk", {}),
        }


def once(
    name: str, base: str, env: dict[str, str], folder: Path, parts: int
) -> tuple[Usage, dict[str, object]]:
    """Lay a table out and clean it up in a process of its own."""
    table, contender = f"{name}-table", CONTENDERS[name]
    root = f"{base}/{table}"
    contender.lay_out(root, env, folder / table, parts)
    kept = {k: v for k, v in os.environ.items() if not k.startswith("AWS_")}
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.cleanup", "--run", name, "--root", root],
        env={**kept, **env},
        stdout=subprocess.PIPE,
        text=True,
    )
    with watched(process.pid) as usage:
        said, _ = process.communicate()
    if process.returncode:
        raise RuntimeError(f"{name} ended with code {process.returncode}")
    notes: dict[str, object] = json.loads(said)
    left = contender.left(root, env, folder / table)
    if left or notes["deleted"] != parts:
        raise RuntimeError(f"{name} deleted {notes['deleted']} of {parts} files, {left} are left")
    usage.seconds = float(str(notes.pop("seconds")))  # without the start of the interpreter
    shutil.rmtree(folder / table)
    return usage, notes


def compare(work: Path, parts: int, rounds: int) -> list[Figures]:
    """All contenders in turn, in each store; ``work`` is an empty folder, or made."""
    found: dict[tuple[str, str], Figures] = {}
    with places(work / "cleanup") as stores:
        for _ in range(rounds):
            for store, (base, folder, env) in stores.items():
                for name, contender in CONTENDERS.items():
                    label = f"{name}, {store}"
                    figures = found.setdefault((name, store), Figures(label, contender.what))
                    usage, figures.notes = once(name, base, env, folder, parts)
                    figures.rounds.append(usage)
                    print(f"  cleanup   {label:24s} {usage.seconds:6.2f} s", flush=True)
    shutil.rmtree(work / "cleanup")
    return list(found.values())


def main() -> None:
    """Measure and print; or, as a contender's process, run it once."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cleanup", description=__doc__)
    parser.add_argument("--parts", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--to", type=Path, help="write the figures there, as JSON")
    parser.add_argument("--run", choices=CONTENDERS, help=argparse.SUPPRESS)
    parser.add_argument("--root", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.run:
        run = run_firnline if given.run == "firnline" else run_delta
        print(json.dumps(run(given.root)))
        return
    loads = [load_average()]
    shutil.rmtree(WORK, ignore_errors=True)
    figures = compare(WORK, given.parts, given.rounds)
    loads.append(load_average())
    for one in figures:
        notes = ", ".join(f"{k} {v}" for k, v in one.notes.items())
        print(
            f"{one.name:24s} median {one.median:6.2f} s ({one.fastest:.2f} to {one.slowest:.2f}), "
            f"CPU {one.cpu:5.1f} s, peak {one.peak_mib:5.0f} MiB; {notes}"
        )
    print(f"{given.parts} parts, {given.rounds} rounds, load {min(loads):.1f} to {max(loads):.1f}")
    if given.to:
        rows = [one.as_json() for one in figures]
        text = json.dumps({"parts": given.parts, "load_average": loads, "figures": rows}, indent=1)
        given.to.write_text(text + "\n")


if __name__ == "__main__":
    main()
