"""Every figure of docs/benchmarks.md: ``python -m benchmarks [sections] [--rounds N]``."""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Callable
from pathlib import Path

from benchmarks import (
    appender,
    bloom,
    cleanup,
    cluster,
    cold,
    drop,
    erase,
    lazy,
    memory,
    merge,
    mirror,
    policy,
    proof,
    read,
    replace,
    small,
    snapshot,
)
from benchmarks.measure import MIB, Figures, Usage, load_average
from benchmarks.report import Report

REPOSITORY = Path(__file__).parents[1]
CACHE = REPOSITORY / ".cache" / "bench"
CLEANED = 100_000
"""Dead parts of a clean-up."""


def main() -> None:
    """Run the sections asked for, and write each down; the others stay as they are."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("sections", nargs="*", choices=[*SECTIONS, []], help="all of them without")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--to", type=Path, default=REPOSITORY / "docs", help="folder to write to")
    parser.add_argument(
        "--again", action="store_true", help="write the pages again from the .json, measure nothing"
    )
    given = parser.parse_args()
    wanted = given.sections or list(SECTIONS)
    report, work = Report(given.to), CACHE / "work"
    if given.again:
        report.write()
        return
    for name in wanted:
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        before = load_average()
        found = SECTIONS[name](work, given.rounds)
        report.add(name, found, (before, load_average()))
    shutil.rmtree(work, ignore_errors=True)


def _snapshot(rounds: int) -> list[Figures]:
    """All readers of a log of a million parts."""
    what = {
        "firnline": "msgspec, two phases, all checks",
        "checkpoint": "from a checkpoint: parts, rows and bytes, by column",
        "markers": "from a checkpoint, and every part's marker",
        "json": "the standard library's json module, no checks",
        "checked": "the same with firnline's checks of checksums and paths",
    }
    found = snapshot.measure(snapshot.make_log(CACHE / "snapshot"), rounds)
    figures = []
    for name, results in found.items():
        usages = [Usage(r["seconds"], r["cpu"], int(r["peak_mb"] * MIB)) for r in results]
        figures.append(Figures(name, what[name], usages))
        print(f"  snapshot  {name:20s} {figures[-1].median:6.2f} s")
    return figures


def _appender(work: Path, rounds: int) -> list[Figures]:
    """Rows through an Appender, and what a SIGKILL loses."""
    figures = []
    for name, results in appender.measure(work / "appender", rounds).items():
        if name.startswith("SIGKILL"):
            told = ", ".join(f"{count:,} {what}" for what, count in results[0].items())
            figures.append(Figures(name, told.replace("_", " "), [Usage()]))
            continue
        usages = [Usage(r["seconds"], 0, int(r["peak_mb"] * MIB)) for r in results]
        rate = round(results[0]["rows"] / sorted(r["seconds"] for r in results)[len(results) // 2])
        notes = {"rows": results[0]["rows"], "rows_per_s": rate, "flushes": results[0]["flushes"]}
        if "requests" in results[0]:
            notes["requests"] = results[0]["requests"]
        figures.append(Figures(name, "", usages, notes))
        print(f"  appender  {name:60s} {rate:>12,} rows/s")
    return figures


def _drop(_work: Path, rounds: int) -> list[Figures]:
    """Drops and TTLs of a table of a million parts."""
    figures = []
    for name, results in drop.measure(rounds).items():
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


SECTIONS: dict[str, Callable[[Path, int], list[Figures]]] = {
    "sorted": lambda work, rounds: merge.compare("sorted", CACHE, work, rounds),
    "sorted parts": lambda work, rounds: merge.compare("sorted parts", CACHE, work, rounds),
    "unsorted": lambda work, rounds: merge.compare("unsorted", CACHE, work, rounds),
    "cold": lambda work, rounds: cold.compare(CACHE, work, rounds),
    "small": lambda work, rounds: small.compare(CACHE, work, rounds),
    "memory": lambda work, _rounds: [
        memory.measure(CACHE, work),
        memory.measure(CACHE, work, sort=False, cluster="range"),
        memory.measure(CACHE, work, sort=False, cluster="zorder"),
    ],
    "proof": lambda work, rounds: proof.compare(CACHE, work, rounds),
    "snapshot": lambda _work, rounds: _snapshot(rounds),
    "cleanup": lambda _work, rounds: cleanup.compare(CLEANED, rounds),
    "drop": _drop,
    "lazy": lambda _work, rounds: lazy.compare(rounds),
    "appender": _appender,
    "cluster": lambda work, _rounds: cluster.compare(work),
    "bloom": lambda work, _rounds: bloom.compare(work),
    "read": read.compare,
    "mirror": lambda work, rounds: mirror.compare(CACHE, work, min(rounds, 3)),
    "erase": lambda _work, rounds: erase.compare("spread", 100, rounds, erase.KEYS),
    "replace": lambda _work, rounds: replace.compare(replace.ROWS, min(rounds, 3)),
    "policy": lambda _work, _rounds: policy.compare(),
    "erase few": lambda _work, rounds: erase.compare("few", 100, rounds, erase.KEYS),
}

if __name__ == "__main__":
    main()
