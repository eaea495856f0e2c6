# ruff: noqa: S608 -- SQL over files that the benchmark has just made
"""Many partitions of three tiny parts: what a group costs, whatever is in it.

python -m benchmarks.many NAME      one contender, which answers line by line

Each partition has three sorted parts of 20 rows, which become one sorted part, on local disk. A
process of its own each, warm, as in ``benchmarks.merge``; firnline plans, merges and commits all
groups in one run.
"""

from __future__ import annotations

import os
import shutil
import statistics
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from benchmarks import data
from benchmarks.contenders import LEVEL, ROW_GROUP, THREADS, Contender, Notes, serve
from benchmarks.data import SORT
from benchmarks.measure import Figures
from benchmarks.merge import Player, lay_out
from benchmarks.sizes import Bench
from firnline.kernel.engine import Engine
from firnline.log.txn_file import RunIdentity
from firnline.operations.merge.run import run_merge
from firnline.operations.operation import Work
from firnline.operations.options import MergeOptions
from firnline.settings.load import TableSettings
from firnline.store.access import StoreAccess
from firnline.table import Table, open_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTS, ROWS = 3, 20
_SETTINGS = {
    "name": "many",
    "partition": "p=(?P<p>[0-9]+)",
    "sort_by": list(SORT),
    "merge": {"min_inputs": 2, "compression_level": LEVEL, "row_group_rows": ROW_GROUP},
}


def compare(bench: Bench) -> list[Figures]:
    """One warm-up each, then ``rounds`` in turn, for each number of groups."""
    return [figures for groups in bench.sizes.many_groups for figures in _of(groups, bench)]


def _of(groups: int, bench: Bench) -> list[Figures]:
    folder, work = bench.cache / "many", bench.work / str(groups)
    files = data.make(folder, groups * PARTS, ROWS, in_order=True)
    laid_out = work / "laid-out"
    work.mkdir()
    lay_out(f"file://{laid_out}", None, files, groups)
    with ExitStack() as stack:
        players = []
        for number, (name, (what, _)) in enumerate(CONTENDERS.items()):
            env = {"BENCH_LAID_OUT": str(laid_out), "BENCH_WORK": str(work / f"{number}")}
            title = f"{name}, {groups:,} groups"
            player = Player(title, what, ["benchmarks.many", name], env)
            stack.callback(player.close)
            players.append(player)
        for done in range(bench.rounds + 1):
            for player in players[:: 1 if done % 2 else -1]:
                player.round(counts=done > 0)
        return [_per_group(player.figures, groups) for player in players]


def _per_group(figures: Figures, groups: int) -> Figures:
    """State what a group costs. Raises RuntimeError: not all of them became one part."""
    rows = groups * PARTS * ROWS
    if (figures.notes["files_out"], figures.notes["rows"]) != (groups, rows):
        raise RuntimeError(f"{figures.name} has made {figures.notes} of {groups} groups")
    cpu = statistics.median(one.cpu_seconds for one in figures.rounds)
    figures.notes["ms_a_group"] = round(1000 * figures.median / groups, 2)
    figures.notes["cpu_ms_a_group"] = round(1000 * cpu / groups, 2)
    print(f"  many      {figures.name:36s} {figures.median:6.2f} s {figures.notes}", flush=True)
    return figures


# --- contenders -----------------------------------------------------------------------------------


class Copied:
    """A copy of the table for each round: its files are never changed, so links do."""

    def __init__(self) -> None:
        self.laid_out = Path(os.environ["BENCH_LAID_OUT"])
        self.work = Path(os.environ["BENCH_WORK"])
        self.table = self.work / self.laid_out.name

    def prepare(self) -> None:
        shutil.rmtree(self.work, ignore_errors=True)
        shutil.copytree(self.laid_out, self.table, copy_function=os.link)

    def close(self) -> None:
        shutil.rmtree(self.work, ignore_errors=True)


class Firnline(Copied):
    """One run of a merge, on an engine that is made once."""

    def __init__(self, engine: Callable[[Table, Path], Engine]) -> None:
        super().__init__()
        settings = TableSettings.model_validate({**_SETTINGS, "root": f"file://{self.table}"})
        self._open: Callable[[], Table] = lambda: open_table(settings, StoreAccess())
        self._engine = engine(self._open(), self.work / "scratch")

    def run(self) -> Notes:
        work = Work(self._open(), RunIdentity(run_id="bench"), lambda: self._engine)
        counts = run_merge(work, MergeOptions()).counts
        return {
            "files_out": counts.parts_out,
            "bytes_out": counts.bytes_out,
            "rows": counts.rows_out,
        }


def _local(table: Table, scratch: Path) -> Engine:
    from firnline.operations.local import local_engine

    return local_engine(table, scratch)


class OnSpark(Firnline):
    """The same on a warm session."""

    def __init__(self) -> None:
        from firnline.spark.engine import SparkEngine
        from firnline.spark.session import open_session

        self.session: SparkSession = open_session(
            "bench", {"spark.log.level": "OFF"}, f"local[{THREADS}]"
        )
        super().__init__(
            lambda table, scratch: SparkEngine(
                self.session, table.settings.root, table.access, str(scratch)
            )
        )

    def close(self) -> None:
        self.session.stop()
        super().close()


class GroupByGroup(Copied):
    """A library that is given the paths of each group, and where its one file goes."""

    def __init__(self, merge: Callable[[list[str], str], None]) -> None:
        super().__init__()
        self.merge = merge

    def run(self) -> Notes:
        import pyarrow.parquet as pq

        out = self.work / "out"
        out.mkdir()
        for folder in sorted((self.table / "_data").iterdir()):
            paths = [str(path) for path in sorted(folder.iterdir())]
            self.merge(paths, str(out / f"{folder.name}.parquet"))
        written = list(out.iterdir())
        return {
            "files_out": len(written),
            "bytes_out": sum(path.stat().st_size for path in written),
            "rows": sum(pq.read_metadata(path).num_rows for path in written),
        }


def _duckdb() -> Contender:
    import duckdb

    connection = duckdb.connect(config={"threads": THREADS})

    def merge(paths: list[str], out: str) -> None:
        connection.execute(
            f"COPY (SELECT * FROM read_parquet({paths!r}, hive_partitioning = false)"
            f" ORDER BY {', '.join(SORT)}) TO '{out}' (FORMAT parquet, COMPRESSION zstd,"
            f" COMPRESSION_LEVEL {LEVEL}, ROW_GROUP_SIZE {ROW_GROUP})"
        )

    return GroupByGroup(merge)


def _polars() -> Contender:
    import polars as pl

    def merge(paths: list[str], out: str) -> None:
        pl.read_parquet(paths, hive_partitioning=False).sort(*SORT).write_parquet(
            out, compression="zstd", compression_level=LEVEL, row_group_size=ROW_GROUP
        )

    return GroupByGroup(merge)


CONTENDERS: Mapping[str, tuple[str, Callable[[], Contender]]] = MappingProxyType(
    {
        "firnline": ("firnline's own engine, with plan and commit", lambda: Firnline(_local)),
        "firnline, Spark": ("Spark local[2] warm, with plan and commit", OnSpark),
        "DuckDB": ("a COPY for each group, on an open connection", _duckdb),
        "Polars": ("a read, sort and write for each group", _polars),
    }
)


if __name__ == "__main__":
    serve(CONTENDERS[sys.argv[1]][1])
