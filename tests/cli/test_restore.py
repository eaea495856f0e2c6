"""``firnline diff``, ``firnline restore``, and states by the number of a transaction."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from firnline.appends.append import Appender
from firnline.log.txn_file import RunIdentity
from firnline.operations.drop.run import run_drop
from firnline.operations.operation import Work
from firnline.operations.options import DropOptions
from firnline.settings.load import settings_for_root
from firnline.table import Table, open_table
from tests.support.cli import Outcome

Firnline = Callable[..., Outcome]


@pytest.fixture
def dropped(tmp_path: Path) -> Table:
    """Two partitions; one of them is dropped, then rows are appended to both."""
    settings = settings_for_root(f"file://{tmp_path / 'events'}")
    table = open_table(settings.model_copy(update={"partition_by": ()}))
    appender = Appender(table)
    for day in ("d=1", "d=2"):
        appender.append(pa.table({"id": [1, 2, 3]}), day)
    run = RunIdentity(dag_id="remove_partitions__events", run_id="manual__1", try_number=1)
    run_drop(Work(table, run), DropOptions(partitions=("d=1",)))
    for day in ("d=1", "d=2"):
        appender.append(pa.table({"id": [4]}), day)
    return table


def test_a_state_is_named_by_the_transaction_before_it(firnline: Firnline, dropped: Table) -> None:
    root = dropped.settings.root
    for at, rows in (("0", 6), ("1", 3)):
        data = firnline("snapshot", root, "--at", at, "--json").data
        assert data["rows"] == rows
        assert firnline("parts", root, "--at", at, "--json").data["total"]["rows"] == rows
    assert firnline("snapshot", root, "--json").data["rows"] == 5
    shown = firnline("snapshot", root, "--at", "2")
    assert shown.code == 2
    assert "has no transaction 2, the newest is 1" in shown.sentence


def test_a_transaction_past_its_retention_is_told_of(firnline: Firnline, dropped: Table) -> None:
    run_drop(Work(dropped, RunIdentity()), DropOptions(partitions=("d=2",)))
    list(dropped.store.delete_many([dropped.paths.txn(1)]))
    shown = firnline("snapshot", dropped.settings.root, "--at", "1")
    assert "past its retention, the oldest that is kept is 2" in shown.sentence


def test_a_diff_tells_what_came_and_went(firnline: Firnline, dropped: Table) -> None:
    root = dropped.settings.root
    data = firnline("diff", root, "0", "--json").data
    assert (data["came"]["parts"], data["came"]["rows"]) == (2, 2)
    assert (data["went"]["parts"], data["went"]["rows"]) == (1, 3)
    assert [one["partition"] for one in data["partitions"]] == ["d=1", "d=2"]
    assert data["partitions"][1]["went_parts"] == []
    only = firnline("diff", root, "0", "1", "--json").data
    assert (only["came"]["parts"], only["went"]["parts"]) == (0, 1)
    assert "+1 -1" in firnline("diff", root, "0").out
    assert "No part of events came or went" in firnline("diff", root, "1", "1").out
    back = firnline("diff", root, "1", "0")
    assert back.code == 2
    assert back.sentence == "the end '0' is before the beginning '1'; exchange the two"


def test_a_restore_asks_and_then_brings_the_partition_back(
    firnline: Firnline, dropped: Table
) -> None:
    root = dropped.settings.root
    asked = firnline("restore", root, "--to", "0")
    assert asked.code == 2
    assert "nobody can be asked" in asked.err
    plan = firnline("restore", root, "--to", "0", "--dry-run", "--json").data
    assert (plan["restored"]["rows"], plan["removed"]["rows"], plan["undone"]) == (3, 0, [1])
    done = firnline("restore", root, "--to", "0", "--partition", "d=1", "--yes")
    assert done.code == 0
    assert firnline("snapshot", root, "--json").data["rows"] == 8
    newest = firnline("history", root).out.splitlines()[-1]
    assert "restore to 0" in newest
    again = firnline("restore", root, "--to", "2", "--yes").out
    assert again == "events is as it was after transaction 2.\n"


def test_the_history_links_to_airflow_where_it_is_known(
    firnline: Firnline, dropped: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = dropped.settings.root
    (txn,) = firnline("history", root, "--json").data["transactions"]
    assert txn["link"] is None
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://airflow.example/")
    (txn,) = firnline("history", root, "--json").data["transactions"]
    page = "https://airflow.example/dags/remove_partitions__events/runs/manual__1"
    assert txn["link"] == page
    assert page in firnline("history", root).out
