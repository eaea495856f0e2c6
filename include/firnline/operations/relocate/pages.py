"""The pages of relocate: what its plan and its report say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from firnline.pages import Page, number, requests_text
from firnline.units import about_duration, about_size


def report_page(data: Mapping[str, Any]) -> Page:
    """Return the page of a report, from its figures."""
    page = Page()
    plan = data["plan"]
    written = ", ".join(
        f"{number(plan[kind])} {what}"
        for kind, what in (
            ("logs", "log files"),
            ("transactions", "transactions"),
            ("certificates", "certificates"),
        )
    )
    page.pairs(
        [
            ("table", data["table"]),
            ("from", plan["from"] or "(no prefix)"),
            ("to", plan["to"] or "(no prefix)"),
            ("to write" if data["dry_run"] else "written", written),
            *_moved(data),
            ("checkpoints", f"{number(plan['checkpoints'])} to delete, a cache of the log"),
            ("live parts", f"{number(plan['parts'])}, {about_size(plan['bytes'])}"),
            ("requests", requests_text(data["requests"])),
            ("time", about_duration(round(data["seconds"] * 1000))),
        ]
    )
    return page


def _moved(data: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the line about parts that were named with two slashes; none without such parts."""
    if not data["moved"]:
        return []
    what = "to move" if data["dry_run"] else "moved"
    return [(what, f"{number(data['moved'])} parts with two slashes in their names")]
