# ruff: noqa: S608 -- SQL over files that the benchmark has just made
"""A table of a hundred columns, merged and appended by whole processes on local disk.

python -m benchmarks.wide NAME FOLDER FILE...      one peer, as the process that is measured

All read the same snappy files and sort by (user_id, ts), but for delta-rs: its compact does not
sort, and its z_order interleaves both columns. Times are from the start of the process to its end.
What each has written is read afterwards: all rows are there, and in order where they were sorted.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import pyarrow.parquet as pq

from benchmarks import widerows
from benchmarks.contenders import LEVEL, ORIGINAL, THREADS
from benchmarks.measure import Figures, run_process
from benchmarks.merge import lay_out
from benchmarks.sizes import Bench
from benchmarks.widerows import SORT

ROW_GROUP = 131_072
_NAME = "wide"
_FIRNLINE = [sys.executable, "-m", "firnline.cli.app"]
_SETTINGS = """tables:
  wide:
    root: file://{root}
    sort_by: [user_id, ts]
    merge:
      min_inputs: 2
      target_size: 64GiB
      compression_level: {level}
      row_group_rows: {row_group}
      proof: {proof}
"""
Prepare = Callable[[str, Path, list[Path]], list[str]]
"""Lays files out in a folder for a contender, and returns the command that is measured."""


def merge(bench: Bench) -> list[Figures]:
    """The files as parts of a table, merged into one."""
    return _compare("wide", MERGES, bench)


def append(bench: Bench) -> list[Figures]:
    """The files given to one append."""
    return _compare("append", APPENDS, bench)


def _compare(section: str, known: Mapping[str, tuple[str, Prepare]], bench: Bench) -> list[Figures]:
    """Cold processes, in turn; what comes before them does not count."""
    sizes, work = bench.sizes, bench.work
    files = widerows.make(bench.cache / "wide", sizes.wide_files, sizes.wide_rows)
    expected = _content(files)
    found = {name: Figures(name, what) for name, (what, _) in known.items()}
    for _ in range(bench.rounds):
        for name, figures in found.items():
            shutil.rmtree(work, ignore_errors=True)
            work.mkdir(parents=True)
            figures.rounds.append(run_process(known[name][1](name, work, files)))
            written = _written(work / "out", files)
            if _content(written) != expected:
                raise RuntimeError(f"{name} has written other rows than it was given")
            if not name.startswith("delta-rs"):
                _check_order(name, written)
            size = sum(path.stat().st_size for path in written)
            figures.notes = {"files_out": len(written), "bytes_out": size}
            print(f"  {section:9s} {name:24s} {figures.rounds[-1].seconds:6.2f} s", flush=True)
    return list(found.values())


# --- what was written -----------------------------------------------------------------------------


def _written(out: Path, files: Sequence[Path]) -> list[Path]:
    """Parts that the process wrote: no links to, or copies of, the inputs."""
    inputs = {path.name for path in files}
    parts = out / "_data" if (out / "_data").is_dir() else out
    return [
        path
        for path in sorted(parts.rglob("*.parquet"))
        if path.name not in inputs and ORIGINAL not in path.name and "_delta_log" not in path.parts
    ]


def _content(files: Sequence[Path]) -> object:
    """Number of rows, and a sum over all values that no order changes."""
    import duckdb

    paths = [str(path) for path in files]
    names = ", ".join(f'"{name}"' for name in pq.read_schema(files[0]).names)
    query = f"SELECT count(*), sum(hash({names})) FROM read_parquet({paths!r})"
    return duckdb.connect(config={"threads": THREADS}).execute(query).fetchone()


def _check_order(name: str, files: Sequence[Path]) -> None:
    """Raises RuntimeError: the rows of a file are not in order."""
    for path in files:
        keys = pq.read_table(path, columns=list(SORT))
        if keys != keys.sort_by([(column, "ascending") for column in SORT]):
            raise RuntimeError(f"{name} has written rows that are not in order: {path.name}")


# --- contenders -----------------------------------------------------------------------------------


def _settings(work: Path, proof: str) -> str:
    path = work / "tables.yaml"
    text = _SETTINGS.format(root=work / "out", level=LEVEL, row_group=ROW_GROUP, proof=proof)
    path.write_text(text)
    return f"--settings={path}"


def _merged(name: str, work: Path, files: list[Path]) -> list[str]:
    from firnline.types.arrow import from_arrow

    columns = from_arrow(pq.read_schema(files[0]))
    lay_out(f"file://{work}/out", None, files, 1, columns)
    settings = _settings(work, "counts" if name.endswith("counted") else "rows")
    return [*_FIRNLINE, "merge", _NAME, settings]


def _appended(_name: str, work: Path, files: list[Path]) -> list[str]:
    return [*_FIRNLINE, "append", _NAME, *map(str, files), _settings(work, "rows")]


def _peer(name: str, work: Path, files: list[Path]) -> list[str]:
    out = work / "out"
    out.mkdir()
    if name.startswith("delta-rs"):
        from deltalake import convert_to_deltalake

        for path in files:
            (out / path.name).hardlink_to(path)
        convert_to_deltalake(str(out))
    return [sys.executable, "-m", "benchmarks.wide", name, str(out), *map(str, files)]


def _polars(out: Path, files: Sequence[str]) -> None:
    import polars as pl

    pl.read_parquet(list(files)).sort(*SORT).write_parquet(
        out / "sorted.parquet",
        compression="zstd",
        compression_level=LEVEL,
        row_group_size=ROW_GROUP,
    )


def _duckdb(out: Path, files: Sequence[str]) -> None:
    import duckdb

    duckdb.connect(config={"threads": THREADS}).execute(
        f"COPY (SELECT * FROM read_parquet({list(files)!r}) ORDER BY {', '.join(SORT)})"
        f" TO '{out}/sorted.parquet' (FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL {LEVEL},"
        f" ROW_GROUP_SIZE {ROW_GROUP})"
    )


def _delta_rs(out: Path, *, z_order: bool) -> None:
    from deltalake import DeltaTable, WriterProperties

    writing = WriterProperties(
        compression="ZSTD", compression_level=LEVEL, max_row_group_size=ROW_GROUP
    )
    optimize = DeltaTable(str(out)).optimize
    if z_order:
        optimize.z_order(list(SORT), writer_properties=writing)
    else:
        optimize.compact(writer_properties=writing)


PEERS: Mapping[str, Callable[[Path, Sequence[str]], None]] = MappingProxyType(
    {
        "Polars": _polars,
        "DuckDB": _duckdb,
        "delta-rs compact": lambda out, _files: _delta_rs(out, z_order=False),
        "delta-rs z_order": lambda out, _files: _delta_rs(out, z_order=True),
    }
)
MERGES: Mapping[str, tuple[str, Prepare]] = MappingProxyType(
    {
        "firnline": ("firnline merge, with plan, commit and proof of all rows", _merged),
        "firnline, rows counted": ("the same with merge.proof: counts", _merged),
        "Polars": ("read_parquet, sort, write_parquet", _peer),
        "DuckDB": ("COPY ... ORDER BY, 2 threads", _peer),
        "delta-rs compact": ("with commit, not sorted", _peer),
        "delta-rs z_order": ("with commit", _peer),
    }
)
APPENDS: Mapping[str, tuple[str, Prepare]] = MappingProxyType(
    {
        "firnline": ("firnline append, with commit", _appended),
        **{name: MERGES[name] for name in ("Polars", "DuckDB")},
    }
)


if __name__ == "__main__":
    PEERS[sys.argv[1]](Path(sys.argv[2]), sys.argv[3:])
