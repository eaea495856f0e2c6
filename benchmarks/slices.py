"""One large group by one and by two Spark tasks, and what each of N tasks would read of 10 GiB.

    python -m benchmarks.slices [parts] [rows]      measures, and simulates
    python -m benchmarks.slices --plan              simulates only

The measured table has parts of many row groups: sorted by (event, ts), each over the whole range of
events, and by ts, in the order in which they arrived, which are merged into a sorted part and into
a z-order. Each is merged with one task and with two, on warm sessions of local[1] and local[2]. The
simulation cuts groups of generated row groups with the real planner; nothing is read or written.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import data
from benchmarks.measure import MIB, watched
from firnline.appends.append import Appender
from firnline.kernel.task import KernelResult, KernelTask
from firnline.log.txn_file import RunIdentity
from firnline.operations.merge.cutting import PartGroups, cut_into_slices, halvings_of
from firnline.operations.merge.run import run_merge
from firnline.operations.operation import Work
from firnline.operations.options import MergeOptions
from firnline.parquet.footers import RowGroupFacts
from firnline.settings.load import TableSettings
from firnline.spark.engine import SparkEngine
from firnline.spark.session import open_session
from firnline.table import Table, open_table
from firnline.types.values import Bounds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTS, ROWS = 8, 1_000_000
ROW_GROUP_ROWS = 131_072
ORDERS: dict[str, dict[str, Any]] = {
    "sorted, one range": {"sort_by": ["event", "ts"]},
    "by time of arrival": {"sort_by": ["ts"]},
    "z-order, by time of arrival": {
        "sort_by": ["ts"],
        "cluster_by": {"columns": ["user_id", "ts"], "method": "zorder", "run_size": "64GiB"},
    },
}
OUTPUTS = 8
"""Of a measured z-order."""
GIB = 1024 * MIB
WHOLE = 1_000_000
"""Range of the simulated keys."""


class Recorded(SparkEngine):
    """Keeps what each task cost."""

    def run(self, tasks: Sequence[KernelTask]) -> Iterator[KernelResult | None]:
        """See ``Engine.run``."""
        for result in super().run(tasks):
            if result is not None:
                costs.append(result)
            yield result


costs: list[KernelResult] = []


def _table(root: Path, order: dict[str, Any], size: int, split_above: int) -> Table:
    settings = {
        "name": "t",
        "root": f"file://{root}/t",
        **order,
        "merge": {
            "row_group_rows": ROW_GROUP_ROWS,
            "target_size": size // OUTPUTS if "cluster_by" in order else "4GiB",
            "split_above": split_above,
        },
    }
    return open_table(TableSettings.model_validate(settings), None)


def measure(parts: int, rows: int) -> None:
    """Merge each table with one task and with two, and print what it took."""
    for slots in (1, 2):
        session = open_session("slices", {"spark.log.level": "OFF"}, f"local[{slots}]")
        try:
            for name, order in ORDERS.items():
                _measure_one(session, f"{name}, local[{slots}]", order, parts, rows, slots)
        finally:
            session.stop()


def _measure_one(
    session: SparkSession, name: str, order: dict[str, Any], parts: int, rows: int, slots: int
) -> None:
    with tempfile.TemporaryDirectory(prefix="slices-") as folder:
        root = Path(folder)
        appender = Appender(_table(root, order, GIB, GIB))
        for number in range(parts):
            appender.append(data.make_table(number, rows))
        size = sum(path.stat().st_size for path in (root / "t/_data").rglob("*.parquet"))
        table = _table(root, order, size, size + MIB if slots == 1 else -(-size // 2))
        costs.clear()
        engine = Recorded(session, table.settings.root, None, str(root / "scratch"))
        engine.prepare()
        with watched(os.getpid()) as usage:
            report = run_merge(
                Work(table, RunIdentity(run_id="bench"), lambda: engine), MergeOptions()
            )
        read = ", ".join(f"{each.requests['bytes_in'] / MIB:.0f}" for each in costs)
        each = ", ".join(f"{one.seconds:.1f}" for one in costs)
        print(
            f"  {name:38s} {size / MIB:6.0f} MiB, {report.tasks} tasks: {usage.seconds:6.1f} s,"
            f" CPU {usage.cpu_seconds:6.1f} s; read MiB {read}; task s {each}"
        )
        shutil.rmtree(root / "t")


def simulate() -> None:
    """Print what each of N tasks reads of a group of 10 GiB."""
    print("  10 GiB: tasks wanted -> made, largest share of the bytes, bytes of all / 10 GiB")
    for name, parts in _groups().items():
        _simulate_one(name, parts, ("BIGINT",))
    print("  The same of a z-order of two columns, with two outputs for each task that is wanted")
    for name, parts in _z_ordered().items():
        _simulate_one(f"z-order: {name}", parts, ("BIGINT", "BIGINT"))


def _simulate_one(name: str, parts: Sequence[PartGroups], kinds: Sequence[str]) -> None:
    total = sum(part.bytes for part in parts)
    for wanted in (2, 4, 8, 16):
        halvings = None if len(kinds) == 1 else halvings_of(2 * wanted, len(kinds))
        found = cut_into_slices(parts, kinds, wanted, halvings)
        if not found:
            print(f"  {name:58s} {wanted:3d} -> 1")
            continue
        most = max(each.bytes for each in found) / total
        reads = sum(each.bytes for each in found) / total
        print(f"  {name:58s} {wanted:3d} -> {len(found):2d}, {most:6.1%}, {reads:5.2f}")


def _groups() -> dict[str, list[PartGroups]]:
    return {
        "20 sorted parts of 16 row groups": [_sorted(16, 32 * MIB, at * 1_000) for at in range(20)],
        "100 sorted parts of 3 row groups": [_sorted(3, 34 * MIB, at * 1_000) for at in range(100)],
        "three clustered runs of 7 parts": [
            _apart(at, 7, run) for run in range(3) for at in range(7)
        ],
        "100 parts in the order of arrival": [_apart(at, 100, 0, 1.2) for at in range(100)],
        "3,000 parts of one row group, whole range": [_sorted(1, int(3.4 * MIB), 0)] * 3_000,
    }


def _sorted(groups: int, size: int, shift: int) -> PartGroups:
    """A part over the whole range; its row groups follow each other."""
    step = WHOLE // groups
    bounds = [(number * step + shift, (number + 1) * step + shift) for number in range(groups)]
    facts = tuple(RowGroupFacts(1_000_000, size, ((low, high, 0),)) for low, high in bounds)
    return PartGroups(size * groups, facts)


def _apart(at: int, count: int, run: int, wide: float = 1.0) -> PartGroups:
    """A part with one of ``count`` neighbouring ranges, in ten row groups."""
    width = WHOLE * wide / count
    first = WHOLE * at / count + run * WHOLE / count / 3
    size = 10 * GIB // (10 * count * (1 if wide > 1 else 3))
    bounds = [(int(first + width * n / 10), int(first + width * (n + 1) / 10)) for n in range(10)]
    facts = tuple(RowGroupFacts(100_000, size, ((low, high, 0),)) for low, high in bounds)
    return PartGroups(10 * size, facts)


def _z_ordered() -> dict[str, list[PartGroups]]:
    arrived = [_apart(at, 100, 0, 1.2) for at in range(100)]
    return {
        "100 parts in the order of arrival": [_with_whole(part) for part in arrived],
        "three runs of 8 parts": [_box(at, run, 4) for run in range(3) for at in range(8)],
        "the same, in another order within parts": [
            _box(at, run, 0) for run in range(3) for at in range(8)
        ],
        "20 parts sorted by one column": [
            _with_whole(_sorted(16, 32 * MIB, at * 1_000)) for at in range(20)
        ],
        "3,000 parts over the whole range": [_with_whole(_sorted(1, int(3.4 * MIB), 0))] * 3_000,
    }


def _with_whole(part: PartGroups) -> PartGroups:
    """The same part with the whole range of a second column in each row group."""
    facts = [
        RowGroupFacts(each.rows, each.bytes, (*each.bounds, (0, WHOLE, 0)))
        for each in part.row_groups
    ]
    return PartGroups(part.bytes, tuple(facts))


def _box(at: int, run: int, bits: int) -> PartGroups:
    """A part of a run of 8 in a z-order; its ``2**bits`` row groups go on in that order."""
    count = 1 << bits
    size = 10 * GIB // (24 * count)
    boxes = [_cell(at * count + number, 3 + bits, run * WHOLE // 100) for number in range(count)]
    return PartGroups(size * count, tuple(RowGroupFacts(100_000, size, box) for box in boxes))


def _cell(at: int, bits: int, shift: int) -> tuple[Bounds, Bounds]:
    """The box of one of ``2**bits`` values of a z-order; each run has somewhat other cut points."""
    ends: list[Bounds] = []
    for column in (0, 1):
        own = [bits - 1 - number for number in range(column, bits, 2)]
        rank = sum((at >> bit & 1) << (len(own) - 1 - level) for level, bit in enumerate(own))
        width = WHOLE // (1 << len(own))
        ends.append((rank * width + shift, (rank + 1) * width + shift, 0))
    return ends[0], ends[1]


def main() -> None:
    """Run what the arguments ask for."""
    arguments = [each for each in sys.argv[1:] if each != "--plan"]
    if "--plan" not in sys.argv:
        parts, rows = (*map(int, arguments), *(PARTS, ROWS)[len(arguments) :])
        measure(parts, rows)
    simulate()


if __name__ == "__main__":
    main()
