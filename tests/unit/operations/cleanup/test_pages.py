"""What a clean-up says in one sentence."""

from __future__ import annotations

from typing import Any

import pytest

from firnline.operations.cleanup.pages import plan_page, report_page

NONE = {"get": 0, "put": 0, "list": 0, "head": 0, "delete": 0, "retries": 0}
DATA: dict[str, Any] = {
    "table": "t",
    "parts": 3,
    "log_files": 1,
    "txn_files": 0,
    "claims": 0,
    "bytes": 2_048,
    "waiting": [],
    "failed": 0,
    "failures": [],
    "purged": 0,
    "transactions": [4],
    "checkpoint": None,
    "warnings": [],
    "requests": {**NONE, "bytes_in": 0, "bytes_out": 0},
    "seconds": 1.0,
}


def test_a_plan_says_what_would_go() -> None:
    said = "4 objects would be deleted, 2.0 KiB: 3 data parts, 1 log file, 0 old transactions"
    assert plan_page(DATA).sentence == said


@pytest.mark.parametrize(("failed", "more"), [(0, ""), (2, "; not deleted: 2 objects")])
def test_a_report_says_what_went_and_what_did_not(failed: int, more: str) -> None:
    page = report_page({**DATA, "failed": failed})
    said = f"deleted: 3 data parts, 1 log file, 0 old transactions (2.0 KiB){more}"
    assert page.sentence == said
