"""What a merge costs on a real store, and that rows come out as they went in."""

from __future__ import annotations

import datetime
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from firnline.appends.append import Appender
from firnline.clock import SystemClock
from firnline.ids import SystemIds
from firnline.kernel.local import LocalEngine
from firnline.log.txn_file import RunIdentity
from firnline.operations.merge.run import MergeReport, run_merge
from firnline.operations.operation import Work
from firnline.operations.options import MergeOptions
from firnline.settings.load import TableSettings
from firnline.state.snapshot import read_snapshot
from firnline.store.access import StoreAccess
from firnline.store.probe import forget
from firnline.table import Table, open_table
from tests.support.commit_costs import FIRST_CHECK
from tools.s3server import StoreRoot

RUN = RunIdentity(run_id="r")
PARTS = 40


def opened(root: StoreRoot, **settings: Any) -> Table:
    access = StoreAccess.from_env(root.env) if root.kind == "s3" else None
    declared = TableSettings.model_validate({"name": "t", "root": f"{root.url}/t", **settings})
    return open_table(declared, access)


def merge(root: StoreRoot, scratch: Path, **settings: Any) -> MergeReport:
    table = opened(root, **settings)
    engine = LocalEngine(
        lambda: opened(root, **settings).store, scratch, SystemIds(), SystemClock(), parallel=2
    )
    return run_merge(Work(table, RUN, lambda: engine), MergeOptions())


def read(root: StoreRoot, tmp_path: Path) -> list[pa.Table]:
    table = opened(root)
    found = []
    for number, key in enumerate(read_snapshot(table.store, table.paths).live):
        path = tmp_path / f"read-{number}.parquet"
        table.store.get_file(key, path)
        found.append(pq.read_table(path, partitioning=None))
    return found


def test_a_merge_of_n_parts_is_n_gets_the_outputs_and_at_most_ten_requests(
    store_root: StoreRoot, tmp_path: Path
) -> None:
    settings = {"partition_by": ["day"], "sort_by": ["id desc"]}
    appender = Appender(opened(store_root, **settings))
    for number in range(PARTS // 2):
        appender.append(pa.table({"id": [number, number + 1], "day": ["mo", "tu"]}))
    forget()  # the probe is part of what a run costs
    report = merge(store_root, tmp_path / "scratch", **settings)
    assert (report.counts.parts_in, report.counts.parts_out) == (PARTS, 2)
    kinds = ("get", "put", "list", "delete", "head")
    requests = sum(report.requests[kind] for kind in kinds)
    log_reads = PARTS // 2
    assert report.requests["get"] == PARTS + log_reads + 1  # the probe reads its object back
    assert requests - log_reads <= PARTS + 2 + 8 + FIRST_CHECK
    assert report.requests["retries"] == 0
    tables = read(store_root, tmp_path)
    assert Counter(i for t in tables for i in t.column("id").to_pylist()) == Counter(
        [*range(PARTS // 2)] + [n + 1 for n in range(PARTS // 2)]
    )
    for table in tables:
        ids = table.column("id").to_pylist()
        assert ids == sorted(ids, reverse=True)


def test_a_run_that_finds_nothing_reads_the_log_and_no_more(
    store_root: StoreRoot, tmp_path: Path
) -> None:
    appender = Appender(opened(store_root))
    for number in range(5):
        appender.append(pa.table({"id": [number]}))
    merge(store_root, tmp_path)
    report = merge(store_root, tmp_path)
    spent = {k: v for k, v in report.requests.items() if v and not k.startswith("bytes")}
    assert spent == {"list": 2, "get": 1}


EVERYTHING = {
    "i": pa.array([1, None, 3], pa.int64()),
    "s": pa.array(["é", None, ""], pa.string()),
    "dec": pa.array([Decimal("1.50"), None, Decimal("-2.25")], pa.decimal128(12, 2)),
    "ts": pa.array([1_357_016_400_000_000, None, 1], pa.timestamp("us")),
    "tz": pa.array([1_357_016_400_000_000, None, 0], pa.timestamp("us", "UTC")),
    "day": pa.array([datetime.date(2013, 1, 1), None, None], pa.date32()),
    "bin": pa.array([b"\x00\xff", None, b""], pa.binary()),
    "list": pa.array([[1, None], None, []], pa.list_(pa.int32())),
    "nest": pa.array(
        [{"a": 1, "b": ["x"]}, None, {"a": None, "b": None}],
        pa.struct([("a", pa.int32()), ("b", pa.list_(pa.string()))]),
    ),
    "map": pa.array([[("k", 1)], None, []], pa.map_(pa.string(), pa.int32())),
    "nul": pa.array([None, None, None], pa.float64()),
}


def test_every_type_and_every_null_survives_append_and_merge(
    store_root: StoreRoot, tmp_path: Path
) -> None:
    rows = pa.table(EVERYTHING)
    appender = Appender(opened(store_root))
    for _ in range(3):
        appender.append(rows)
    appender.append(pa.table({"i": pa.array([7], pa.int64()), "late": ["new column"]}))
    before = [row for table in read(store_root, tmp_path) for row in table.to_pylist()]
    merge(store_root, tmp_path / "scratch")
    (after,) = read(store_root, tmp_path)
    assert after.num_rows == len(before) == 10
    expected = [repr({n: row.get(n) for n in after.column_names}) for row in before]
    assert Counter(repr(row) for row in after.to_pylist()) == Counter(expected)
    for name in EVERYTHING:
        kept = after.schema.field(name).type
        assert kept.equals(rows.schema.field(name).type) or str(kept) == str(
            rows.schema.field(name).type
        ).replace("item", "element"), (name, kept)


def test_columns_of_the_path_never_replace_columns_of_the_file(
    store_root: StoreRoot, tmp_path: Path
) -> None:
    settings = {"partition": "day=.*"}
    appender = Appender(opened(store_root, **settings))
    for number in range(4):
        rows = pa.table({"day": [f"in the file {number}"]})
        appender.append(rows, partition="day=path", agree=False)
    merge(store_root, tmp_path / "scratch", **settings)
    (after,) = read(store_root, tmp_path)
    assert sorted(after.column("day").to_pylist()) == [f"in the file {n}" for n in range(4)]
