# ruff: noqa: S608 -- our own paths
"""Erase of 100,000 keys from 10 M rows.

The data set of the merge (100 parts of 100,000 rows in four partitions, on local disk), as whole
cold processes in turn, two threads each:

- *spread*: 100,000 of a million users. Every part holds some, so every part is rewritten.
- *few*: 100,000 values of ``props`` that stand in a tenth of the parts. No statistics say where:
  all parts are read, that tenth is rewritten.

Against DuckDB, which reads every part and writes all rows but those of the keys, a file for each
partition, compressed as ours; it neither commits nor certifies.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import data
from benchmarks.measure import Figures, run_process
from benchmarks.merge import lay_out
from benchmarks.sizes import Bench
from firnline.operations.operation import Work

GROUPS = 4
COLUMN = {"spread": "user_id", "few": "props"}


def make_keys(files: list[Path], folder: Path, scenario: str, keys: int) -> Path:
    """A Parquet file of keys; the same each time."""
    path = folder / f"keys-{scenario}.parquet"
    if scenario == "spread":
        found = pa.array([n * 1_000_003 % 1_000_000 for n in range(keys)])
    else:
        some = files[:: max(1, len(files) // 10)][:10]
        each = keys // len(some)
        found = pa.concat_arrays(
            pq.read_table(one, columns=["props"])["props"].slice(0, each).combine_chunks()
            for one in some
        )
    pq.write_table(pa.table({COLUMN[scenario]: found}), path)
    return path


def erase(root: str, keys: Path, column: str, work: Path) -> None:
    """Our contender: prints its report."""
    from firnline.clock import SystemClock
    from firnline.ids import SystemIds
    from firnline.kernel.local import LocalEngine
    from firnline.log.txn_file import RunIdentity
    from firnline.operations.erase.run import run_erase
    from firnline.operations.options import EraseOptions
    from firnline.settings.load import TableSettings
    from firnline.store.client import open_store
    from firnline.table import open_table

    settings = TableSettings.model_validate({"name": "bench", "root": root})
    table = open_table(settings)
    engine = LocalEngine(
        lambda: open_store(root), work / "scratch", SystemIds(), SystemClock(), parallel=2
    )
    options = EraseOptions(columns=(column,), keys_file=str(keys))
    report = run_erase(Work(table, RunIdentity(run_id="bench"), lambda: engine), options)
    (work / "report.json").write_text(json.dumps(report.to_json()))


def rewrite(root: str, keys: Path, column: str, work: Path) -> None:
    """DuckDB rewriting everything."""
    import duckdb

    out = work / "rewritten"
    out.mkdir()
    place = duckdb.connect(config={"threads": 2, "memory_limit": "4GB"})
    place.execute(f"CREATE TABLE keys AS SELECT * FROM '{keys}'")
    for folder in sorted(Path(root.removeprefix("file://"), "_data").iterdir()):
        place.execute(
            f"COPY (SELECT * FROM read_parquet('{folder}/*.parquet', hive_partitioning=false) "
            f"ANTI JOIN keys USING ({column})) TO '{out}/{folder.name}.parquet' "
            "(FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL 3)"
        )


def compare(scenario: str, bench: Bench) -> list[Figures]:
    """Both contenders in turn, each on a fresh copy of the table."""
    work, sizes = bench.work, bench.sizes
    parts = data.make(bench.cache / "merge", sizes.merge_files, sizes.merge_rows)
    key_file = make_keys(parts, work, scenario, sizes.erased_keys)
    found = {
        "erase": Figures("firnline", "keys joined, touched parts rewritten, committed, certified"),
        "rewrite": Figures("DuckDB", "everything rewritten"),
    }
    for _ in range(bench.rounds):
        for name, figures in found.items():
            place = work / name
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir()
            root = f"file://{place}/table"
            lay_out(root, None, parts, GROUPS)
            command = [sys.executable, "-m", "benchmarks.erase", "--one", name, "--root", root]
            given = ["--keys", str(key_file), "--scenario", scenario, "--work", str(place)]
            figures.rounds.append(run_process([*command, *given]))
            figures.notes = _notes(place)
            print(f"  {scenario:7s} {figures.name:10s} {figures.rounds[-1].seconds:6.2f} s")
    _same_rows(work)
    return list(found.values())


def _notes(place: Path) -> dict[str, object]:
    path = place / "report.json"
    if not path.exists():
        return {"bytes_out": sum(p.stat().st_size for p in place.glob("rewritten/*"))}
    report: dict[str, Any] = json.loads(path.read_text())
    counts = report["counts"]
    log = max(p.stat().st_size for p in (place / "table" / "_txn").iterdir())
    return {
        "parts_read": report["parts_read"],
        "parts_rewritten": report["parts_rewritten"],
        "rows_erased": counts["rows_deleted"],
        "bytes_out": counts["bytes_out"],
        "transaction_bytes": log,
        "run_s": round(report["seconds"], 3),
    }


def _same_rows(work: Path) -> None:
    """Both contenders leave the same rows, by number and by sums."""
    import duckdb

    from firnline.paths import TablePaths
    from firnline.settings.load import TableSettings
    from firnline.state.snapshot import read_snapshot
    from firnline.table import open_table

    root = f"file://{work}/erase/table"
    table = open_table(TableSettings.model_validate({"name": "bench", "root": root}))
    live = read_snapshot(table.store, TablePaths("table")).live
    ours = [str(work / "erase" / key) for key in live]
    theirs = [str(path) for path in (work / "rewrite" / "rewritten").iterdir()]
    query = "SELECT count(*), sum(hash(ts, event, user_id, props, value)) FROM read_parquet({})"
    place = duckdb.connect()
    sums = {str(place.execute(query.format(paths)).fetchall()) for paths in (ours, theirs)}
    if len(sums) != 1:
        raise SystemExit(f"the contenders leave different rows: {sums}")


def main() -> None:
    """Run one contender, as the process that is measured."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.erase")
    parser.add_argument("--one", choices=["erase", "rewrite"], required=True)
    parser.add_argument("--root", required=True)
    parser.add_argument("--keys", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--scenario", choices=list(COLUMN), required=True)
    given = parser.parse_args()
    contender = erase if given.one == "erase" else rewrite
    contender(given.root, given.keys, COLUMN[given.scenario], given.work)


if __name__ == "__main__":
    main()
