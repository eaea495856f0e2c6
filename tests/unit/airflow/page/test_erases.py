"""What clean-ups said of certificates; that the query is right is seen in
tests/dags/test_page_browser.py."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from firnline.airflow.page.erases import tries_of


def session(*rows: tuple[str, str, object, Any]) -> Any:
    """A database with these XComs (DAG, run, value, configuration), newest first."""
    found = [
        SimpleNamespace(dag_id=dag, run_id=run, value=value, conf=conf)
        for dag, run, value, conf in rows
    ]
    return SimpleNamespace(execute=lambda _: found)


def tried(*ids: str, status: str = "waiting") -> dict[str, Any]:
    return {"certificates": [{"id": each, "status": status} for each in ids]}


def test_the_newest_try_at_each_certificate_of_the_table_counts() -> None:
    newest = tried("a", status="complete")
    rows = [
        ("tombstone_cleanup", "third", newest, {"table": "t"}),
        ("tombstone_cleanup", "other", tried("b", status="complete"), {"table": "u"}),
        ("tombstone_cleanup__t", "second", tried("a", "b"), None),
        ("tombstone_cleanup", "first", tried("b", "c"), {"table": "t"}),
    ]
    found = tries_of("t", session(*rows))
    assert {erase: (each["status"], each["run_id"]) for erase, each in found.items()} == {
        "a": ("complete", "third"),
        "b": ("waiting", "second"),
        "c": ("waiting", "first"),
    }
    assert found["b"]["dag_id"] == "tombstone_cleanup__t"


@pytest.mark.parametrize("stored", [json.dumps(tried("a")), tried("a")])
def test_values_are_read_as_tasks_and_as_the_api_store_them(stored: object) -> None:
    rows = [("tombstone_cleanup__t", "r", stored, None)]
    assert list(tries_of("t", session(*rows))) == ["a"]


@pytest.mark.parametrize("stored", [None, "s3://elsewhere/xcom.json", {"certificates": None}, 7])
def test_values_that_are_kept_elsewhere_say_nothing(stored: object) -> None:
    assert tries_of("t", session(("tombstone_cleanup__t", "r", stored, None))) == {}
