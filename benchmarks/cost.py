"""What a large fleet costs: requests, dollars, bytes of log and memory, and what breaks first.

    python -m benchmarks.cost [--parts 100000000] [--appends 10000] [--tables 1000] [--reads 1000]
        [--put 5e-6] [--get 4e-7] [--sizes 100000,300000,1000000,3000000,5000000]

Two fleets with the same parts and appends: all in one table, and spread evenly over many tables.
Nothing is guessed but the prices, which are arguments:

* requests are those that the real appender, merge, clean-up and reader send to a real folder in an
  hour of a table; kernels are replaced by one that only names its outputs, because their requests
  (a GET for each input, a PUT for each output) are known;
* bytes, CPU and memory are of processes that read generated logs of ``--sizes`` parts with the
  real codec: in full, as a commit does, and by a checkpoint, as a reader does. They are fitted by a
  line through the last two sizes, which is shown beside them, and extrapolated by it.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from benchmarks import snapshot
from firnline.appends.append import Appender
from firnline.clock import Clock, SystemClock
from firnline.ids import SystemIds
from firnline.kernel.task import KernelResult, KernelTask
from firnline.log.txn_file import RunIdentity
from firnline.operations.cleanup.run import run_cleanup
from firnline.operations.merge.run import run_merge
from firnline.operations.operation import Work
from firnline.operations.options import CleanupOptions, MergeOptions
from firnline.parquet.part import WrittenPart
from firnline.settings.load import settings_for_root
from firnline.state.snapshot import read_snapshot
from firnline.table import Table, open_table
from firnline.units import about_size
from tools.bootstrap import REPO

CACHE = REPO / ".cache" / "bench" / "cost"
SIZES = (100_000, 300_000, 1_000_000, 3_000_000, 5_000_000)
HOURS_A_MONTH = 730
DRIVER = 16 * 2**30
"""Memory of a driver that is easily had: the limit for the question what breaks first."""
_IDENTITY = RunIdentity(dag_id="merge__t", run_id="cost", try_number=1)


@dataclass(frozen=True)
class NamingEngine:
    """Stands for kernels: an output of the size of the inputs, of which only the name exists."""

    ids: SystemIds
    clock: Clock

    @property
    def application_id(self) -> str:
        return ""

    def run(self, tasks: Sequence[KernelTask]) -> Iterator[KernelResult | None]:
        for task in tasks:
            rows = sum(source.rows or 0 for source in task.inputs)
            part = WrittenPart(
                key=f"{task.data_prefix}{self.ids.uuid7(self.clock.now_ms())}.parquet",
                partition=task.partition,
                bytes=sum(source.bytes for source in task.inputs),
                rows=rows,
                stats={},
            )
            requests = {"get": len(task.inputs), "put": 1}
            yield KernelResult(group=task.group, parts=(part,), rows_in=rows, requests=requests)


# --- an hour of a table ---------------------------------------------------------------------------


@dataclass
class Hour:
    """Requests of an hour in which a table gets so many appends."""

    appends: int
    requests: dict[str, Counter[str]] = field(default_factory=dict)
    """By actor: all its appends, one merge, the share of a clean-up a day, one read."""


def measure_hour(appends: int, folder: Path) -> Hour:
    """Play an hour on a real folder: appends, a merge, a clean-up, a read."""
    table = _table(folder / "t")
    hour = Hour(appends)
    appender = Appender(table)
    rows = pa.table({"id": [1]})
    appender.append(rows)  # the first one of a process looks at the table
    with _counted(hour, "appends", table):
        for _ in range(appends):
            appender.append(rows)
    clock = SystemClock()
    with _counted(hour, "merge", table):
        run_merge(Work(table, _IDENTITY, lambda: NamingEngine(SystemIds(), clock)), MergeOptions())
    with _counted(hour, "read", table):
        read_snapshot(table.store, table.paths)
    time.sleep(_GRACE_S)
    with _counted(hour, "clean-up", table):
        run_cleanup(Work(table, _IDENTITY), CleanupOptions())
    return hour


_GRACE_S = 1.1


def _table(folder: Path) -> Table:
    plain = settings_for_root(f"file://{folder}")
    merge = plain.merge.model_copy(update={"min_inputs": 2})
    cleanup = plain.cleanup.model_copy(update={"grace": 1_000})
    return open_table(plain.model_copy(update={"merge": merge, "cleanup": cleanup}))


@contextmanager
def _counted(hour: Hour, name: str, table: Table) -> Iterator[None]:
    """Add the requests of a block to an hour."""
    before = Counter(table.store.counters.as_dict())
    yield
    found = Counter(table.store.counters.as_dict())
    found.subtract(before)
    hour.requests[name] = +found


# --- logs of many parts ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Reading:
    """One way to read a log of so many parts."""

    parts: int
    bytes: int
    seconds: float
    peak: int
    """Bytes of memory of the process."""


def measure_reading(parts: int) -> dict[str, Reading]:
    """Read a generated log in full, and by a checkpoint, each in a process of its own."""
    folder = CACHE / str(parts)
    merged, rest = divmod(parts, 90_000)
    table = snapshot.make_log(folder, [90_000] * merged + [100] * (rest // 100))
    found = {}
    for name, files in (("firnline", "_log"), ("checkpoint", "_ckpt")):
        command = [sys.executable, "-m", "benchmarks.snapshot", name, str(table)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        told = json.loads(done.stdout)
        size = sum(path.stat().st_size for path in (table / files).iterdir())
        peak = int(told["peak_mb"] * 2**20)
        found[name] = Reading(int(told["parts"]), size, told["cpu"], peak)
    return found


@dataclass(frozen=True)
class Line:
    """A line through two measurements."""

    base: float
    each: float

    @classmethod
    def through(cls, first: tuple[int, float], second: tuple[int, float]) -> Line:
        each = (second[1] - first[1]) / (second[0] - first[0])
        return cls(first[1] - each * first[0], each)

    def at(self, parts: int) -> float:
        return self.base + self.each * parts


def fit(readings: Sequence[Reading], what: str) -> Line:
    """Return the growth of ``bytes``, ``seconds`` or ``peak`` over the last two sizes."""
    first, second = readings[-2:]
    return Line.through(
        (first.parts, float(getattr(first, what))), (second.parts, float(getattr(second, what)))
    )


_WAYS = {"firnline": "in full, as commits do", "checkpoint": "by a checkpoint, as readers do"}


# --- what it comes to -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Prices:
    """Dollars for a request."""

    put: float
    get: float

    def of(self, requests: Counter[str]) -> float:
        """Return dollars; PUT and LIST have one price, DELETE none."""
        dear = requests["put"] + requests["list"]
        return dear * self.put + (requests["get"] + requests["head"]) * self.get


def month_of(hour: Hour, tables: int, reads: int) -> dict[str, Counter[str]]:
    """Return the requests of a month of all tables: merges hourly, clean-ups daily."""
    times = {"appends": 1.0, "merge": 1.0, "clean-up": 1 / 24, "read": reads / tables}
    return {
        name: Counter({k: round(n * times[name] * tables * HOURS_A_MONTH) for k, n in each.items()})
        for name, each in hour.requests.items()
    }


def show_fleet(title: str, hour: Hour, tables: int, reads: int, prices: Prices) -> None:
    """Print the requests and the dollars of a month."""
    print(f"\n{title}\n")
    print("| a month of | LIST | GET | PUT | DELETE | dollars |")
    print("| --- | --- | --- | --- | --- | --- |")
    total = 0.0
    for name, requests in month_of(hour, tables, reads).items():
        dollars = prices.of(requests)
        total += dollars
        counts = " | ".join(f"{requests[k] / 1e6:,.2f} M" for k in ("list", "get", "put", "delete"))
        print(f"| {name} | {counts} | {dollars:,.2f} |")
    print(f"| all | | | | | {total:,.2f} |")


def show_readings(found: dict[str, list[Reading]], parts: Sequence[int]) -> None:
    """Print what was read, the growth, and what it comes to with more parts."""
    print("\n| parts | way | log read | CPU s | memory |")
    print("| --- | --- | --- | --- | --- |")
    for way, readings in found.items():
        name = _WAYS[way]
        for one in readings:
            print(_row(one.parts, name, one.bytes, one.seconds, one.peak))
        lines = {what: fit(readings, what) for what in ("bytes", "seconds", "peak")}
        for count in parts:
            if count <= readings[-1].parts:
                continue  # it was measured
            values = [lines[what].at(count) for what in ("bytes", "seconds", "peak")]
            print(_row(count, f"{name}, extrapolated", *values))
        most = (DRIVER - lines["peak"].base) / lines["peak"].each
        print(f"| {most:,.0f} | {name}: most parts in {about_size(DRIVER)} | | | |")


def _row(parts: int, name: str, size: float, seconds: float, peak: float) -> str:
    log, memory = about_size(int(size)), about_size(int(peak))
    return f"| {parts:,} | {name} | {log} | {seconds:,.1f} | {memory} |"


def main(arguments: Sequence[str]) -> int:
    """Measure and print; return the exit code."""
    given = _parser().parse_args(arguments)
    prices = Prices(given.put, given.get)
    sizes = [int(text) for text in given.sizes.split(",")]
    readings: dict[str, list[Reading]] = {"firnline": [], "checkpoint": []}
    for size in sizes:
        for name, one in measure_reading(size).items():
            readings[name].append(one)
    for tables in (1, given.tables):
        with tempfile.TemporaryDirectory() as place:
            hour = measure_hour(given.appends // tables, Path(place))
        title = f"{given.appends:,} appends and {given.reads:,} reads an hour, {tables:,} table(s)"
        show_fleet(title, hour, tables, given.reads, prices)
    show_readings(readings, [given.parts // given.tables, given.parts])
    if not given.keep:
        shutil.rmtree(CACHE)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.cost",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--parts", type=int, default=100_000_000)
    parser.add_argument("--appends", type=int, default=10_000, help="an hour, over all tables")
    parser.add_argument("--tables", type=int, default=1_000)
    parser.add_argument("--reads", type=int, default=1_000, help="an hour, over all tables")
    parser.add_argument("--put", type=float, default=5e-6, help="dollars for a PUT or LIST")
    parser.add_argument("--get", type=float, default=4e-7, help="dollars for a GET")
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)), help="parts to measure with")
    parser.add_argument("--keep", action="store_true", help="keep the logs that were generated")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
