"""The pages of clone: what its plan and its report say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from firnline.pages import Page, number, requests_text
from firnline.units import about_duration, about_size, counted


def report_page(data: Mapping[str, Any]) -> Page:
    """Return the page of a report, from its figures."""
    page = Page()
    plan = data["plan"]
    logs, others = counted(plan["logs"], "log file"), number(plan["others"])
    kept = f"{logs}, {others} transactions and certificates"
    page.pairs(
        [
            ("table", data["table"]),
            ("clone", data["target"]),
            ("transaction", number(plan["seq"]) if plan["seq"] else "none yet"),
            ("parts", f"{number(plan['parts'])}, {about_size(plan['bytes'])}"),
            ("rows", number(plan["rows"])),
            ("history", kept if plan["history"] else "none"),
            (
                "copied",
                "nothing yet" if data["dry_run"] else counted(data["copied"], "object"),
            ),
            ("requests", requests_text(data["requests"])),
            ("time", about_duration(round(data["seconds"] * 1000))),
        ]
    )
    return page
