"""What the newest run of ``erase_person`` has found; that the query is right is seen in
tests/dags/test_page_browser.py."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from firnline.airflow.page.planned import planned

FIGURES = {
    "now_ms": 5,
    "requests": [{"id": "r"}],
    "tables": [
        {
            "table": "orders",
            "columns": ["customer_id"],
            "steps": [{"request": "r", "state": "held", "why": "a hold"}],
            "unread": "",
        }
    ],
    "dry_run": True,
}


def session(*values: object) -> Any:
    """A database with these XComs, newest first."""
    found = [SimpleNamespace(run_id=f"run{n}", value=value) for n, value in enumerate(values)]
    return SimpleNamespace(execute=lambda _: found)


@pytest.mark.parametrize("stored", [json.dumps(FIGURES), FIGURES])
def test_the_newest_run_counts(stored: object) -> None:
    found = planned(session(stored, None))
    assert found is not None
    assert (found.run_id, found.now_ms) == ("run0", 5)
    step = found.tables["orders"].step("r")
    assert step is not None
    assert (step.state, step.why) == ("held", "a hold")


@pytest.mark.parametrize("stored", [None, "s3://elsewhere/xcom.json", {"tables": None}, 7, []])
def test_values_that_are_kept_elsewhere_say_nothing(stored: object) -> None:
    assert planned(session(stored)) is None


def test_without_a_run_nothing_is_found() -> None:
    assert planned(session()) is None
