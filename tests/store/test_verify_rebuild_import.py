"""Verify, rebuild, import and downgrade on real stores: that they work, and what they cost."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firnline.appends.append import Appender
from firnline.clock import SystemClock
from firnline.errors import UsageError
from firnline.ids import SystemIds
from firnline.kernel.local import LocalEngine
from firnline.log import codec
from firnline.log.records import LogContent, Marker
from firnline.log.txn_file import RunIdentity
from firnline.operations.downgrade.run import run_downgrade
from firnline.operations.import_files.run import run_import
from firnline.operations.import_options import ImportOptions
from firnline.operations.merge.run import run_merge
from firnline.operations.operation import Work
from firnline.operations.options import (
    DowngradeOptions,
    MergeOptions,
    RebuildOptions,
    VerifyOptions,
)
from firnline.operations.rebuild.run import run_rebuild
from firnline.operations.verify.run import VerifyReport, run_verify
from firnline.state.snapshot import read_snapshot
from firnline.store.probe import forget
from firnline.table import Table
from tests.store.conftest import lay
from tests.store.test_merge_accounting import opened
from tools.s3server import S3Server, StoreRoot

RUN = RunIdentity(run_id="r")
SETTINGS: dict[str, Any] = {"partition_by": ["day"], "sort_by": ["id"]}
APPENDS = 6


def filled(root: StoreRoot, scratch: Path) -> Table:
    """Appends, a merge, and one append that no transaction names."""
    table = opened(root, **SETTINGS)
    appender = Appender(table)
    for number in range(APPENDS):
        appender.append(rows(number))
    engine = LocalEngine(
        lambda: opened(root, **SETTINGS).store, scratch, SystemIds(), SystemClock()
    )
    run_merge(Work(table, RUN, lambda: engine), MergeOptions())
    appender.append(rows(APPENDS))
    return opened(root, **SETTINGS)


def rows(number: int) -> pa.Table:
    return pa.table({"id": [2 * number, 2 * number + 1], "day": ["mo", "tü/1"]})


def ids(table: Table, scratch: Path) -> Counter[int]:
    found: Counter[int] = Counter()
    for key in read_snapshot(table.store, table.paths).live:
        path = scratch / "read.parquet"
        table.store.get_file(key, path)
        found.update(pq.read_table(path, partitioning=None).column("id").to_pylist())
    return found


def spent(requests: dict[str, int]) -> dict[str, int]:
    return {k: v for k, v in requests.items() if v and not k.startswith("bytes")}


def verify(table: Table, *, deep: bool = True) -> VerifyReport:
    return run_verify(Work(table), VerifyOptions(deep=deep))


def test_a_check_costs_the_log_six_listings_and_deep_a_get_for_each_part(
    store_root: StoreRoot, tmp_path: Path
) -> None:
    table = filled(store_root, tmp_path)
    report = verify(table, deep=False)
    assert (report.kinds, report.checked.live_parts) == ({}, 4)
    log_files = APPENDS + 2
    # The log files, the transaction, the birth record.
    assert spent(report.requests) == {"get": log_files + 2, "list": 6}
    deep = verify(table)
    assert spent(deep.requests) == {"get": log_files + 2 + 4, "list": 6}
    assert deep.checked.footer_rows == 2 * (APPENDS + 1)


def test_a_check_of_many_parts_costs_a_request_for_each_thousand(
    s3_root: StoreRoot, s3_server: S3Server
) -> None:
    table = opened(s3_root)
    keys = [table.paths.data_part("", SystemIds().uuid7(1)) for _ in range(2_500)]
    t = SystemClock().now_ms()
    markers = [Marker(p=key, b=len(key), t=t, n=1) for key in keys]
    content = LogContent(t=t, schema={"id": "BIGINT"}, markers=markers)
    table.store.put_new(table.paths.append_log(t, "w-1"), codec.encode(content))
    lay(s3_server, keys[5:])
    fresh = opened(s3_root)
    report = verify(fresh, deep=False)
    assert report.kinds == {"part-missing": 5}
    # 2,495 objects on three pages; the other folders on one each. And the log once more, since it
    # names parts without an object.
    assert spent(report.requests) == {"get": 2, "list": 8 + 2}


def lose_log(table: Table) -> None:
    list(table.store.delete_many([meta.key for meta in table.store.list(table.paths.log_dir)]))


def test_a_lost_log_is_rebuilt(store_root: StoreRoot, tmp_path: Path) -> None:
    table = filled(store_root, tmp_path)
    before = read_snapshot(table.store, table.paths)
    lose_log(table)
    forget()  # the probe is part of what a run costs
    report = run_rebuild(Work(opened(store_root, **SETTINGS), RUN), RebuildOptions())
    after = read_snapshot(table.store, table.paths)
    assert after.live.keys() == before.live.keys()
    assert {m.p: (m.b, m.n, m.q, m.stats()) for m in after.live.values()} == {
        m.p: (m.b, m.n, m.q, m.stats()) for m in before.live.values()
    }
    assert ids(table, tmp_path) == Counter(range(2 * (APPENDS + 1)))
    # The transaction, the birth record, the two parts that nobody names, the probe of the store.
    assert spent(report.requests) == {"get": 5, "put": 4, "list": 10, "delete": 1}
    assert verify(table).healthy
    with pytest.raises(UsageError, match="is whole: it is readable"):
        run_rebuild(Work(table, RUN), RebuildOptions())


def test_a_folder_is_imported_by_copies_of_the_store(store_root: StoreRoot, tmp_path: Path) -> None:
    table = opened(store_root, **SETTINGS)
    files = 20
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"id": list(range(100_000)), "day": ["mo"] * 100_000}), path)
    size = path.stat().st_size
    folder = f"{table.paths.prefix.rpartition('/')[0]}/in put".lstrip("/")
    for number in range(files):
        table.store.put_file(f"{folder}/{number}=ü.parquet", path)
    table = opened(store_root, **SETTINGS)
    report = run_import(Work(table), ImportOptions(source=f"{store_root.url}/in put"))
    # Three PUT for the list of files, its claim, and that it is visible; LIST for each folder
    # above, of other formats, one for lists of before, and the folder once more.
    above = 4 * folder.count("/")
    assert spent(report.requests) == {"get": files, "put": files + 5, "list": 6 + above}
    # Footers: at most the last 64 KiB of each file, and of the rows nothing but those.
    assert size > 400_000
    assert report.requests["bytes_in"] <= files * 65_536
    assert report.requests["bytes_out"] < 20_000
    assert sum(ids(table, tmp_path).values()) == files * 100_000
    assert list(read_snapshot(table.store, table.paths).partitions) == ["day=mo"]
    assert len([*table.store.list(f"{folder}/")]) == files, "the source stays"
    assert verify(table).healthy


def test_files_to_split_cost_a_get_each_and_large_ones_those_of_their_row_groups(
    store_root: StoreRoot, tmp_path: Path
) -> None:
    settings = {**SETTINGS, "append": {"part_bytes": "1MiB"}}
    table = opened(store_root, **settings)
    folder = f"{table.paths.prefix.rpartition('/')[0]}/in".lstrip("/")

    def put(name: str, first: int, count: int, days: list[str], **how: Any) -> None:
        rows = {
            "id": range(first, first + count),
            "day": [days[n % len(days)] for n in range(count)],
        }
        pq.write_table(pa.table(rows), tmp_path / name, **how)
        table.store.put_file(f"{folder}/{name}", tmp_path / name)

    put("0.parquet", 0, 10, ["mo", "tu"])
    put("1.parquet", 10, 10, ["mo", "tu"])
    put("2.parquet", 20, 10, ["mo"])
    # Four row groups of 0.6 MiB: one task each.
    plain = {"use_dictionary": False, "compression": "none"}
    put("3.parquet", 30, 200_000, ["mo", "tu"], row_group_size=50_000, **plain)
    table = opened(store_root, **settings)
    kernels = LocalEngine(
        lambda: opened(store_root, **settings).store, tmp_path, SystemIds(), SystemClock(), 2
    )
    options = ImportOptions(source=f"{store_root.url}/in", split=True)
    report = run_import(Work(table, engine=lambda: kernels), options)
    # The footers; the two small files, in the task of the first row group; a footer and a row group
    # for each of four tasks.
    assert spent(report.requests) == {
        "get": 4 + 2 + 4 * 2,
        "put": 1 + report.parts_written + 5,
        "list": 6 + 4 * folder.count("/"),
    }
    assert report.parts_written == 2 * 4
    assert ids(table, tmp_path) == Counter(range(200_030))
    assert list(read_snapshot(table.store, table.paths).partitions) == ["day=mo", "day=tu"]
    assert verify(table).healthy


def test_a_table_is_downgraded_and_still_reads(store_root: StoreRoot, tmp_path: Path) -> None:
    table = filled(store_root, tmp_path)
    before = read_snapshot(table.store, table.paths).live.keys()
    engine = LocalEngine(lambda: table.store, tmp_path, SystemIds(), SystemClock())
    report = run_downgrade(
        Work(opened(store_root, **SETTINGS), RUN, lambda: engine), DowngradeOptions()
    )
    assert report.transactions == (2,)
    assert read_snapshot(table.store, table.paths).live.keys() == before
    assert ids(table, tmp_path) == Counter(range(2 * (APPENDS + 1)))
    assert verify(table).healthy
