"""The pages of erasure requests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from firnline.errors import some
from firnline.operations.erasure.run import clock_text
from firnline.pages import Column, Page, number
from firnline.shown import when
from firnline.units import about_size, counted


def taken_page(data: Mapping[str, Any]) -> Page:
    """Return the page of a request that was taken."""
    page, request = Page(), data["request"]
    page.pairs(
        [
            ("request", request["id"]),
            ("keys", f"{number(request['keys'])} of {', '.join(request['columns'])}"),
            ("due", when(request["due_ms"])),
            ("tables", ", ".join(data["tables"])),
            ("secret", data["secret"]),
        ]
    )
    page.line()
    page.line(
        "Note the secret, it is stored nowhere: with it and the file of keys `firnline certificate "
        "TABLE ID --keys FILE --secret SECRET` shows that a certificate is of this request."
    )
    _add_unread(page, data)
    for column, count in data["spaced"].items():
        page.line(
            f"White space, or an invisible character, at an end of {counted(count, 'value')} of "
            f"{column}: only rows that have it, too, are erased."
        )
    _add_unstated(page, data["unstated"])
    page.line("Nothing is erased yet. To erase this and what else waits:")
    page.command("firnline erasure run")
    page.in_short(f"request {request['id']} was taken")
    return page


def plan_page(data: Mapping[str, Any]) -> Page:
    """Return the page of open requests, and of what a run would erase."""
    page, now = Page(), data["now_ms"]
    _add_unread(page, data)
    if not data["requests"]:
        page.conclusion(f"No request is open; {number(data['closed'])} are closed.")
        return page
    columns = [
        Column("request", wrap=True),
        Column("", wrap=True),
        Column("keys", number=True),
        Column("erased", number=True),
        Column("certified", number=True),
        Column("to go", wrap=True, prose=True),
    ]
    page.table(columns, [_request_row(each, now) for each in data["requests"]])
    for each in data["requests"]:
        for why in each["why"]:
            page.line(f"{each['reference'] or each['id']}, {why}.")
        if each["ripe_ms"] is not None:
            page.line(
                f"{each['reference'] or each['id']}: certified from {when(each['ripe_ms'])} on."
            )
    batches = [each for each in data["tables"] if each["batch"]]
    if batches:
        page.line()
        page.table(_OF_TABLES, [_table_row(each) for each in batches])
    page.line()
    _add_unstated(page, data["unstated"])
    read = about_size(sum(each["bytes"] for each in batches))
    would = f"A run would erase from {counted(len(batches), 'table')}, and read about {read}"
    page.conclusion(
        f"{counted(len(data['requests']), 'request')} open. "
        f"{would if batches else 'A run would erase nothing'}."
    )
    return page


_OF_TABLES = (
    Column("table", wrap=True),
    Column("requests", number=True),
    Column("keys", number=True),
    Column("parts to read", number=True),
    Column("bytes", number=True),
)


def report_page(data: Mapping[str, Any]) -> Page:
    """Return the page of a run."""
    page = Page()
    if data["tables"]:
        columns = [
            Column("table", wrap=True),
            Column("requests", number=True),
            Column("rows erased", number=True),
            Column("certificate", wrap=True),
        ]
        page.table(columns, [_erased_row(each) for each in data["tables"]])
        page.line()
    for each in data["tables"]:
        if each["problem"]:
            page.line(f"{each['table']}: {each['problem']}.")
    _add_unread(page, data)
    for why in data["waiting"]:
        page.line(f"{why}.")
    if data["closed"]:
        page.line(f"Closed, with its keys deleted: {some(data['closed'])}.")
    if data["overdue"]:
        page.line(f"Overdue: {some(data['overdue'])}.")
    _add_unstated(page, data["unstated"])
    rows = sum(each["rows"] for each in data["tables"])
    erasing = [each for each in data["tables"] if each["rows"]]
    erased = f"{counted(rows, 'row')} erased from {counted(len(erasing), 'table')}"
    left = f"{counted(data['open'], 'request')} open"
    page.conclusion(f"{erased}, {counted(len(data['closed']), 'request')} closed, {left}.")
    return page


def _request_row(each: Mapping[str, Any], now_ms: int) -> list[str]:
    return [
        each["reference"] or each["id"],
        clock_text(each["due_ms"], now_ms),
        number(each["keys"]),
        number(len(each["erased"])),
        number(len(each["complete"])),
        ", ".join(each["left"]) or "-",
    ]


def _table_row(each: Mapping[str, Any]) -> list[str]:
    figures = [number(each[name]) for name in ("keys", "parts")]
    return [each["table"], number(len(each["batch"])), *figures, about_size(each["bytes"])]


def _erased_row(each: Mapping[str, Any]) -> list[str]:
    count = number(len(each["requests"]))
    return [each["table"], count, number(each["rows"]), each["certificate"] or "-"]


def _add_unread(page: Page, data: Mapping[str, Any]) -> None:
    for why in data["unread"]:
        page.line(f"{why}.")


def _add_unstated(page: Page, tables: list[str]) -> None:
    if tables:
        page.line(
            f"Not looked at, because nobody has said whether there are rows of people: "
            f"{some(tables)}. Write `person: [column]` into their settings, or `person: []`."
        )
