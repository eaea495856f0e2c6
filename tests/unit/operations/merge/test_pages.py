"""What the report of a merge shows."""

from __future__ import annotations

from typing import Any

from firnline.operations.merge.pages import report_page
from firnline.store.base import Counters


def report(**more: Any) -> dict[str, Any]:
    none: dict[str, Any] = {"counts": {}, "failures": [], "transactions": []}
    none |= {"requests": Counters().as_dict()}
    numbers = {
        "groups": 0,
        "groups_done": 0,
        "groups_lost": 0,
        "tasks": 0,
        "replans": 0,
        "seconds": 1.0,
    }
    return {"table": "flights", **none, **numbers, **more}


def words(**more: Any) -> str:
    return "\n".join(report_page(report(**more)).lines())


def test_groups_that_another_run_had_committed_first_are_counted() -> None:
    said = words(groups_lost=3)
    assert "3 groups, which another run had committed first" in said
    assert "Nothing to merge" not in said


def test_without_any_nothing_is_said_of_them() -> None:
    assert "Nothing to merge in flights" in words()
    assert "in vain" not in words(groups=1, groups_done=1)
