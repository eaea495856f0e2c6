"""Reading the state of a table with a million live parts: from its JSONL log, and a checkpoint.

Against two readers that use the standard library's json module on the same files: one that only
does the two phases, and one that also refuses what we refuse (a wrong checksum, a part outside the
table). Each measurement is a process of its own:

    python -m benchmarks.snapshot [runs]      all, interleaved, as a table
    python -m benchmarks.snapshot firnline|checkpoint|markers|json|checked FOLDER     one, as JSON

``checkpoint`` counts and sums the live parts, as ``firnline snapshot`` does; ``markers`` reads the
same checkpoint and makes the marker of every part. Both include the import of Arrow.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.measure import MIB, Figures, Usage, run_json
from benchmarks.sizes import FULL, Bench
from firnline.ids import format_uuid7
from firnline.log import codec
from firnline.log.parts_view import totals
from firnline.log.records import LogContent, Marker, stats_json
from firnline.paths import TablePaths
from firnline.state.snapshot import read_snapshot
from firnline.store.client import open_store
from tools.memory import peak_mib

ABOVE = 2**62
"""Bytes of log that no table has: its reader never looks for a checkpoint."""
START_MS = 1_767_225_600_000
SCHEMA = {"event": "VARCHAR", "ts": "TIMESTAMP WITH TIME ZONE", "value": "DOUBLE"}


def make_log(folder: Path, files: Sequence[int]) -> Path:
    """The table folder ``t`` under ``folder``; written once.

    Args:
        folder: where it is made.
        files: parts in each log file.
    """
    table = folder / "t"
    logs = table / "_log"
    done = folder / "complete"
    if done.exists():
        return _with_checkpoint(table)
    logs.mkdir(parents=True, exist_ok=True)
    paths, number = TablePaths("t"), 0
    for index, count in enumerate(files):
        t = START_MS + index * 1000
        markers = [_marker(paths, number + i, t, merged=count > 100) for i in range(count)]
        number += count
        key = paths.append_log(t, f"host-{format_uuid7(t, index)}")
        content = LogContent(t=t, schema=SCHEMA, markers=markers)
        (logs / Path(key).name).write_bytes(codec.encode(content))
    done.touch()
    return _with_checkpoint(table)


def _with_checkpoint(table: Path) -> Path:
    """One checkpoint of all log files; written once, in a process that keeps its memory."""
    if not (table / "_ckpt").exists():
        from firnline.commit import checkpoint
        from firnline.settings.load import settings_for_root
        from firnline.table import open_table

        opened = open_table(settings_for_root(f"file://{table}"))
        checkpoint.write(opened, read_snapshot(opened.store, opened.paths, everything=True))
    return table


def _marker(paths: TablePaths, number: int, t: int, *, merged: bool) -> Marker:
    day = f"ts_day=2026-01-{number % 28 + 1:02d}"
    bounds = ("2026-01-01T00:00:00.000000Z", "2026-01-01T23:59:59.999999Z", 0)
    return Marker(
        p=paths.data_part(day, format_uuid7(t, number * 0x9E3779B97F4A7C15 % 2**74)),
        b=1_000_000 + number,
        t=t,
        n=10_000,
        q=0,
        o=(t - 3_600_000, t) if merged else None,  # as a merge and as an append write it
        s=stats_json({"event": ("event_000", "event_199", 0), "ts": bounds}),
    )


def read_firnline(table: Path) -> int:
    """Live parts by our reader."""
    store = open_store(f"file://{table}")
    return len(read_snapshot(store, TablePaths(table.name), checkpoint_above=ABOVE).live)


def read_checkpoint(table: Path) -> int:
    """Live parts by a checkpoint, with their rows and bytes."""
    live = read_snapshot(open_store(f"file://{table}"), TablePaths(table.name)).live
    found = totals(live)
    if found.rows != 10_000 * found.parts:
        raise ValueError(f"{found} are not the rows of the table")
    return found.parts


def read_markers(table: Path) -> int:
    """Live parts by a checkpoint, each with its marker, none of which is kept."""
    live = read_snapshot(open_store(f"file://{table}"), TablePaths(table.name)).live
    return sum(marker.tmb is None for marker in live.values())


def read_json(table: Path) -> int:
    """Live parts by the standard library's json module, in the same two phases."""
    parts: dict[str, dict[str, Any]] = {}
    for file in sorted((table / "_log").iterdir()):
        lines = file.read_bytes().split(b"\n")
        for line in lines[json.loads(lines[0])["f"] :]:
            marker = json.loads(line)
            known = parts.get(marker["p"])
            if known is None or "tmb" in marker:
                parts[marker["p"]] = marker
    return sum(1 for marker in parts.values() if "tmb" not in marker)


def read_checked(table: Path) -> int:
    """As ``read_json``, with the checks that firnline makes."""
    parts: dict[str, dict[str, Any]] = {}
    for file in sorted((table / "_log").iterdir()):
        data = file.read_bytes()
        head, schema, seal, tail = data.split(b"\n", 3)
        stated = json.loads(seal)["sum"]["crc32"]
        if stated != zlib.crc32(tail, zlib.crc32(head + b"\n" + schema)):
            raise ValueError(f"{file} has another checksum")
        for line in data.split(b"\n")[json.loads(head)["f"] :]:
            marker = json.loads(line)
            path = marker["p"]
            segments = path.split("/")
            if not path.startswith(f"{table.name}/_data/") or not path.isprintable():
                raise ValueError(f"{path} is outside of the table")
            if any(segment in ("", ".", "..") for segment in segments):
                raise ValueError(f"{path} is no path")
            known = parts.get(path)
            if known is not None and known["b"] != marker["b"]:
                raise ValueError(f"{path} has two sizes")
            if known is None or "tmb" in marker:
                parts[path] = marker
    return sum(1 for marker in parts.values() if "tmb" not in marker)


WHAT = {
    "firnline": "msgspec, two phases, all checks",
    "checkpoint": "from a checkpoint: parts, rows and bytes, by column",
    "markers": "from a checkpoint, and every part's marker",
    "json": "the standard library's json module, no checks",
    "checked": "the same with firnline's checks of checksums and paths",
}
READERS = {
    "firnline": read_firnline,
    "checkpoint": read_checkpoint,
    "markers": read_markers,
    "json": read_json,
    "checked": read_checked,
}


def measure_here(reader: str, table: Path) -> dict[str, float]:
    """One measurement in this process: seconds (and of the CPU), peak memory in MB, parts found."""
    began, cpu = time.perf_counter(), time.process_time()
    parts = READERS[reader](table)
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    peak = peak_mib()
    return {"seconds": seconds, "cpu": cpu, "peak_mb": peak, "parts": parts}


def measure(table: Path, runs: int) -> dict[str, list[dict[str, float]]]:
    """All readers, interleaved, ``runs`` times each, every time in a fresh process."""
    found: dict[str, list[dict[str, float]]] = {name: [] for name in READERS}
    for _ in range(runs):
        for name, results in found.items():
            command = [sys.executable, "-m", "benchmarks.snapshot", name, str(table)]
            results.append(run_json(command, {}))
    return found


def compare(bench: Bench) -> list[Figures]:
    """All readers of a log. Raises RuntimeError: one finds another number of live parts."""
    files = bench.sizes.snapshot_files
    figures = []
    for name, results in measure(make_log(bench.tables / "snapshot", files), bench.rounds).items():
        if {result["parts"] for result in results} != {sum(files)}:
            raise RuntimeError(f"{name} finds {results} of {sum(files)} parts")
        usages = [Usage(r["seconds"], r["cpu"], int(r["peak_mb"] * MIB)) for r in results]
        figures.append(Figures(name, WHAT[name], usages))
        print(f"  snapshot  {name:20s} {figures[-1].median:6.2f} s")
    return figures


def main(arguments: list[str]) -> None:
    """See the module's docstring."""
    if arguments and arguments[0] in READERS:
        print(json.dumps(measure_here(arguments[0], Path(arguments[1]))))
        return
    table = make_log(Path(".cache/bench/snapshot").resolve(), FULL.snapshot_files)
    for name, results in measure(table, int(arguments[0]) if arguments else 5).items():
        seconds = [result["seconds"] for result in results]
        print(
            f"{name:10} median {statistics.median(seconds):6.2f} s  min {min(seconds):6.2f} s  "
            f"CPU {statistics.median(r['cpu'] for r in results):6.2f} s  "
            f"max {max(seconds):6.2f} s  peak {max(r['peak_mb'] for r in results):5.0f} MB  "
            f"{results[0]['parts']:.0f} live parts"
        )


if __name__ == "__main__":
    main(sys.argv[1:])
