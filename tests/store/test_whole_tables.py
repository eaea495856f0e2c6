"""Listing and ending whole tables on real stores: what it costs, and that nothing is left."""

from __future__ import annotations

import itertools
import os
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from firnline.api import list_tables
from firnline.appends.append import Appender
from firnline.clock import SystemClock
from firnline.log.txn_file import RunIdentity
from firnline.operations.drop_table.run import preview, run_drop_table
from firnline.operations.operation import Work
from firnline.operations.options import DropTableOptions
from firnline.operations.tables.run import list_below
from firnline.paths import Root
from firnline.settings.load import TableSettings
from firnline.store.access import StoreAccess
from firnline.store.client import open_store
from firnline.store.probe import forget
from firnline.table import Table, open_table
from tools.s3server import S3Server, StoreRoot

NAME = DropTableOptions(name="t")
SHORT = {"append": {"ttl": "1m"}, "commit_ttl": "1m", "cleanup": {"grace": "1m"}}


def access_of(root: StoreRoot) -> StoreAccess | None:
    return StoreAccess.from_env(root.env) if root.kind == "s3" else None


def opened(root: StoreRoot, place: str = "t") -> Table:
    declared = TableSettings.model_validate({"name": "t", "root": f"{root.url}/{place}", **SHORT})
    return open_table(declared, access_of(root))


class Later(SystemClock):
    """A machine whose clock is two minutes ahead."""

    def now_ms(self) -> int:
        return super().now_ms() + 120_000


def spent(requests: dict[str, int]) -> dict[str, int]:
    kinds = ("get", "put", "list", "head", "delete", "retries")
    return {kind: requests[kind] for kind in kinds if requests[kind]}


def test_tables_below_a_place_are_one_listing_a_folder_and_three_a_table(
    store_root: StoreRoot,
) -> None:
    for place in ("a", "plain/b c", "plain/d%20e"):
        for number in range(2):
            Appender(opened(store_root, place)).append(pa.table({"id": [number]}))
    report = list_below(store_root.url, access=access_of(store_root))
    ends = [each.root.removeprefix(f"{store_root.url}/") for each in report.tables]
    assert ends == ["a", "plain/b c", "plain/d%20e"]
    assert [(each.parts, each.rows, each.state) for each in report.tables] == [
        (2, 2, "readable")
    ] * 3
    assert spent(report.requests) == {"list": 5 + 3 * 3, "get": 3 * 2}
    shallow = list_below(store_root.url, access=access_of(store_root), shallow=True)
    assert spent(shallow.requests) == {"list": 5}
    only = list_tables(f"{store_root.url}/plain", depth=1, access=access_of(store_root))
    assert [each.state for each in only] == ["readable", "readable"]


def test_the_clock_of_the_store_holds_a_machine_back_that_is_ahead(store_root: StoreRoot) -> None:
    table = opened(store_root)
    Appender(table).append(pa.table({"id": [1]}))
    run_drop_table(Work(table, RunIdentity()), NAME)
    ahead = replace(table, clock=Later())
    assert preview(ahead, NAME).phase == "delete"
    report = run_drop_table(Work(ahead, RunIdentity()), NAME)
    assert (report.plan["phase"], report.deleted) == ("wait", 0)
    assert (report.requests["put"], report.requests["delete"]) == (1, 1)


def aged(root: StoreRoot, server: S3Server) -> None:
    """Make every object an hour older, as files of the store."""
    folder = Path(root.url.removeprefix("file://"))
    if root.kind == "s3":
        folder = server.data_dir / root.url.removeprefix("s3://")
    for path in folder.rglob("*"):
        modified = path.stat().st_mtime - 3_600
        os.utime(path, (modified, modified))


def test_every_object_of_a_dropped_table_is_deleted_and_nothing_beside_it(
    store_root: StoreRoot, s3_server: S3Server
) -> None:
    forget()
    table, beside = opened(store_root), opened(store_root, "t2")
    for number, each in itertools.product(range(3), (table, beside)):
        Appender(each).append(pa.table({"id": [number]}))
    assert run_drop_table(Work(table, RunIdentity()), NAME).transaction == 1
    assert preview(table, NAME).phase == "wait"
    aged(store_root, s3_server)
    report = run_drop_table(Work(opened(store_root), RunIdentity()), NAME)
    # 3 parts, 4 log files, a transaction and the birth record
    assert report.deleted == 3 + 4 + 2
    batches = {"s3": 1 + 5, "file": 1 + 9}[store_root.kind]
    # of a base, the history, all objects, twice what is left; on S3 the uploads
    lists = 2 + 1 + 1 + 2 + (store_root.kind == "s3")
    gets = 4 + 1
    assert spent(report.requests) == {
        "get": gets, "put": 1, "list": lists, "head": 2, "delete": batches
    }  # fmt: skip
    left = open_store(f"{store_root.url}/t", access_of(store_root))
    prefix = Root.parse(f"{store_root.url}/t").prefix
    assert list(left.list(f"{prefix}/")) == []
    assert len(list(left.list(f"{prefix}2/"))) == 3 + 3 + 1, "its neighbour is untouched"
    assert list_below(store_root.url, access=access_of(store_root)).tables[0].parts == 3
