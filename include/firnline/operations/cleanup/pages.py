"""The pages of cleanup: what its plan and its report say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from firnline.operations.common_pages import add_undeleted
from firnline.pages import Column, Page, number, requests_text
from firnline.shown import when
from firnline.units import about_duration, about_size, counted


def plan_page(data: Mapping[str, Any]) -> Page:
    """Return the page of a plan, from its figures."""
    page = Page()
    count = data["parts"] + data["log_files"] + data["txn_files"] + data["claims"]
    if count:
        page.conclusion(
            f"{counted(count, 'object')} would be deleted, {about_size(data['bytes'])}: "
            f"{_kinds(data)}."
        )
    else:
        page.conclusion(f"Nothing to clean up in {data['table']}.")
    _render_waiting(page, data["waiting"])
    return page


def _kinds(data: Mapping[str, Any]) -> str:
    """Return how many objects there are of each kind."""
    return (
        f"{counted(data['parts'], 'data part')}, {counted(data['log_files'], 'log file')}, "
        f"{counted(data['txn_files'], 'old transaction')}{_claims(data)}"
    )


def _claims(data: Mapping[str, Any]) -> str:
    """Return what a table without keys of appends is not told of."""
    return f", {counted(data['claims'], 'old claim')} of keys" if data["claims"] else ""


def report_page(data: Mapping[str, Any]) -> Page:
    """Return the page of a report, from its figures."""
    page = Page()
    count = data["parts"] + data["log_files"] + data["txn_files"] + data["claims"]
    add_undeleted(page, data["failures"], data["failed"])
    if not count and not data["failed"]:
        page.conclusion(f"Nothing to clean up in {data['table']}.")
    else:
        left = f"; not deleted: {counted(data['failed'], 'object')}" if data["failed"] else ""
        page.in_short(f"deleted: {_kinds(data)} ({about_size(data['bytes'])}){left}")
        page.pairs(
            [
                ("deleted", counted(data["parts"], "data part")),
                ("", counted(data["log_files"], "log file")),
                ("", f"{counted(data['txn_files'], 'old transaction')}{_claims(data)}"),
                ("bytes", about_size(data["bytes"])),
                ("readable", f"after {when(data['purged'])}" if data["purged"] else "?"),
                ("transaction", ", ".join(map(number, data["transactions"])) or "none"),
                *([("checkpoint", data["checkpoint"])] if data["checkpoint"] else []),
                *(("warning", warning) for warning in data["warnings"]),
                ("requests", requests_text(data["requests"])),
                ("time", about_duration(round(data["seconds"] * 1000))),
            ]
        )
    _render_waiting(page, data["waiting"])
    return page


def _render_waiting(page: Page, waiting: list[Mapping[str, Any]]) -> None:
    if not waiting:
        return
    page.line()
    columns = [
        Column("waits", number=True),
        Column("what"),
        Column("bytes", number=True, dispensable=1),
        Column("from", dispensable=2),
        Column("until"),
        Column("because", wrap=True),
    ]
    rows = [
        [
            number(one["count"]),
            one["what"],
            about_size(one["bytes"]),
            "-" if one["first_ms"] is None else when(one["first_ms"]),
            "-" if one["last_ms"] is None else when(one["last_ms"]),
            one["reason"],
        ]
        for one in waiting
    ]
    page.table(columns, rows)
