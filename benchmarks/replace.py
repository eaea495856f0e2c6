# ruff: noqa: S608 -- our own paths
"""Replace of an hour in a day of many rows.

A day in parts of a million rows on local disk, each up to two minutes late; three columns. One hour
is replaced by as many new rows, by whole cold processes in turn, two threads each:

- *eager*, *lazy*: ``replace``.
- *rewrite*: our ``rewrite`` of the whole day by a query that leaves the hour out, then an append.
- *duckdb*: DuckDB writes the day anew, without the hour and with the new rows, a file a part,
  compressed as ours; it commits nothing.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.measure import Figures, run_process
from benchmarks.sizes import Bench
from firnline.operations.operation import Work

COLUMNS = {"ts": "TIMESTAMP", "client": "INTEGER", "amount": "SMALLINT"}
DAY_US, LATE_US, HOUR_US = 86_400_000_000, 120_000_000, 3_600_000_000
START_US = 1_767_571_200_000_000
"""2026-01-05T00:00Z."""
HOUR = 7
SETTINGS = {"name": "bench", "sort_by": ["ts"], "merge": {"kernel_memory": "1GiB"}}
WHAT = {
    "eager": ("firnline replace, eager", "new parts, cut ones rewritten, committed"),
    "lazy": ("firnline replace, lazy", "new parts and a record, committed; merges do the rest"),
    "rewrite": ("firnline rewrite", "every part read and written, then an append"),
    "duckdb": ("DuckDB", "the day read and written anew"),
}


def rows_between(start_us: int, span_us: int, rows: int, seed: int) -> pa.Table:
    """Sorted by ``ts``, as an append leaves them."""
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "ts": pa.array(
                np.sort(START_US + start_us + rng.integers(0, span_us, rows)), pa.timestamp("us")
            ),
            "client": pa.array(rng.integers(0, 1000, rows, dtype=np.int32)),
            "amount": pa.array(rng.integers(0, 500, rows, dtype=np.int16)),
        }
    )


def make(folder: Path, rows: int, part_rows: int) -> list[Path]:
    """Files of the day, written where they are missing; the last is the new hour."""
    folder.mkdir(parents=True, exist_ok=True)
    count = rows // part_rows
    each = DAY_US // count
    tasks = [(max(0, i * each - LATE_US), min(each + LATE_US, DAY_US)) for i in range(count)]
    paths = []
    for number, (start, span) in enumerate([*tasks, (HOUR * HOUR_US, HOUR_US)]):
        path = folder / f"{rows}-{number:05d}.parquet"
        paths.append(path)
        if not path.exists():
            amount = part_rows if number < count else rows // 24
            half = path.with_suffix(".tmp")
            table = rows_between(start, span, amount, number)
            pq.write_table(table, half, compression="zstd", use_dictionary=["client", "amount"])
            half.rename(path)
    return paths


def lay_out(root: str, files: list[Path]) -> None:
    """A firnline table of one append."""
    from firnline.ids import format_uuid7
    from firnline.log import codec
    from firnline.log.records import LogContent, Marker, stats_json
    from firnline.parquet.stats import from_footer
    from firnline.paths import Root, TablePaths
    from firnline.store.client import open_store

    store, paths = open_store(root), TablePaths(Root.parse(root).prefix)
    now = START_US // 1000
    markers = []
    for number, path in enumerate(files):
        key = paths.data_part("", format_uuid7(now, number))
        target = Path(root.removeprefix("file://")).parent / key
        target.parent.mkdir(parents=True, exist_ok=True)
        target.hardlink_to(path)
        footer = pq.read_metadata(path)
        stats = stats_json(from_footer(footer, ["ts"]))
        markers.append(Marker(p=key, b=path.stat().st_size, t=now, n=footer.num_rows, q=0, s=stats))
    log = LogContent(t=now, schema=COLUMNS, markers=markers)
    store.put_new(paths.append_log(now, f"bench-{format_uuid7(now, 1 << 70)}"), codec.encode(log))


def _interval() -> tuple[str, str]:
    ends = (START_US + HOUR * HOUR_US, START_US + (HOUR + 1) * HOUR_US)
    first, last = (datetime.fromtimestamp(end / 1e6, UTC).isoformat()[:19] for end in ends)
    return first, last


def replace(mode: str, root: str, new: Path, work: Path) -> None:
    """Our contender."""
    from firnline.log.txn_file import RunIdentity
    from firnline.operations.common_options import Mode
    from firnline.operations.options import ReplaceOptions
    from firnline.operations.replace.run import run_replace

    start, end = _interval()
    lazily: Mode = "lazy" if mode == "lazy" else "eager"
    asked = ReplaceOptions(column="ts", start=start, end=end, files=(str(new),), mode=lazily)
    table, engine = _opened(root, work)
    report = run_replace(Work(table, RunIdentity(run_id="bench"), engine), asked)
    (work / "report.json").write_text(json.dumps(report.to_json()))


def rewrite(root: str, new: Path, work: Path) -> None:
    """Our rewrite of the day, and an append."""
    from firnline.appends.append import Appender
    from firnline.log.txn_file import RunIdentity
    from firnline.operations.options import RewriteOptions
    from firnline.operations.rewrite.run import run_rewrite

    start, end = _interval()
    query = f"select * from _rows where not (ts >= '{start}' and ts < '{end}')"
    table, engine = _opened(root, work)
    options = RewriteOptions(sql=query, partitions=("*",), force=True)
    report = run_rewrite(Work(table, RunIdentity(run_id="bench"), engine), options)
    Appender(table).append_files([new])
    (work / "report.json").write_text(json.dumps(report.to_json()))


def duckdb_rewrite(root: str, new: Path, work: Path) -> None:
    """DuckDB, one file for each part."""
    import duckdb

    out = work / "rewritten"
    out.mkdir()
    start, end = _interval()
    place = duckdb.connect(config={"threads": 2, "memory_limit": "4GB"})
    codec = "(FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL 3)"
    for path in sorted(Path(root.removeprefix("file://"), "_data").iterdir()):
        place.execute(
            f"COPY (SELECT * FROM '{path}' WHERE NOT (ts >= '{start}' AND ts < '{end}')) "
            f"TO '{out}/{path.name}' {codec}"
        )
    place.execute(f"COPY (SELECT * FROM '{new}') TO '{out}/new.parquet' {codec}")


def _opened(root: str, work: Path) -> tuple[Any, Callable[[], Any]]:
    from firnline.clock import SystemClock
    from firnline.ids import SystemIds
    from firnline.kernel.local import LocalEngine
    from firnline.settings.load import TableSettings
    from firnline.store.client import open_store
    from firnline.table import open_table

    table = open_table(TableSettings.model_validate({**SETTINGS, "root": root}))
    engine = LocalEngine(
        lambda: open_store(root), work / "scratch", SystemIds(), SystemClock(), parallel=2
    )
    return table, lambda: engine


def compare(bench: Bench, rounds: int) -> list[Figures]:
    """All contenders in turn, each on a fresh copy of the table."""
    work, sizes = bench.work, bench.sizes
    *parts, new = make(bench.cache / "replace", sizes.replaced_rows, sizes.replaced_part)
    found = {name: Figures(*told) for name, told in WHAT.items()}
    for _ in range(rounds):
        for name, figures in found.items():
            place = work / name
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir()
            root = f"file://{place}/table"
            lay_out(root, parts)
            command = [sys.executable, "-m", "benchmarks.replace", "--one", name, "--root", root]
            figures.rounds.append(run_process([*command, "--new", str(new), "--work", str(place)]))
            figures.notes = _notes(place, parts)
            print(f"  replace {figures.name:25s} {figures.rounds[-1].seconds:6.2f} s", flush=True)
    _same_rows(work)
    return list(found.values())


def _notes(place: Path, parts: list[Path]) -> dict[str, object]:
    old = {path.stat().st_ino for path in parts}
    written = [*place.glob("rewritten/*"), *place.glob("table/_data/**/*.parquet")]
    size = sum(p.stat().st_size for p in written if p.stat().st_ino not in old)
    path = place / "report.json"
    report: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    read = report.get("parts_read", report.get("counts", {}).get("parts_in", len(parts)))
    return {
        "parts": len(parts),
        "parts_read": read,
        "parts_rewritten": report.get("parts_rewritten", read),
        "parts_dropped": report.get("parts_dropped", 0),
        "bytes_out": size,
    }


def _same_rows(work: Path) -> None:
    """All contenders leave the same rows to readers, by number and by sums."""
    import duckdb

    start, end = _interval()
    sums = set()
    for name in WHAT:
        folder = work / name
        place = duckdb.connect()
        hidden = ""
        if name == "duckdb":
            paths = [str(p) for p in folder.glob("rewritten/*")]
        else:
            from firnline.state.snapshot import read_snapshot

            table, _ = _opened(f"file://{folder}/table", folder)
            live = read_snapshot(table.store, table.paths).live
            paths = [str(folder / key) for key in live]
            if name == "lazy":
                above = [str(folder / p) for p, m in live.items() if m.q]
                hidden = f" WHERE filename IN {tuple(above)!r}".replace(",)", ")")
                hidden += f" OR NOT (ts >= '{start}' AND ts < '{end}')"
        query = f"SELECT count(*), sum(hash(ts, client, amount)) FROM read_parquet({paths})"
        sums.add(str(place.execute(query + hidden).fetchall()))
    if len(sums) != 1:
        raise SystemExit(f"the contenders leave different rows: {sums}")


def main() -> None:
    """Run one contender, as the process that is measured."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.replace")
    parser.add_argument("--one", choices=list(WHAT), required=True)
    parser.add_argument("--root", required=True)
    parser.add_argument("--new", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    given = parser.parse_args()
    if given.one == "duckdb":
        duckdb_rewrite(given.root, given.new, given.work)
    elif given.one == "rewrite":
        rewrite(given.root, given.new, given.work)
    else:
        replace(given.one, given.root, given.new, given.work)


if __name__ == "__main__":
    main()
