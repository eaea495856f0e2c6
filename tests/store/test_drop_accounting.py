"""What a drop and a TTL cost on a real store: requests that do not grow with what goes."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from firnline.appends.append import Appender
from firnline.log.txn_file import RunIdentity
from firnline.operations.drop.run import list_partitions, preview, run_drop
from firnline.operations.drop.ttl import run_ttl
from firnline.operations.operation import Work
from firnline.operations.options import DropOptions, TtlOptions
from firnline.settings.load import TableSettings
from firnline.state.snapshot import read_snapshot
from firnline.store.access import StoreAccess
from firnline.store.probe import forget
from firnline.table import Table, open_table
from tests.support.commit_costs import FIRST_CHECK
from tools.s3server import StoreRoot

RUN = RunIdentity(run_id="r")
APPENDS = 5
DAYS = [f"2013-01-{day:02d}" for day in range(1, 11)]


def opened(root: StoreRoot, **settings: Any) -> Table:
    access = StoreAccess.from_env(root.env) if root.kind == "s3" else None
    declared = TableSettings.model_validate({"name": "t", "root": f"{root.url}/t", **settings})
    return open_table(declared, access)


def filled(root: StoreRoot) -> None:
    """Ten partitions of five parts each, and one without a date."""
    appender = Appender(opened(root, partition="day=.*"))
    for number in range(APPENDS):
        for day in DAYS:
            appender.append(pa.table({"id": [number, number]}), partition=f"day={day}")
    appender.append(pa.table({"id": [1]}), partition="day=unknown")


LOG_FILES = APPENDS * len(DAYS) + 1
DROP = {"get": LOG_FILES + 1, "put": 2 + 2, "list": 2 + FIRST_CHECK, "delete": 1}
"""The first commit of this table, with the probe."""


def spent(requests: dict[str, int]) -> dict[str, int]:
    kinds = ("get", "put", "list", "head", "delete", "retries")
    return {kind: requests[kind] for kind in kinds if requests[kind]}


@pytest.mark.parametrize("partitions", [1, 7])
def test_a_drop_is_the_log_reads_four_listings_two_puts_and_once_the_probe(
    store_root: StoreRoot, partitions: int
) -> None:
    filled(store_root)
    chosen = tuple(f"day={day}" for day in DAYS[:partitions])
    forget()
    report = run_drop(Work(opened(store_root), RUN), DropOptions(partitions=chosen))
    assert (report.parts, report.rows) == (APPENDS * partitions, 2 * APPENDS * partitions)
    assert spent(report.requests) == DROP
    table = opened(store_root)
    left = read_snapshot(table.store, table.paths)
    assert set(left.partitions) == {f"day={day}" for day in DAYS[partitions:]} | {"day=unknown"}
    # The drop folded the appends: who comes next reads one log file.
    again = opened(store_root)
    assert preview(again, DropOptions(partitions=("day=unknown",))).parts == 1
    assert spent(again.store.counters.as_dict()) == {"get": 1, "list": 2}


def test_a_list_of_partitions_is_two_listings_and_the_log_reads(store_root: StoreRoot) -> None:
    filled(store_root)
    table = opened(store_root)
    found = list_partitions(table)
    assert [p.parts for p in found] == [APPENDS] * len(DAYS) + [1]
    assert sum(p.rows or 0 for p in found) == 2 * APPENDS * len(DAYS) + 1
    assert spent(table.store.counters.as_dict()) == {"get": LOG_FILES, "list": 2}


def test_a_ttl_costs_what_a_drop_costs_and_a_second_one_only_reads(store_root: StoreRoot) -> None:
    filled(store_root)
    ttl = {"ttl": {"keep": "90d", "partition": r"day=(?P<day>\d{4}-\d{2}-\d{2})"}}
    forget()
    report = run_ttl(Work(opened(store_root, **ttl), RUN), TtlOptions(force=True))
    assert (report.parts, report.partition_count) == (APPENDS * len(DAYS), len(DAYS))
    assert [u.partition for u in report.undecided] == ["day=unknown"]
    assert spent(report.requests) == DROP
    again = run_ttl(Work(opened(store_root, **ttl), RUN), TtlOptions(force=True))
    assert spent(again.requests) == {"get": 1, "list": 2}
    assert again.transaction is None
