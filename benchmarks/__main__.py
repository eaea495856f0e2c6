"""Every figure of docs/benchmarks.md: ``python -m benchmarks [sections] [--rounds N]``."""

from __future__ import annotations

import argparse
import json
import shutil
import zlib
from collections.abc import Callable
from pathlib import Path

import firnline
from benchmarks import against
from benchmarks.measure import Figures, load_average
from benchmarks.report import Report
from benchmarks.sections import SECTIONS
from benchmarks.sizes import FULL, SMALL, Bench, Sizes, changed

REPOSITORY = Path(__file__).parents[1]
CACHE = REPOSITORY / ".cache" / "bench"
Loads = tuple[float, float]


def parser() -> argparse.ArgumentParser:
    """What may be asked for."""
    made = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    made.add_argument("sections", nargs="*", type=_section, help="all of them without")
    made.add_argument("--rounds", type=int, default=5)
    made.add_argument("--to", type=Path, help="folder to write to; docs/ without")
    made.add_argument(
        "--again", action="store_true", help="write the pages again from the .json, measure nothing"
    )
    made.add_argument("--against", metavar="COMMIT", help="compare with the code of a commit")
    made.add_argument(
        "--small", action="store_true", help="as tests play them: the figures mean nothing"
    )
    made.add_argument(
        "--size", action="append", default=[], metavar="NAME=N", help="another one of a section"
    )
    made.add_argument("--cache", type=Path, help="folder of inputs and of the work, of these sizes")
    made.add_argument("--tables", type=Path, help="folder of tables that are kept; --cache without")
    made.add_argument("--figures", type=Path, help="write all of them there as JSON, and no pages")
    return made


def _section(name: str) -> str:
    """A section, whose words may be joined by hyphens."""
    found = name.replace("-", " ")
    if found not in SECTIONS:
        raise argparse.ArgumentTypeError(f"{name} is none of {', '.join(SECTIONS)}")
    return found


def main() -> None:
    """Run the sections asked for, and write each down; the others stay as they are."""
    given = parser().parse_args()
    wanted: list[str] = given.sections or list(SECTIONS)
    if given.again:
        Report(given.to or REPOSITORY / "docs").write()
        return
    sizes = changed(SMALL if given.small else FULL, given.size)
    cache: Path = (given.cache or _cache(sizes)).absolute()
    if given.against:
        asked = against.Asked(tuple(wanted), given.rounds, cache, given.small, tuple(given.size))
        raise SystemExit(against.compare(given.against, REPOSITORY, asked))
    tables = (given.tables or cache).absolute()
    bench = Bench(cache, tables, cache / "work", given.rounds, sizes)
    if given.figures:
        found: dict[str, object] = {"code": str(Path(firnline.__file__).parent)}
        _run(wanted, bench, lambda name, figures, _: found.update({name: _rounds(figures)}))
        given.figures.write_text(json.dumps(found))
        return
    if (given.small or given.size) and given.to is None:
        _run(wanted, bench, lambda _name, _figures, _loads: None)
        return
    _run(wanted, bench, Report(given.to or REPOSITORY / "docs").add)


def _cache(sizes: Sizes) -> Path:
    """A folder for each choice of sizes: what is kept there is known by its name alone."""
    return CACHE if sizes == FULL else CACHE / f"{zlib.crc32(repr(sizes).encode()):08x}"


def _run(
    wanted: list[str], bench: Bench, taken: Callable[[str, list[Figures], Loads], None]
) -> None:
    """Measure section after section, each in an empty folder."""
    for name in wanted:
        shutil.rmtree(bench.work, ignore_errors=True)
        bench.work.mkdir(parents=True)
        before = load_average()
        figures = SECTIONS[name](bench)
        taken(name, figures, (before, load_average()))
    shutil.rmtree(bench.work, ignore_errors=True)


def _rounds(found: list[Figures]) -> list[dict[str, object]]:
    """Every contender with its rounds, as ``against`` reads them."""
    return [
        {
            "name": one.name,
            "what": one.what,
            "notes": one.notes,
            "rounds": [(use.seconds, use.cpu_seconds, use.peak_bytes) for use in one.rounds],
        }
        for one in found
    ]


if __name__ == "__main__":
    main()
