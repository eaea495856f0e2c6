"""The unsorted merge of 10 M rows by whole processes on local disk, from their start to their end.

python -m benchmarks.cold NAME FOLDER FILE...      one contender, as the process that is measured
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow.parquet as pq

from benchmarks import binpack, data
from benchmarks.contenders import GROUPS, LEVEL, ORIGINAL, ROW_GROUP, THREADS
from benchmarks.measure import Figures, run_process
from benchmarks.merge import lay_out
from benchmarks.sizes import Bench
from tools.sparkreaders import PYSPARK

JOB = Path(__file__).parents[1] / "spark_jobs" / "merge.py"


def compare(bench: Bench) -> list[Figures]:
    """Cold processes, in turn; what comes before a merge (a table of the files) does not count."""
    from firnline.spark.archive import make_archive

    make_archive()
    sizes, work = bench.sizes, bench.work
    files = data.make(bench.cache / "merge", sizes.merge_files, sizes.merge_rows)
    rows = sizes.merge_files * sizes.merge_rows
    found = {name: Figures(name, what) for name, (what, _) in CONTENDERS.items()}
    for _ in range(bench.rounds):
        for name, figures in found.items():
            shutil.rmtree(work, ignore_errors=True)
            work.mkdir(parents=True)
            command = PREPARED.get(name, _peer)(name, work, files)
            figures.rounds.append(run_process(command, {"PYTHONDONTWRITEBYTECODE": ""}))
            figures.notes = _written(name, work / "out", files, rows)
            print(f"  cold      {name:24s} {figures.rounds[-1].seconds:6.2f} s", flush=True)
    return list(found.values())


OURS = {
    "firnline": [sys.executable, str(JOB), "bench", f"--master=local[{THREADS}]"],
    "firnline, no Spark": [sys.executable, "-m", "firnline.cli.app", "merge", "bench"],
}


def _firnline(name: str, work: Path, files: list[Path]) -> list[str]:
    settings = work / "tables.yaml"
    settings.write_text(
        "tables:\n  bench:\n"
        f"    root: file://{work}/out\n"
        "    partition: p=(?P<p>[0-9]+)\n"
        f"    merge: {{compression_level: {LEVEL}, row_group_rows: {ROW_GROUP}}}\n"
    )
    lay_out(f"file://{work}/out", None, files, GROUPS)
    return [*OURS[name], f"--settings={settings}"]


def _peer(name: str, work: Path, files: list[Path]) -> list[str]:
    if name.startswith("delta-rs"):
        from deltalake import convert_to_deltalake

        (work / "out").mkdir()
        copies = [work / "out" / path.name for path in files]
        for path, copy in zip(files, copies, strict=True):
            copy.hardlink_to(path)
        convert_to_deltalake(str(work / "out"))
    return [sys.executable, "-m", "benchmarks.cold", name, str(work / "out"), *map(str, files)]


def _iceberg(_name: str, work: Path, files: list[Path]) -> list[str]:
    binpack.prepare(work / "out", files, LEVEL)
    return binpack.command(work / "out", files, GROUPS, THREADS)


_LOGS = {"_log", "_ckpt", "_delta_log", "metadata"}
"""Folders whose Parquet files have no rows of the table."""


def _written(name: str, out: Path, files: Sequence[Path], rows: int) -> dict[str, object]:
    """The files that the process wrote: all but logs, and links to or copies of the inputs.

    Raises RuntimeError: they do not hold all rows, or are not as many as the groups of ours.
    """
    inputs = {path.name for path in files}
    new = [
        path
        for path in out.rglob("*.parquet")
        if path.name not in inputs
        and ORIGINAL not in path.name
        and _LOGS.isdisjoint(path.relative_to(out).parts)
    ]
    held = sum(pq.read_metadata(path).num_rows for path in new)
    if held != rows or (name in OURS and len(new) != GROUPS):
        raise RuntimeError(f"{name} left {held} of {rows} rows in {len(new)} files")
    return {"files_out": len(new), "bytes_out": sum(path.stat().st_size for path in new)}


def _groups(files: Sequence[str]) -> list[list[str]]:
    return [
        list(files[n * len(files) // GROUPS : (n + 1) * len(files) // GROUPS])
        for n in range(GROUPS)
    ]


def _delta_rs(out: Path, _files: Sequence[str]) -> None:
    from deltalake import DeltaTable, WriterProperties

    writing = WriterProperties(
        compression="ZSTD", compression_level=LEVEL, max_row_group_size=ROW_GROUP
    )
    DeltaTable(str(out)).optimize.compact(writer_properties=writing)


def _duckdb(out: Path, files: Sequence[str]) -> None:
    import duckdb

    out.mkdir()
    connection = duckdb.connect(config={"threads": THREADS})
    connection.execute("SET preserve_insertion_order = false")
    for number, group in enumerate(_groups(files)):
        connection.read_parquet(group).write_parquet(
            str(out / f"{number}.parquet"), compression="zstd", row_group_size=ROW_GROUP
        )


def _polars(out: Path, files: Sequence[str]) -> None:
    import polars as pl

    out.mkdir()
    for number, group in enumerate(_groups(files)):
        pl.scan_parquet(group).sink_parquet(
            out / f"{number}.parquet",
            compression="zstd",
            compression_level=LEVEL,
            row_group_size=ROW_GROUP,
        )


def _spark(out: Path, files: Sequence[str]) -> None:
    from pyspark.sql import SparkSession

    session = (
        SparkSession.builder.master(f"local[{THREADS}]")
        .config("spark.driver.memory", "4g")
        .config("spark.sql.parquet.compression.codec", "zstd")
        .config("spark.log.level", "OFF")
        .getOrCreate()
    )
    session.read.parquet(*files).coalesce(GROUPS).write.parquet(str(out))
    session.stop()


Merge = Callable[[Path, Sequence[str]], None]
CONTENDERS: dict[str, tuple[str, Merge | None]] = {
    "firnline": ("the Spark job, local[2], with plan and commit", None),
    "firnline, no Spark": ("firnline merge, with plan and commit", None),
    "delta-rs compact": ("one call of its Python package", _delta_rs),
    "DuckDB": ("a COPY for each group", _duckdb),
    "Polars": ("a streamed sink for each group", _polars),
    "Spark": ("local[2], coalesce and write", _spark),
    "Iceberg": (f"rewrite_data_files, Spark {PYSPARK}, local[2], with plan and commit", None),
}
"""Name -> description, and the merge of a peer that is a process of this module."""
PREPARED: dict[str, Callable[[str, Path, list[Path]], list[str]]] = {
    **dict.fromkeys(OURS, _firnline),
    "Iceberg": _iceberg,
}
"""Name -> what lays the files out for it and returns the command that is measured."""


if __name__ == "__main__":
    merge = CONTENDERS[sys.argv[1]][1]
    assert merge is not None
    merge(Path(sys.argv[2]), sys.argv[3:])
