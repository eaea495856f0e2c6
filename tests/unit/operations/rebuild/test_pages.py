"""What a rebuild says in one sentence."""

from __future__ import annotations

from typing import Any

from firnline.operations.rebuild.pages import plan_page, report_page

PLAN: dict[str, Any] = {
    "parts": 3,
    "dead_parts": 0,
    "named": 3,
    "rows": None,
    "bytes": 2_048,
    "found": [],
    "undecided": [],
    "left_out": [],
    "copied": [],
    "missing": ["t/_data/x.parquet"],
    "history_lost": None,
    "doubtful": 0,
}


def test_plan_and_report_say_what_the_log_names_and_what_is_lost() -> None:
    names = "3 live parts of ? rows (2.0 KiB) and 0 dead parts, 1 missing"
    assert plan_page({"table": "t", **PLAN}).sentence == f"the log of t would name {names}"
    counts = dict.fromkeys(("get", "put", "list", "head", "delete", "retries"), 0)
    requests = {**counts, "bytes_in": 0, "bytes_out": 0}
    report = {
        "table": "t", "plan": PLAN, "transactions": [4], "requests": requests, "seconds": 1.0,
    }  # fmt: skip
    page = report_page(report)
    assert page.sentence == f"log rebuilt: it names {names}"
    assert "transaction: 4" in page.lines()
