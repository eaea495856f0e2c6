# ruff: noqa: S608 -- SQL over files that the benchmark has just made
"""Who merges, each in a warm process of its own: ``python -m benchmarks.contenders NAME``.

Reads one line per round from its standard input (the work as JSON) and answers with one line. What
has to be prepared for a round is done when the line says so, outside of the time that counts.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol

from benchmarks.data import SORT
from firnline.operations.operation import Work
from firnline.store.access import StoreAccess
from firnline.store.client import ObjectClient, open_store

GROUPS = 4
ROW_GROUP = 1_048_576
LEVEL = 3
THREADS = 2
ORIGINAL = "018bcfe5-6800-7"
"""In the names of the parts and of the log file that make up the table before a merge."""
Notes = dict[str, object]


class Contender(Protocol):
    def prepare(self) -> None: ...
    def run(self) -> Notes: ...
    def close(self) -> None: ...


class Here:
    """What the environment says: where the inputs are, and a folder for this contender."""

    def __init__(self) -> None:
        self.root = os.environ["BENCH_ROOT"]
        self.data = Path(os.environ["BENCH_DATA"])
        self.work = Path(os.environ["BENCH_WORK"])
        self.store: ObjectClient = open_store(self.root, StoreAccess.from_env())
        self.prefix = self.root.rpartition("/")[2]

    def clean(self) -> Path:
        shutil.rmtree(self.work, ignore_errors=True)
        self.work.mkdir(parents=True)
        return self.work

    def groups(self) -> list[list[str]]:
        keys = [meta.key for meta in self.store.list(f"{self.prefix}/_data/")]
        keys = [key for key in keys if ORIGINAL in key]
        return [
            keys[n * len(keys) // GROUPS : (n + 1) * len(keys) // GROUPS] for n in range(GROUPS)
        ]

    def local(self) -> list[str]:
        return [str(path) for path in sorted(self.data.glob("*.parquet"))]


class Staged:
    """A library that works on local files: inputs fetched, outputs uploaded, both counted."""

    def __init__(self, merge: Callable[[list[str], str], None]) -> None:
        self.here, self.merge = Here(), merge

    def prepare(self) -> None:
        self.here.clean()

    def run(self) -> Notes:
        store, before = self.here.store, self.here.store.counters.as_dict()
        sizes = []
        for number, keys in enumerate(self.here.groups()):
            folder = self.here.work / str(number)
            folder.mkdir()
            paths = [folder / f"{n}.parquet" for n in range(len(keys))]
            with ThreadPoolExecutor(8) as pool:
                list(pool.map(store.get_file, keys, paths))
            out = folder / "out.parquet"
            self.merge([str(path) for path in paths], str(out))
            store.put_file(f"{self.here.prefix}-out/{out.parent.name}.parquet", out)
            sizes.append(out.stat().st_size)
            shutil.rmtree(folder)
        after = store.counters.as_dict()
        return {
            "requests": sum(after[k] - before[k] for k in ("get", "put", "list", "head")),
            "bytes_out": sum(sizes),
            "files_out": len(sizes),
        }

    def close(self) -> None:
        self.here.clean()


def _duckdb(*, sort: bool) -> Contender:
    import duckdb

    def merge(paths: list[str], out: str) -> None:
        connection = duckdb.connect(config={"threads": THREADS})
        order = f"ORDER BY {', '.join(SORT)}" if sort else ""
        connection.execute(f"SET preserve_insertion_order = {str(sort).lower()}")
        connection.execute(
            f"COPY (SELECT * FROM read_parquet({paths!r}, hive_partitioning = false) {order})"
            f" TO '{out}' (FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL {LEVEL},"
            f" ROW_GROUP_SIZE {ROW_GROUP})"
        )
        connection.close()

    return Staged(merge)


def _polars(*, sort: bool) -> Contender:
    import polars as pl

    def merge(paths: list[str], out: str) -> None:
        frame = pl.scan_parquet(paths, hive_partitioning=False)
        if sort:
            frame = frame.sort(*SORT)
        frame.sink_parquet(
            out, compression="zstd", compression_level=LEVEL, row_group_size=ROW_GROUP
        )

    return Staged(merge)


def _polars_merging() -> Contender:
    """Merge of sorted runs: two streams at a time, until one is left."""
    import polars as pl

    def merge(paths: list[str], out: str) -> None:
        runs = [pl.scan_parquet(path, hive_partitioning=False) for path in paths]
        while len(runs) > 1:
            pairs = zip(runs[::2], runs[1::2], strict=False)
            left = runs[-1:] if len(runs) % 2 else []
            runs = [one.merge_sorted(other, list(SORT)) for one, other in pairs] + left
        runs[0].sink_parquet(
            out, compression="zstd", compression_level=LEVEL, row_group_size=ROW_GROUP
        )

    return Staged(merge)


class Firnline:
    """The product: plan, merge on a warm session of Spark local[2], commit, publish."""

    def __init__(self, *, sort: bool, proof: str = "rows") -> None:
        from firnline.settings.load import TableSettings
        from firnline.spark.engine import SparkEngine
        from firnline.spark.session import open_session
        from firnline.table import open_table

        self.here = Here()
        settings = TableSettings.model_validate(
            {
                "name": "bench",
                "root": self.here.root,
                "partition": "p=(?P<p>[0-9]+)",
                "sort_by": list(SORT) if sort else [],
                "merge": {
                    "compression_level": LEVEL,
                    "row_group_rows": ROW_GROUP,
                    "proof": proof,
                },
            }
        )
        access = StoreAccess.from_env()
        self.session = open_session("bench", {"spark.log.level": "OFF"}, f"local[{THREADS}]")
        self.engine = SparkEngine(
            self.session, self.here.root, access, str(self.here.work / "scratch")
        )
        self._settings, self._access, self._open = settings, access, open_table

    def prepare(self) -> None:
        """The table as its appends left it: whatever a merge wrote goes away."""
        store, prefix = self.here.store, self.here.prefix
        written = [
            meta.key
            for folder in ("_log", "_txn", "_data")
            for meta in store.list(f"{prefix}/{folder}/")
            if ORIGINAL not in meta.key
        ]
        for answer in store.delete_many(written):
            assert answer.error is None, answer.error

    def run(self) -> Notes:
        from firnline.log.txn_file import RunIdentity
        from firnline.operations.merge.run import run_merge
        from firnline.operations.options import MergeOptions

        report = run_merge(
            Work(
                self._open(self._settings, self._access),
                RunIdentity(run_id="bench"),
                lambda: self.engine,
            ),
            MergeOptions(),
        )
        assert report.counts.rows_in == report.counts.rows_out, report
        kinds = ("get", "put", "list", "head")
        return {
            "requests": sum(report.requests[kind] for kind in kinds),
            "bytes_out": report.counts.bytes_out,
            "files_out": report.counts.parts_out,
        }

    def close(self) -> None:
        self.session.stop()


class PlainSpark:
    """What one writes with Spark alone, on local disk: it reaches S3 with more jars only."""

    def __init__(self) -> None:
        from pyspark.sql import SparkSession

        self.here = Here()
        os.environ["PYSPARK_PYTHON"] = sys.executable
        self.session = (
            SparkSession.builder.master(f"local[{THREADS}]")
            .config("spark.driver.memory", "4g")
            .config("spark.sql.parquet.compression.codec", "zstd")
            .config("spark.sql.session.timeZone", "UTC")
            .config("spark.log.level", "OFF")
            .getOrCreate()
        )

    def prepare(self) -> None:
        self.here.clean()

    def run(self) -> Notes:
        frame = self.session.read.parquet(*self.here.local())
        frame = frame.repartitionByRange(GROUPS, *SORT).sortWithinPartitions(*SORT)
        frame.write.parquet(str(self.here.work / "out"))
        return _sizes(self.here.work / "out")

    def close(self) -> None:
        self.session.stop()


class DeltaRs:
    """delta-rs on a new table for every round: of links on local disk, or on the S3 server."""

    def __init__(self, *, sort: bool, on_s3: bool = False) -> None:
        self.here, self.sort, self.on_s3 = Here(), sort, on_s3
        self.table = f"{self.here.root}-delta" if on_s3 else str(self.here.work)

    def prepare(self) -> None:
        from deltalake import convert_to_deltalake

        if self.on_s3:
            self._copy()
        else:
            work = self.here.clean()
            for path in self.here.local():
                os.link(path, work / Path(path).name)
        convert_to_deltalake(self.table)

    def _copy(self) -> None:
        """Leave the inputs alone on the server, under the table's prefix."""
        store, prefix = self.here.store, f"{self.here.prefix}-delta"
        inputs = {f"{prefix}/{Path(path).name}": Path(path) for path in self.here.local()}
        there = {meta.key for meta in store.list(f"{prefix}/")}
        for answer in store.delete_many(sorted(there - set(inputs))):
            assert answer.error is None, answer.error
        for key in inputs.keys() - there:
            store.put_file(key, inputs[key])

    def run(self) -> Notes:
        from deltalake import DeltaTable, WriterProperties

        writing = WriterProperties(
            compression="ZSTD", compression_level=LEVEL, max_row_group_size=ROW_GROUP
        )
        table = DeltaTable(self.table)
        if self.sort:
            done = table.optimize.z_order(list(SORT), writer_properties=writing)
        else:
            done = table.optimize.compact(writer_properties=writing)
        return {"files_out": done["numFilesAdded"], "bytes_out": _added(done)}

    def close(self) -> None:
        self.here.clean()


def _added(metrics: dict[str, Any]) -> int:
    files: Any = metrics["filesAdded"]
    files = json.loads(files) if isinstance(files, str) else files
    return int(files["totalSize"])


def _sizes(folder: Path) -> Notes:
    sizes = [path.stat().st_size for path in folder.glob("*.parquet")]
    return {"files_out": len(sizes), "bytes_out": sum(sizes)}


SORTED: dict[str, tuple[str, Callable[[], Contender]]] = {
    "firnline": (
        "Spark local[2] warm, S3, with plan, commit and proof of all rows",
        lambda: Firnline(sort=True),
    ),
    "firnline, rows counted": (
        "the same with merge.proof: counts",
        lambda: Firnline(sort=True, proof="counts"),
    ),
    "DuckDB": ("2 threads, S3, same groups and codec", lambda: _duckdb(sort=True)),
    "Polars": ("2 threads, S3, same groups and codec", lambda: _polars(sort=True)),
    "delta-rs z_order": ("local disk", lambda: DeltaRs(sort=True)),
    "Spark range + sort": ("local[2] warm, local disk", PlainSpark),
}
UNSORTED: dict[str, tuple[str, Callable[[], Contender]]] = {
    "firnline": (
        "Spark local[2] warm, S3, with plan, commit and proof of all rows",
        lambda: Firnline(sort=False),
    ),
    "firnline, rows counted": (
        "the same with merge.proof: counts",
        lambda: Firnline(sort=False, proof="counts"),
    ),
    "DuckDB": ("2 threads, S3, same groups and codec", lambda: _duckdb(sort=False)),
    "Polars": ("2 threads, S3, same groups and codec", lambda: _polars(sort=False)),
    "delta-rs compact, S3": (
        "its defaults, S3, with commit",
        lambda: DeltaRs(sort=False, on_s3=True),
    ),
    "delta-rs compact": ("local disk, with commit", lambda: DeltaRs(sort=False)),
}

LOCAL = "firnline, local disk"
"""The contender whose table is on local disk, as that of delta-rs."""
UNSORTED[LOCAL] = (
    "rows counted, the table on local disk as that of delta-rs",
    lambda: Firnline(sort=False, proof="counts"),
)
SORTED_PARTS: dict[str, tuple[str, Callable[[], Contender]]] = {
    **{name: SORTED[name] for name in ("firnline", "firnline, rows counted", "DuckDB", "Polars")},
    "Polars merge_sorted": ("2 threads, S3, runs merged in pairs", _polars_merging),
}
KINDS = {"sorted": SORTED, "sorted parts": SORTED_PARTS, "unsorted": UNSORTED}


def serve(make: Callable[[], Contender]) -> None:
    """Make a contender, and let it play rounds until standard input ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever libraries print
    contender = make()
    for line in sys.stdin:
        said: object = None
        if line.strip() == "prepare":
            contender.prepare()
        else:
            said = contender.run()
        answers.write(json.dumps(said) + "\n")
        answers.flush()
    contender.close()


if __name__ == "__main__":
    serve(KINDS[sys.argv[1]][sys.argv[2]][1])
