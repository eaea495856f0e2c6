"""Every figure of docs/benchmarks.md: ``python -m benchmarks [sections] [--rounds N]``."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from benchmarks import memory, merge, small, snapshot
from benchmarks.measure import MIB, Figures, Usage, load_average
from benchmarks.report import Report

REPOSITORY = Path(__file__).parents[1]
CACHE = REPOSITORY / ".cache" / "bench"
SECTIONS = ("sorted", "unsorted", "small", "memory", "snapshot")


def main() -> None:
    """Run the sections asked for; a part of them is printed and not written down."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("sections", nargs="*", choices=[*SECTIONS, []], help="all of them without")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--to", type=Path, default=REPOSITORY / "docs", help="folder to write to")
    given = parser.parse_args()
    wanted = given.sections or list(SECTIONS)
    report, work = Report(given.rounds), CACHE / "work"
    for name in wanted:
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        report.loads.append(load_average())
        if name in ("sorted", "unsorted"):
            report.sections[name] = merge.compare(name, CACHE, work, given.rounds)
        elif name == "small":
            report.sections[name] = small.compare(CACHE, work, given.rounds)
        elif name == "memory":
            report.sections[name] = [memory.measure(CACHE, work)]
        else:
            report.sections[name] = _snapshot(given.rounds)
        report.loads.append(load_average())
    shutil.rmtree(work, ignore_errors=True)
    report.write(given.to)


def _snapshot(rounds: int) -> list[Figures]:
    """All readers of a log of a million parts."""
    what = {
        "firnline": "msgspec, two phases, all checks",
        "json": "the standard library's json module, no checks",
        "checked": "the same with firnline's checks of checksums and paths",
    }
    found = snapshot.measure(snapshot.make_log(CACHE / "snapshot"), rounds)
    figures = []
    for name, results in found.items():
        usages = [Usage(r["seconds"], r["seconds"], int(r["peak_mb"] * MIB)) for r in results]
        figures.append(Figures(name, what[name], usages))
        print(f"  snapshot  {name:20s} {figures[-1].median:6.2f} s")
    return figures


if __name__ == "__main__":
    main()
