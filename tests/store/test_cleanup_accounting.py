"""What a clean-up and a sweep cost on a real store, and that rows stay as they are."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from time import sleep
from typing import Any

import boto3
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firnline.appends.append import Appender
from firnline.clock import SystemClock
from firnline.commit.base import take_base
from firnline.commit.transaction import Change, commit
from firnline.errors import StoreAccessError, StoreUnavailableError
from firnline.ids import SystemIds
from firnline.kernel.local import LocalEngine
from firnline.log import codec
from firnline.log.records import LogContent, Marker
from firnline.log.txn_file import Counts, RunIdentity
from firnline.operations.cleanup.run import CleanupReport, run_cleanup
from firnline.operations.merge.run import run_merge
from firnline.operations.operation import Work
from firnline.operations.options import CleanupOptions, MergeOptions, SweepOptions
from firnline.operations.sweep.run import WAITING, preview, run_sweep
from firnline.state.snapshot import read_snapshot
from firnline.store.access import StoreAccess
from firnline.store.base import Counters
from firnline.store.multipart import open_uploads
from firnline.store.probe import forget
from firnline.store.upload import Upload
from firnline.table import Table
from tests.store.test_merge_accounting import opened
from tests.support.commit_costs import CHECK
from tests.support.world import SetClock
from tools.s3server import S3Server, StoreRoot

RUN = RunIdentity(run_id="r")
DAY = 86_400_000
FIXED = 11
"""Requests besides deletes, and the log files before and after."""


def later(table: Table, ms: int) -> Table:
    """The same table, so much later."""
    now = SystemClock().now_ms()
    return replace(table, clock=SetClock(now=now + ms))


def merged(root: StoreRoot, scratch: Path, appends: int, **settings: Any) -> Table:
    """Appends of two partitions each, all merged."""
    table = opened(root, partition_by=["day"], **settings)
    appender = Appender(table)
    for number in range(appends):
        appender.append(pa.table({"id": [number, number + 1], "day": ["mo", "tu"]}))
    engine = LocalEngine(lambda: opened(root).store, scratch, SystemIds(), SystemClock())
    run_merge(Work(table, RUN, lambda: engine), MergeOptions())
    return table


def ids(root: StoreRoot, tmp_path: Path) -> Counter[int]:
    """Ids of all live rows, read from the objects."""
    table, found = opened(root), Counter[int]()
    for number, key in enumerate(read_snapshot(table.store, table.paths).live):
        path = tmp_path / f"read-{number}.parquet"
        table.store.get_file(key, path)
        found.update(pq.read_table(path, partitioning=None).column("id").to_pylist())
    return found


def spent(report: CleanupReport) -> int:
    return sum(report.requests[kind] for kind in ("get", "put", "list", "delete", "head"))


def test_a_clean_up_is_its_deletes_and_few_requests_more(
    store_root: StoreRoot, tmp_path: Path
) -> None:
    table = merged(store_root, tmp_path / "scratch", 40)
    before = ids(store_root, tmp_path)
    dead = [p for p, m in read_snapshot(table.store, table.paths).parts.items() if m.tmb]
    forget()  # the probe is part of what a run costs
    report = run_cleanup(Work(later(table, 2 * DAY), RUN), CleanupOptions())
    assert (report.parts, report.log_files, len(dead)) == (80, 40, 80)
    deletes = 1 if store_root.kind == "s3" else 120
    assert report.requests["delete"] == deletes + 1  # the probe deletes its object
    log_files = 41 + 1
    assert spent(report) - deletes <= FIXED + log_files
    assert report.requests["retries"] == 0
    assert ids(store_root, tmp_path) == before
    assert [meta.key for meta in table.store.list(table.paths.data_dir)] == sorted(
        read_snapshot(table.store, table.paths).live
    )
    again = run_cleanup(Work(later(table, 2 * DAY), RUN), CleanupOptions())
    assert {k: v for k, v in again.requests.items() if v and not k.startswith("bytes")} == {
        "list": 2,
        "get": 2,
    }


def test_n_objects_are_a_thousandth_of_n_requests_on_s3(s3_root: StoreRoot) -> None:
    """Of a table whose log has few files: at most 20 requests besides the deletes."""
    table = opened(s3_root, cleanup={"deletes_per_second": 1_000_000})
    many_parts(table, 2_500)
    forget()
    report = run_cleanup(Work(later(table, 2 * DAY), RUN), CleanupOptions())
    assert report.parts == 2_500
    assert report.requests["delete"] == 3 + 1
    assert spent(report) - 3 <= 20


def many_parts(table: Table, count: int) -> None:
    """One append of so many parts, and a transaction that buries them all."""
    now = table.clock.now_ms()
    keys = [table.paths.data_part("d=1", table.ids.uuid7(now)) for _ in range(count)]
    markers = [Marker(p=key, b=100, t=now, n=0, q=0) for key in keys]
    log = codec.encode(LogContent(t=now, schema={"a": "INTEGER"}, markers=markers))
    table.store.put_new(table.paths.append_log(now, f"w-{table.ids.uuid7(now)}"), log)
    change = Change(op="drop", replaces=tuple(keys), adds=(), counts=Counts(parts_in=count))
    commit(table, take_base(table), change, RUN)


def test_a_sweep_finds_what_a_dead_run_left(store_root: StoreRoot, tmp_path: Path) -> None:
    table = merged(store_root, tmp_path / "scratch", 4)
    before = ids(store_root, tmp_path)
    orphans = [
        table.paths.data_part("day=mo", table.ids.uuid7(table.clock.now_ms())) for _ in range(3)
    ]
    for key in orphans:
        table.store.put_new(key, b"half a part")
    assert preview(table, SweepOptions()).young == 3
    sleep(1.1)  # S3 states whole seconds
    forget()
    marked = run_sweep(Work(later(table, 4 * DAY), RUN), SweepOptions())
    assert (marked.deleted, marked.left) == (0, {WAITING: 3}), "nothing was committed since"
    # The base, `_data/`, `_probe/`, `_erase/`, `_txn/` and `_prepared/`, and uploads; the mark, and
    # the state after it.
    listings = 9 if store_root.kind == "s3" else 7
    assert marked.requests["list"] == listings + CHECK + 2
    assert marked.requests["put"] == 2 + 2
    report = run_sweep(Work(later(table, 8 * DAY), RUN), SweepOptions())
    assert (report.orphans, report.deleted, report.bytes) == (3, 3, 33)
    assert report.requests["delete"] == (1 if store_root.kind == "s3" else 3)
    assert report.requests["list"] == listings + CHECK + 2
    assert report.requests["put"] == 2, "the fence"
    assert ids(store_root, tmp_path) == before
    again = run_sweep(Work(later(table, 8 * DAY), RUN), SweepOptions())
    assert (again.orphans, again.requests["list"], again.requests["put"]) == (0, listings, 0)


def s3_client(server: S3Server) -> Any:
    return boto3.client(
        "s3",
        endpoint_url=server.endpoint,
        region_name=server.region,
        aws_access_key_id=server.access_key,
        aws_secret_access_key=server.secret_key,
    )


def test_uploads_that_were_never_completed_are_aborted(
    s3_server: S3Server, s3_root: StoreRoot, tmp_path: Path
) -> None:
    table = merged(s3_root, tmp_path / "scratch", 4)
    before = ids(s3_root, tmp_path)
    client, bucket = s3_client(s3_server), s3_server.bucket
    (named, *_) = read_snapshot(table.store, table.paths).live
    abandoned = [table.paths.data_part("day=mo", table.ids.uuid7(table.clock.now_ms())), named]
    for key in abandoned:
        begun = client.create_multipart_upload(Bucket=bucket, Key=key)
        client.upload_part(
            Bucket=bucket, Key=key, UploadId=begun["UploadId"], PartNumber=1, Body=b"x" * 100
        )
    assert preview(table, SweepOptions()).young == 2
    made = preview(later(table, 4 * DAY), SweepOptions())
    assert sorted(o.key.partition("?")[0] for o in made.orphans) == sorted(abandoned)
    assert {o.kind for o in made.orphans} == {"upload"}
    one = run_sweep(Work(later(table, 4 * DAY), RUN), SweepOptions(approved=(made.orphans[0].key,)))
    assert (one.uploads_aborted, one.left) == (1, {"was not approved": 1})
    report = run_sweep(Work(later(table, 4 * DAY), RUN), SweepOptions())
    assert (report.uploads_aborted, report.deleted) == (1, 1)
    assert ids(s3_root, tmp_path) == before
    assert run_sweep(Work(later(table, 4 * DAY), RUN), SweepOptions()).orphans == 0


def test_an_upload_that_is_gone_already_counts_as_aborted(s3_root: StoreRoot) -> None:
    uploads = open_uploads(s3_root.url, StoreAccess.from_env(s3_root.env), Counters())
    assert uploads is not None
    assert uploads.abort(Upload("nobody/knows.parquet", "no-such-id", 0)) is None


def test_uploads_of_a_bucket_that_is_not_there_are_an_error_that_names_it(
    s3_server: S3Server,
) -> None:
    counters = Counters()
    uploads = open_uploads(
        "s3://nobody-has-this/t", StoreAccess.from_env(s3_server.env()), counters
    )
    assert uploads is not None
    with pytest.raises(StoreAccessError, match=r"nobody-has-this.*NoSuchBucket"):
        list(uploads.list("t/_data/"))
    assert counters.list == 1


def test_a_store_that_does_not_answer_is_said_to_be_unavailable() -> None:
    access = StoreAccess(
        endpoint="http://127.0.0.1:9", region="us-east-1", access_key="a", secret_key="b"
    )
    uploads = open_uploads("s3://bucket/t", access, Counters(), attempts=1)
    assert uploads is not None
    with pytest.raises(StoreUnavailableError, match="EndpointConnectionError"):
        list(uploads.list("t/_data/"))
    error = uploads.abort(Upload("t/_data/x", "u", 0))
    assert isinstance(error, StoreUnavailableError)


def test_a_folder_has_staged_files_instead_of_uploads(tmp_path: Path) -> None:
    assert open_uploads("memory://bucket/t", None, Counters()) is None
    counters = Counters()
    found = open_uploads(f"file://{tmp_path}/t", None, counters)
    assert found is not None
    assert list(found.list("t/_data/")) == []
    assert list(found.list_free(["t/_data/", "t/_log/"])) == []
    folder = tmp_path / "t" / "_data" / "c=1"
    folder.mkdir(parents=True)
    for name in ("x.parquet", "x.parquet#1", "y#z"):
        (folder / name).write_bytes(b"half")
    (upload,) = found.list("t/_data/")
    assert (upload.key, upload.upload_id) == ("t/_data/c=1/x.parquet", "#1")
    assert found.abort(upload) is None
    assert found.abort(upload) is None
    assert sorted(path.name for path in folder.iterdir()) == ["x.parquet", "y#z"]


def test_a_sweep_takes_what_a_killed_process_had_staged_in_a_folder(tmp_path: Path) -> None:
    root = StoreRoot("file", f"file://{tmp_path}/store")
    table = merged(root, tmp_path / "scratch", 2)
    folder = tmp_path / "store" / "t"
    small = ("_log", "_txn", "_ckpt", "_prepared", "_runs/r", "_probe", "_delta_log", "_iceberg/m")
    staged = [
        *(folder / "_data" / "x.parquet#1", folder / "_erase" / "y.keys.parquet#2"),
        *(folder / name / "z#3" for name in small),
    ]
    for path in staged:
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_bytes(b"half")
    assert run_sweep(Work(table, RUN), SweepOptions()).young == len(staged)
    assert all(path.exists() for path in staged)
    swept = run_sweep(Work(later(table, 4 * DAY), RUN), SweepOptions())
    assert swept.uploads_aborted == len(staged)
    assert not any(path.exists() for path in staged)
