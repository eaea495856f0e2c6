"""The pages of evolve: what its plan and its report say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from firnline.operations.schema_fix.pages import evolution as changes
from firnline.pages import Page, number, requests_text
from firnline.units import about_duration, about_size, counted


def _nothing(page: Page, data: Mapping[str, Any], plan: Mapping[str, Any]) -> bool:
    if plan["widen"] or plan["rename"] or plan["drop"]:
        return False
    page.line(f"The columns of {data['table']} have these types already.")
    return True


def plan_page(data: Mapping[str, Any]) -> Page:
    """Return the page of a plan, from its figures."""
    page = Page()
    if not _nothing(page, data, data):
        page.line(
            f"{changes(data, 'would be')}, for every reader at once; no part is read or written. "
            f"Merges write {counted(data['parts'], 'part')} "
            f"({about_size(data['bytes'])}) in the new form."
        )
    return page


def report_page(data: Mapping[str, Any]) -> Page:
    """Return the page of a report, from its figures."""
    page = Page()
    plan = data["plan"]
    if data["transaction"] is None and _nothing(page, data, plan):
        return page
    page.pairs(
        [
            ("changed", changes(plan, "is")),
            ("to merge", f"{counted(plan['parts'], 'part')}, {about_size(plan['bytes'])}"),
            ("transaction", number(data["transaction"])),
            ("requests", requests_text(data["requests"])),
            ("time", about_duration(round(data["seconds"] * 1000))),
        ]
    )
    return page
