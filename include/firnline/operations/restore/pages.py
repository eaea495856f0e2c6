"""The pages of restore: what its plan and its report say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from firnline.errors import some
from firnline.pages import Page, number, requests_text
from firnline.units import about_duration, about_size, counted


def plan_page(data: Mapping[str, Any]) -> Page:
    """Return the page of a plan, from its figures."""
    page = Page()
    if not data["partitions"]:
        page.conclusion(f"{data['table']} is as it was after transaction {data['to']}.")
        return page
    page.in_short(
        f"{data['table']} would go back to transaction {number(data['to'])}: "
        f"{_amount(data['restored'])} would come back, {_amount(data['removed'])} would go; "
        f"undone: {_undone(data)}"
    )
    page.pairs(_rows(data))
    return page


def _rows(plan: Mapping[str, Any]) -> list[tuple[str, str]]:
    names = [name or "-" for name in plan["partitions"]]
    return [
        ("restored", _figures(plan["restored"])),
        ("removed", _figures(plan["removed"])),
        ("stays", f"{counted(plan['kept_parts'], 'part')}"),
        ("partitions", some(names, 3)),
        ("undone", _undone(plan)),
    ]


def _undone(plan: Mapping[str, Any]) -> str:
    noun = "transaction" if len(plan["undone"]) == 1 else "transactions"
    return f"{noun} {', '.join(map(number, plan['undone'])) or 'none'}"


def _amount(figures: Mapping[str, Any]) -> str:
    """Return ``_figures`` as a sentence has them."""
    rows, size = counted(figures["rows"], "row"), about_size(figures["bytes"])
    return f"{counted(figures['parts'], 'part')} of {rows} ({size})"


def _figures(figures: dict[str, int]) -> str:
    size = about_size(figures["bytes"])
    return f"{counted(figures['parts'], 'part')}, {counted(figures['rows'], 'row')}, {size}"


def report_page(data: Mapping[str, Any]) -> Page:
    """Return the page of a report, from its figures."""
    page = Page()
    plan = data["plan"]
    if data["transaction"] is None:
        page.conclusion(f"{data['table']} is as it was after transaction {plan['to']}.")
        return page
    back, gone = _amount(plan["restored"]), _amount(plan["removed"])
    page.in_short(f"restored: {back}; removed: {gone}")
    page.pairs(
        [
            *_rows(plan),
            ("transaction", number(data["transaction"])),
            ("requests", requests_text(data["requests"])),
            ("time", about_duration(round(data["seconds"] * 1000))),
        ]
    )
    return page
