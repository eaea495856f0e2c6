"""The pages of rebuild: what its plan and its report say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from firnline.operations.common_pages import SHOWN
from firnline.pages import Column, Page, number, requests_text
from firnline.units import about_duration, about_size, counted


def plan_page(data: Mapping[str, Any]) -> Page:
    """Return the page of a plan, from its figures."""
    page = Page()
    page.in_short(f"the log of {data['table']} would name {_contents(data)}")
    if data["history_lost"]:
        page.line(
            f"The history is lost, or a part of it: {data['history_lost']}. It may have removed "
            f"rows of {number(data['doubtful'])} live parts, which --revive brings back."
        )
        page.line()
    _pile(page, "undecided: give --include or --exclude", data["undecided"])
    _pile(page, "left out", data["left_out"])
    _pile(page, "found, not named by any transaction", data["found"])
    _pile(page, "copied, because a merge of another client is taken back", data["copied"])
    _pile(page, "missing: these rows are lost", [{"key": key} for key in data["missing"]])
    page.pairs(
        [
            ("table", data["table"]),
            (
                "live parts",
                (
                    f"{number(data['parts'])}: {number(data['named'])} named, "
                    f"{number(len(data['found']))} found"
                ),
            ),
            ("rows", number(data["rows"])),
            ("bytes", about_size(data["bytes"])),
            ("dead parts", number(data["dead_parts"])),
            ("undecided", number(len(data["undecided"]))),
            ("left out", number(len(data["left_out"]))),
            ("missing", number(len(data["missing"]))),
        ]
    )
    return page


def _contents(data: Mapping[str, Any]) -> str:
    """Return what the log names, and what needs a decision or is lost."""
    rows, size = counted(data["rows"], "row"), about_size(data["bytes"])
    live = f"{counted(data['parts'], 'live part')} of {rows} ({size})"
    more = "".join(
        f", {number(len(data[key]))} {key.replace('_', ' ')}"
        for key in ("undecided", "left_out", "missing")
        if data[key]
    )
    return f"{live} and {counted(data['dead_parts'], 'dead part')}{more}"


def _pile(page: Page, title: str, objects: Sequence[Mapping[str, Any]]) -> None:
    if not objects:
        return
    columns = [
        Column(title, wrap=True),
        Column("rows", number=True),
        Column("because it", wrap=True),
    ]
    rows = [
        [found["key"], number(found.get("rows", 0)), found.get("reason", "has no object")]
        for found in objects[:SHOWN]
    ]
    page.table(columns, rows)
    if len(objects) > SHOWN:
        page.line(f"… and {number(len(objects) - SHOWN)} more")
    page.line()


def report_page(data: Mapping[str, Any]) -> Page:
    """Return the page of a report, from its figures."""
    page = Page()
    page.add(plan_page({"table": data["table"], **data["plan"]}))
    page.in_short(f"log rebuilt: it names {_contents(data['plan'])}")
    page.pairs(
        [
            ("transaction", ", ".join(map(number, data["transactions"]))),
            ("requests", requests_text(data["requests"])),
            ("time", about_duration(round(data["seconds"] * 1000))),
        ]
    )
    return page
