"""What an analyze costs on a real store: a ranged GET for each part, and two PUT."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from firnline.append.append import Appender
from firnline.log.txn_file import RunIdentity
from firnline.operations.analyze import run as analyze
from firnline.operations.analyze.run import run_analyze
from firnline.operations.options import AnalyzeOptions
from firnline.operations.properties.run import run_apply
from firnline.settings.load import TableSettings
from firnline.store.access import StoreAccess
from firnline.store.probe import forget
from firnline.table import Table, open_table
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
def test_an_analyze_is_a_get_for_each_part_and_two_puts_for_each_transaction(
    store_root: StoreRoot, transactions: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(store_root)
    monkeypatch.setattr(analyze, "BATCH", PARTS // transactions)
    forget()
    report = run_analyze(opened(store_root), AnalyzeOptions(), RUN)
    assert report.parts == PARTS
    assert len(report.transactions) == transactions
    assert spent(report.requests) == {
        "get": 1 + PARTS + PROBE["get"],  # one log file: that of the properties
        "put": 2 * transactions + PROBE["put"],
        "list": 2,
        "delete": PROBE["delete"],
    }
    again = run_analyze(opened(store_root), AnalyzeOptions(), RUN)
    assert (again.transactions, spent(again.requests)["list"]) == ((), 2)
    assert "put" not in spent(again.requests)


def test_a_footer_of_a_very_wide_table_is_two_gets(store_root: StoreRoot) -> None:
    filled(store_root, columns=1_000)
    forget()
    report = run_analyze(opened(store_root), AnalyzeOptions(), RUN)
    assert report.parts == PARTS
    assert spent(report.requests)["get"] == 1 + 2 * PARTS + PROBE["get"]
