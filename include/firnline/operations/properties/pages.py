"""The pages of properties: what its plan and its report say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from firnline.pages import Column, Page


def _columns(*titles: str) -> list[Column]:
    return [Column(title, wrap=place > 0) for place, title in enumerate(titles)]


def show_page(data: Mapping[str, Any]) -> Page:
    """Return the page of a report, from its figures."""
    page = Page()
    rows = [
        (
            one["name"],
            one["table"] if one["table"] is not None else "",
            one["settings"] if one["settings"] is not None else "",
            "differs" if one["differs"] else "",
        )
        for one in data["properties"]
    ]
    page.table(_columns("property", "table", "settings", ""), rows)
    if not data["said"]:
        page.line()
        page.line(
            f"{data['table']} says nothing of itself yet: its next commit takes what the "
            "settings say."
        )
    elif any(one["differs"] for one in data["properties"]):
        page.line()
        page.line(
            f"The table's own are in force; `firnline properties apply {data['table']}` makes it "
            "say what the settings say."
        )
    return page


def report_page(data: Mapping[str, Any]) -> Page:
    """Return the page of a report, from its figures."""
    page = Page()
    _render_changes(page, data)
    if left := data["unnamed_mirrors"]:
        from firnline.types.formats import ending

        page.line(
            f"{data['table']} states mirror: [{', '.join(left)}], and the settings do not name it: "
            f"it goes on. To end it, {ending(data['table'], left)}."
        )
    return page


def _render_changes(page: Page, data: Mapping[str, Any]) -> None:
    if not data["changes"]:
        page.line(f"{data['table']} says what the settings say: nothing to do.")
        return
    rows = [(one["name"], one["table"], one["settings"]) for one in data["changes"]]
    page.table(_columns("property", "from", "to"), rows)
    if data["transaction"] is not None:
        page.line()
        page.line(f"Committed as transaction {data['transaction']}.")
