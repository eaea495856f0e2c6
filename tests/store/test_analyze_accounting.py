"""What an analyze costs on a real store: a ranged GET for each part, and two PUT."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from firnline.appends.append import Appender
from firnline.log.txn_file import RunIdentity
from firnline.operations.analyze import run as analyze
from firnline.operations.analyze.run import run_analyze
from firnline.operations.operation import Work
from firnline.operations.options import AnalyzeOptions
from firnline.operations.properties.run import run_apply
from firnline.settings.load import TableSettings
from firnline.store.access import StoreAccess
from firnline.store.probe import forget
from firnline.table import Table, open_table
from tests.support.commit_costs import CHECK
from tools.s3server import StoreRoot

RUN = RunIdentity(run_id="r")
PARTS = 12
PROBE = {"get": 1, "put": 2, "delete": 1}


def opened(root: StoreRoot, **settings: Any) -> Table:
    access = StoreAccess.from_env(root.env) if root.kind == "s3" else None
    declared = TableSettings.model_validate({"name": "t", "root": f"{root.url}/t", **settings})
    return open_table(declared, access)


def filled(root: StoreRoot, columns: int = 1) -> None:
    """Parts from before the table kept bounds of x."""
    appender = Appender(opened(root))
    for number in range(PARTS):
        rows = {f"c{place:04d}": [number] for place in range(columns)}
        appender.append(pa.table({"x": [number], **rows}))
    run_apply(opened(root, statistics=["x"]), RUN)


def spent(requests: dict[str, int]) -> dict[str, int]:
    kinds = ("get", "put", "list", "head", "delete", "retries")
    return {kind: requests[kind] for kind in kinds if requests[kind]}


@pytest.mark.parametrize("transactions", [1, 3])
def test_an_analyze_is_a_get_for_each_part_and_two_puts_and_a_list_for_each_transaction(
    store_root: StoreRoot, transactions: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(store_root)
    monkeypatch.setattr(analyze, "BATCH", PARTS // transactions)
    forget()
    report = run_analyze(Work(opened(store_root), RUN), AnalyzeOptions())
    assert report.parts == PARTS
    assert len(report.transactions) == transactions
    assert spent(report.requests) == {
        "get": 1 + PARTS + PROBE["get"],  # one log file: that of the properties
        "put": 2 * transactions + PROBE["put"],
        "list": 2 + CHECK * transactions,
        "delete": PROBE["delete"],
    }
    again = run_analyze(Work(opened(store_root), RUN), AnalyzeOptions())
    assert (again.transactions, spent(again.requests)["list"]) == ((), 2)
    assert "put" not in spent(again.requests)


def test_a_footer_of_a_very_wide_table_is_two_gets(store_root: StoreRoot) -> None:
    filled(store_root, columns=1_000)
    forget()
    report = run_analyze(Work(opened(store_root), RUN), AnalyzeOptions())
    assert report.parts == PARTS
    assert spent(report.requests)["get"] == 1 + 2 * PARTS + PROBE["get"]


def test_hash_ranges_are_a_get_for_each_small_part(s3_root: StoreRoot) -> None:
    appender = Appender(opened(s3_root))
    for number in range(PARTS):
        appender.append(pa.table({"id": [number, number + 100], "x": ["a", "b"]}))
    clustered = {"cluster_by": {"columns": ["id"], "method": "hash"}}
    run_apply(opened(s3_root, **clustered), RUN)
    run_analyze(Work(opened(s3_root), RUN), AnalyzeOptions())  # the bounds
    forget()
    report = run_analyze(Work(opened(s3_root), RUN), AnalyzeOptions(hashes=True))
    assert (report.parts, report.plan["requests"]) == (PARTS, PARTS)
    assert spent(report.requests) == {
        "get": 1 + PARTS + PROBE["get"],
        "put": 2 + PROBE["put"],
        "list": 2 + CHECK,
        "delete": PROBE["delete"],
    }
    again = run_analyze(Work(opened(s3_root), RUN), AnalyzeOptions(hashes=True))
    assert (again.transactions, again.plan["parts"]) == ((), 0)
    assert "put" not in spent(again.requests)


def test_of_a_large_part_the_hashed_columns_are_a_get_for_each_row_group(
    s3_root: StoreRoot,
) -> None:
    noise = np.random.default_rng(3)
    table = opened(s3_root, merge={"row_group_rows": 10_000})
    rows = {"id": np.arange(40_000), **{f"c{n}": noise.random(40_000) for n in range(8)}}
    Appender(table).append(pa.table(rows))
    run_apply(opened(s3_root, cluster_by={"columns": ["id"], "method": "hash"}), RUN)
    run_analyze(Work(opened(s3_root), RUN), AnalyzeOptions())
    forget()
    report = run_analyze(Work(opened(s3_root), RUN), AnalyzeOptions(hashes=True))
    assert report.parts == 1
    assert spent(report.requests)["get"] == 1 + 2 + 4 + PROBE["get"], "its footer is two"
    assert report.requests["bytes_in"] < 40_000 * 8 * 3
