"""The pages of downgrade: what its plan and its report say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from firnline.pages import Page, number, requests_text
from firnline.shown import when
from firnline.units import about_duration, about_size, counted


def plan_page(data: Mapping[str, Any]) -> Page:
    """Return the page of a plan, from its figures."""
    page = Page()
    if not data["is_v1"]:
        page.pairs(
            [
                ("table", data["table"]),
                (
                    "rewrite",
                    (
                        f"{counted(data['parts_in'], 'part')} with deletes pending, "
                        f"{about_size(data['bytes_in'])}"
                    ),
                ),
                (
                    "fold",
                    (
                        f"{counted(data['logs'], 'log file')} into one, "
                        f"{counted(data['live'], 'part')}"
                    ),
                ),
            ]
        )
        return page
    text = f"{data['table']} is a table of log version 1."
    if data["left_overs"]:
        text += (
            f" {counted(data['left_overs'], 'folded log file')}, "
            f"{counted(data['dead'], 'dead part')} "
            f"and the history can be deleted from {when(data['due'])} on."
        )
    page.line(text)
    return page


def report_page(data: Mapping[str, Any]) -> Page:
    """Return the page of a report, from its figures."""
    page = Page()
    rows = [
        (
            "rewritten",
            (
                f"{counted(data['parts_rewritten'], 'part')}, {number(data['rows_deleted'])} "
                "rows deleted"
            ),
        ),
        ("transactions", ", ".join(map(number, data["transactions"])) or "none"),
        ("deleted", counted(data["objects_deleted"], "object")),
        ("requests", requests_text(data["requests"])),
        ("time", about_duration(round(data["seconds"] * 1000))),
    ]
    page.pairs(rows)
    page.line()
    if data["waits_until"] is not None:
        page.line(
            f"{data['table']} is a table of log version 1. Run this again after "
            f"{when(data['waits_until'])}: it then deletes what is left over."
        )
    else:
        page.line(f"{data['table']} is a table of log version 1; nothing is left over.")
    return page
