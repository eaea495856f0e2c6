"""What the report of a merge shows."""

from __future__ import annotations

from typing import Any

import pytest

from firnline.cli.commands.merge import _render
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


def test_groups_that_another_run_had_committed_first_are_counted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    _render(report(groups_lost=3))
    said = capsys.readouterr().out
    assert "3 groups, which another run had committed first" in said
    assert "Nothing to merge" not in said


def test_without_any_nothing_is_said_of_them(capsys: pytest.CaptureFixture[str]) -> None:
    _render(report())
    assert "Nothing to merge in flights" in capsys.readouterr().out
    _render(report(groups=1, groups_done=1))
    assert "in vain" not in capsys.readouterr().out
