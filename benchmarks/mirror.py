"""Publications of mirrors at 1,000, 10,000 and 100,000 parts, and what readers pay for vectors.

    python -m benchmarks.mirror STEP [NUMBERS] ROOT FORMAT    one step in this process, as JSON

The parts of most tables are names in a log: no publication looks at one. Where deletion vectors are
made, and where others read, the parts are real. Every step has a process of its own, and every
round a fresh copy of the log. What reads the table's log is measured apart from what the mirror
adds.
"""

from __future__ import annotations

import importlib
import json
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks import snapshot
from benchmarks.measure import MIB, Figures, Usage, run_json
from benchmarks.sizes import Mirrored
from firnline.commit.base import Base, read_base, take_base
from firnline.commit.change import Change
from firnline.commit.transaction import commit
from firnline.log.records import Marker, stats_json
from firnline.log.txn_file import Counts, RunIdentity
from firnline.operations.mirror.run import run_mirror
from firnline.operations.operation import Work
from firnline.operations.options import DeleteOptions, MirrorOptions
from firnline.properties.in_force import from_settings
from firnline.settings.load import TableSettings
from firnline.table import Table, open_table
from tools.memory import peak_mib

RUN = RunIdentity(run_id="bench")
COME, GO = 5, 100
_KINDS = ("get", "put", "list", "delete", "head")
_DELTA, _ICEBERG, _VECTORS = "delta", "iceberg", "vectors"


def declared(root: str, form: str) -> Table:
    """The table with one mirror."""
    folder = root.removeprefix("file://")
    uri = f"sqlite:///{folder}/catalog.db"
    where = {"catalog": "lake", "name": "bench.t", "properties": {"type": "sql", "uri": uri}}
    mirrors = {
        _DELTA: _DELTA,
        _ICEBERG: {_ICEBERG: where},
        _VECTORS: {_DELTA: {"deletes": "vectors"}},
    }
    given: dict[str, Any] = {"name": "t", "root": root, "mirror": [mirrors[form]]}
    if form == _VECTORS:
        given |= {"partition_by": ["p"], "deletes": "lazy"}
    else:
        given |= {"partition": ".*", "statistics": ["event", "ts"]}
    return open_table(TableSettings.model_validate(given))


# --- one step, in a process of its own ------------------------------------------------------------


@dataclass
class Log:
    """What the reads of the table's log cost."""

    cpu: float = 0.0
    requests: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_KINDS, 0))

    def read(self, table: Table) -> Base:
        before, cpu = table.store.counters.as_dict(), time.process_time()
        base = read_base(table)
        after = table.store.counters.as_dict()
        self.cpu += time.process_time() - cpu
        for kind in _KINDS:
            self.requests[kind] += after[kind] - before[kind]
        return base


@contextmanager
def log_apart(form: str) -> Iterator[Log]:
    """Measure the reads of the log by publications."""
    module: Any = importlib.import_module(
        f"firnline.mirror.{_DELTA if form == _VECTORS else form}.publish"
    )
    log, whole = Log(), module.read_base
    module.read_base = log.read
    try:
        yield log
    finally:
        module.read_base = whole


def load(table: Table, form: str) -> None:
    """Load the libraries of a publication, which takes half a second once in a process."""
    if form == _ICEBERG:
        from firnline.mirror.iceberg.catalog import open_catalog

        open_catalog(table)
    if form == _VECTORS:
        for name in ("duckdb", "numpy", "pyarrow.parquet"):
            importlib.import_module(name)


def publish(root: str, form: str) -> dict[str, Any]:
    """One publication."""
    table = declared(root, form)
    load(table, form)
    with log_apart(form) as log:
        began, cpu = time.perf_counter(), time.process_time()
        report = run_mirror(Work(table, RUN), MirrorOptions())
        seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    requests = sum(report.requests[kind] for kind in _KINDS)
    done = report.delta or report.iceberg
    assert done is not None
    assert done.hold is None, done.hold
    return {
        "seconds": seconds,
        "cpu": cpu,
        "peak_mb": peak_mib(),
        "besides_cpu": cpu - log.cpu,
        "requests": requests,
        "besides": requests - sum(log.requests.values()),
        "bytes": report.requests["bytes_out"],
        "said": [done.adds, done.removes, done.vectors, done.vectors_made],
    }


def checkpoint(root: str, form: str) -> dict[str, Any]:
    """The checkpoint of the newest version, as every hundredth publication writes one."""
    from firnline.mirror.delta.checkpoint import write_checkpoint
    from firnline.mirror.delta.head import list_versions

    table = declared(root, form)
    before = table.store.counters.as_dict()
    began, cpu = time.perf_counter(), time.process_time()
    listing = list_versions(table.store, table.paths, whole=True)
    write_checkpoint(table.store, table.paths, listing.versions[-1].number, listing)
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    after = table.store.counters.as_dict()
    requests = sum(after[kind] - before[kind] for kind in _KINDS)
    return {
        "seconds": seconds,
        "cpu": cpu,
        "peak_mb": peak_mib(),
        "besides_cpu": cpu,
        "requests": requests,
        "besides": requests,
        "bytes": after["bytes_out"] - before["bytes_out"],
    }


def state(root: str, form: str) -> dict[str, Any]:
    """The table says that it has a mirror; not measured."""
    table = declared(root, form)
    counts, properties = Counts(), from_settings(table.settings)
    said = Change(op="properties", replaces=(), adds=(), counts=counts, properties=properties)
    commit(table, take_base(table), said, RUN)
    return {}


def change(root: str, form: str) -> dict[str, Any]:
    """A merge of 100 parts of one partition each into 5; not measured."""
    table = declared(root, form)
    base = take_base(table)
    gone = sorted(base.snapshot.live.values(), key=lambda m: m.p)[:GO]
    days = list(dict.fromkeys(table.paths.parse_part(m.p).partition for m in gone))[:COME]
    while len(days) < COME:
        days.append(days[0])
    bounds = ("2026-01-01T00:00:00.000000Z", "2026-01-01T23:59:59.999999Z", 0)
    now = table.clock.now_ms()
    adds = tuple(
        Marker(
            p=table.paths.data_part(day, table.ids.uuid7(now)),
            b=20_000_000,
            t=0,
            n=sum(m.n or 0 for m in gone) // COME,
            q=base.seq,
            o=(snapshot.START_MS, now),
            s=stats_json({"event": ("event_000", "event_199", 0), "ts": bounds}),
        )
        for day in days
    )
    counts = Counts(parts_in=GO, parts_out=COME)
    made = Change(op="merge", replaces=tuple(m.p for m in gone), adds=adds, counts=counts)
    commit(table, base, made, RUN)
    return {}


def fill(parts: int, rows: int, root: str, form: str) -> dict[str, Any]:
    """Real parts, one in each partition; not measured."""
    import numpy as np
    import pyarrow as pa

    import firnline

    ids = np.arange(parts * rows)
    made = pa.table({"p": ids // rows, "k": ids, "v": ids * 7_919 % 100, "x": ids / 3})
    firnline.append_rows(declared(root, form), made)
    return {}


def hide(parts: int, root: str, form: str) -> dict[str, Any]:
    """A lazy delete of a row in a hundred of some parts; not measured."""
    from firnline.operations.delete.run import run_delete
    from firnline.operations.local import local_engine

    # Not by firnline.delete, which publishes: that is what is to be measured.
    table, wanted = declared(root, form), DeleteOptions(where=f"p < {parts} and v = 7")
    run_delete(Work(table, RUN, lambda: local_engine(table)), wanted)
    return {}


def append(parts: int, root: str, form: str) -> dict[str, Any]:
    """One append of 5 parts; not measured."""
    import firnline

    rows = [{"p": parts + n, "k": n, "v": 1, "x": 0.5} for n in range(COME)]
    firnline.append_rows(declared(root, form), rows)
    return {}


def by_datafusion(root: str, _form: str) -> dict[str, Any]:
    """All rows, by deltalake's own engine."""
    from deltalake import DeltaTable, QueryBuilder

    def read() -> int:
        query = QueryBuilder().register("t", DeltaTable(root))
        found = query.execute("select sum(x), sum(k), count(*) as n from t").read_all()
        return int(found["n"][0].as_py())

    return _read(read)


def by_polars(root: str, _form: str) -> dict[str, Any]:
    """All rows, by Polars."""
    import polars

    def read() -> int:
        frame = polars.scan_delta(root)
        found = frame.select(polars.col("x").sum(), polars.col("k").sum(), n=polars.len())
        return int(found.collect()["n"][0])

    return _read(read)


def _read(read: Callable[[], int]) -> dict[str, Any]:
    read()  # libraries and files are warm
    began, cpu = time.perf_counter(), time.process_time()
    rows = read()
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    return {"seconds": seconds, "cpu": cpu, "peak_mb": peak_mib(), "rows": rows}


STEPS: dict[str, Callable[..., dict[str, Any]]] = {
    "publish": publish,
    "checkpoint": checkpoint,
    "state": state,
    "change": change,
    "fill": fill,
    "append": append,
    "datafusion": by_datafusion,
    "polars": by_polars,
    "hide": hide,
}
"""Called with the numbers that follow the step, the root and the format."""


# --- all of them ----------------------------------------------------------------------------------

Results = dict[str, list[dict[str, Any]]]


def _step(results: Results, name: str, step: str, root: str, form: str) -> dict[str, Any]:
    found = run_json([sys.executable, "-m", "benchmarks.mirror", *step.split(), root, form], {})
    if name:
        results.setdefault(name, []).append(found)
        print(
            f"  mirror    {name:60s} {found['seconds']:7.2f} s {found['cpu']:7.2f} s CPU",
            flush=True,
        )
    return found


def _many_parts(results: Results, cache: Path, work: Path, size: int, form: str) -> None:
    folder = cache / "mirror" / str(size)
    table = snapshot.make_log(folder, _files(size))
    shutil.copytree(table, work / "t")
    root, title = f"file://{work}/t", f"{form.capitalize()}, {size:,} parts"
    _step({}, "", "state", root, form)
    first = _step(results, f"{title}: first version", "publish", root, form)
    assert first["said"][0] == size, first
    _step({}, "", "change", root, form)
    following = _step(results, f"{title}: {COME} files more, {GO} less", "publish", root, form)
    assert following["said"][:2] == [COME, GO], following
    _step(results, f"{title}: nothing new", "publish", root, form)
    if form == _DELTA:
        _step(results, f"{title}: checkpoint", "checkpoint", root, form)
    shutil.rmtree(work / "t")


def _files(size: int) -> Sequence[int]:
    """One file of a merge and appends of 100 parts."""
    appends = size // 1_000
    return [size - 100 * appends, *[100] * appends]


def _vectors(results: Results, work: Path, mirrored: Mirrored) -> None:
    root, form = f"file://{work}/t", _VECTORS
    count, rows, hidden = mirrored.parts, mirrored.rows, mirrored.hidden
    _step({}, "", f"fill {count} {rows}", root, form)
    _step({}, "", "publish", root, form)
    title = f"Delta, {count:,} parts of {rows:,} rows"
    for reader in ("datafusion", "polars"):
        name = f"{_TITLE[reader]} reads {count:,} parts without vectors"
        _step(results, name, reader, root, form)
    for parts in hidden:
        _step({}, "", f"hide {parts}", root, form)
        found = _step(results, f"{title}: {parts:,} get a vector", "publish", root, form)
        assert found["said"][2:] == [parts, parts], found
    _step({}, "", f"append {count}", root, form)
    kept = _step(results, f"{title}: {COME} files more, all vectors stay", "publish", root, form)
    assert kept["said"] == [COME, 0, hidden[-1], 0], kept
    for reader in ("datafusion", "polars"):
        name = f"{_TITLE[reader]} reads {count:,} parts with {hidden[-1]:,} vectors"
        found = _step(results, name, reader, root, form)
        assert found["rows"] == count * rows - hidden[-1] * rows // 100 + COME, found
    shutil.rmtree(work / "t")


_TITLE = {"datafusion": "DataFusion", "polars": "Polars"}


def measure(cache: Path, work: Path, rounds: int, mirrored: Mirrored) -> Results:
    """All steps, in turn, ``rounds`` times."""
    results: Results = {}
    for _ in range(rounds):
        for form in (_DELTA, _ICEBERG):
            for size in mirrored.sizes:
                _many_parts(results, cache, work, size, form)
        _vectors(results, work, mirrored)
    return results


def compare(cache: Path, work: Path, rounds: int, mirrored: Mirrored) -> list[Figures]:
    """The figures of ``measure``."""
    figures = []
    for name, results in measure(cache, work, rounds, mirrored).items():
        usages = [Usage(r["seconds"], r["cpu"], int(r["peak_mb"] * MIB)) for r in results]
        figures.append(Figures(name, "", usages, _notes(results)))
    return figures


def _notes(results: Sequence[dict[str, Any]]) -> dict[str, object]:
    one = results[0]
    if "requests" not in one:
        return {}
    cpu = sorted(r["besides_cpu"] for r in results)[len(results) // 2]
    return {
        "CPU besides the log": f"{cpu:.2f} s" if cpu >= 1 else f"{1000 * cpu:.1f} ms",
        "requests": one["requests"],
        "besides the log": one["besides"],
        "kB written": round(one["bytes"] / 1000, 1),
    }


def main(arguments: list[str]) -> None:
    """See the module's docstring."""
    step, *numbers, root, form = arguments
    print(json.dumps(STEPS[step](*map(int, numbers), root, form)))


if __name__ == "__main__":
    main(sys.argv[1:])
