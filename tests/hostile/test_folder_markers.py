"""Folder markers, as the consoles of stores make them: no operation takes one for an object."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import boto3
import pytest

from firnline.operations.operation import Work
from firnline.operations.options import SweepOptions, VerifyOptions
from firnline.operations.sweep.run import preview
from firnline.operations.verify.run import run_verify
from firnline.paths import Root
from firnline.store import multipart
from firnline.store.access import StoreAccess
from firnline.store.client import open_store
from firnline.table import Table
from tests.support.operations import READS, SCENARIOS
from tests.support.places import FolderPlace, MemoryPlace, Place
from tests.support.scenarios import DAY, PARTITIONED, Scenario, advance, fill
from tests.support.sweeping import lay_out, seen_of
from tools.s3server import S3Server, StoreRoot

FOLDERS = (
    *("", "_log/", "_txn/", "_data/", "_erase/", "_runs/", "_ckpt/", "_prepared/", "_probe/"),
    *("_delta_log/", "_delta_vectors/", "_iceberg/", "_iceberg/metadata/", "_iceberg/shown/"),
    *("_log/old/", "_txn/old/", "_data/day=0/", "_data/day=1/", "_data/day=9/", "_data/p/"),
)
Mark = Callable[[Table], None]


def client_of(server: S3Server) -> Any:
    return boto3.client(
        "s3",
        endpoint_url=server.endpoint,
        region_name=server.region,
        aws_access_key_id=server.access_key,
        aws_secret_access_key=server.secret_key,
    )


def marked_in_memory(table: Table) -> None:
    objects: dict[str, tuple[bytes, int]] = table.store.objects  # type: ignore[attr-defined]
    for folder in FOLDERS:
        objects[f"{table.paths.prefix}/{folder}"] = (b"", table.clock.now_ms())


@pytest.fixture(params=["memory", "s3"])
def marking(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[Place, Mark]:
    if request.param == "memory":
        return MemoryPlace(), marked_in_memory
    # boto3 takes a quarter of a second for a client.
    monkeypatch.setattr(multipart, "s3_client", functools.cache(multipart.s3_client))
    server: S3Server = request.getfixturevalue("s3_server")
    root: StoreRoot = request.getfixturevalue("s3_root")
    client = client_of(server)

    def mark(table: Table) -> None:
        for folder in FOLDERS:
            key = f"{table.paths.prefix}/{folder}"
            client.put_object(Bucket=server.bucket, Key=key, Body=b"")

    folder = server.data_dir / root.url.removeprefix("s3://")
    access = StoreAccess.from_env(root.env)
    return FolderPlace("s3", root.url, folder, tmp_path / "copies", access), mark


@pytest.mark.parametrize("scenario", [*SCENARIOS, *READS], ids=str)
def test_no_operation_takes_a_folder_marker_for_an_object(
    scenario: Scenario, marking: tuple[Place, Mark], tmp_path: Path
) -> None:
    place, mark = marking
    (tmp_path / "scratch").mkdir()
    start = lay_out(place, scenario, tmp_path / "scratch")
    call = start.fresh()
    mark(call.table)
    assert seen_of(scenario, call.table) == start.before
    scenario.run(call)
    assert seen_of(scenario, call.table) == start.after


def test_a_check_tells_of_folder_markers_once_and_a_sweep_keeps_none_as_an_orphan(
    marking: tuple[Place, Mark], tmp_path: Path
) -> None:
    place, mark = marking
    table = place.new(dict(PARTITIONED))
    fill(table)
    mark(table)
    report = run_verify(Work(table), VerifyOptions(deep=True, rows=True))
    assert dict(report.kinds) == {"folder-marker": 1}
    (finding,) = report.findings
    assert (finding.severity, finding.object) == ("note", f"{table.paths.prefix}/_ckpt/")
    objects = report.checked.objects
    assert objects == report.checked.live_parts == 4
    advance(table, 30 * DAY)
    assert preview(table, SweepOptions()).orphans == ()


def test_a_marker_between_objects_with_its_name_does_not_disturb_their_order(
    s3_server: S3Server, s3_root: StoreRoot
) -> None:
    client, store = client_of(s3_server), open_store(s3_root.url, StoreAccess.from_env(s3_root.env))
    prefix = f"{Root.parse(s3_root.url).prefix}/"
    for name in ("", "x/", "x-1", "x/a", "x/b/"):
        body = b"" if not name or name.endswith("/") else b"rows"
        client.put_object(Bucket=s3_server.bucket, Key=f"{prefix}{name}", Body=body)
    assert [meta.key.removeprefix(prefix) for meta in store.list(prefix)] == ["x-1", "x/a"]
    after = store.list(prefix, f"{prefix}x-1")
    assert [meta.key.removeprefix(prefix) for meta in after] == ["x/a"]
    assert store.folder_markers == {prefix, f"{prefix}x/", f"{prefix}x/b/"}
