"""The pages of replace: what its plan and its report say."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from firnline.operations.common_pages import add_groups
from firnline.operations.replace.plan import new_rows_text, rows_text
from firnline.pages import Page, number, requests_text
from firnline.units import about_duration, about_size, counted


def _interval(data: Mapping[str, Any]) -> str:
    start, end = (str(data[name]).replace(".000000", "") for name in ("start", "end"))
    equal = "".join(f" where {column} = {value}" for column, value in data["equal"].items())
    return f"[{start}, {end}) of {data['column']}{equal}"


def plan_page(data: Mapping[str, Any]) -> Page:
    """Return the page of a plan, from its figures."""
    page = Page()
    add_groups(page, data)
    page.line(f"To replace {_interval(data)} in {data['table']}: {rows_text(data)}.")
    come = new_rows_text(data)
    page.line(f"{come[:1].upper()}{come[1:]}.")
    page.in_short(f"to replace {_interval(data)} in {data['table']}: {rows_text(data)}; {come}")
    if data["parts_to_drop"]:
        page.line(
            f"{counted(data['parts_to_drop'], 'part')} would be dropped unread: all "
            f"{counted(data['rows_to_drop'], 'row')} lie inside."
        )
    if data["parts_to_read"]:
        page.line(
            f"{counted(data['parts_to_read'], 'part')} would be read (about "
            f"{about_size(data['bytes_in'])}), and rewritten where rows lie inside."
        )
    if data["parts_hidden"]:
        page.line(
            f"{counted(data['parts_hidden'], 'part')} would stay until the next merge; readers "
            "hide what lies inside at once."
        )
    if data["only_record"] and not data["parts_hidden"]:
        page.line(
            "No part would be touched. The record is committed all the same: it hides such rows of "
            "appends that are under way."
        )
    return page


def report_page(data: Mapping[str, Any]) -> Page:
    """Return the page of a report, from its figures."""
    page = Page()
    counts = defaultdict(int, data["counts"])
    new = "nothing"
    if data["parts_new"]:
        rows = data["rows_new"]
        new = (
            f"{counted(rows, 'row')} in {counted(data['parts_new'], 'part')}, "
            f"{about_size(data['bytes_new'])}"
        )
    hidden = (
        f", and what up to {counted(data['parts_hidden'], 'part')} hold of it is hidden until a "
        "merge"
        if data["parts_hidden"]
        else ""
    )
    rows_told = [
        ("replaced", _interval(data)),
        ("by", new),
        ("deleted", f"{counted(counts['rows_deleted'], 'row')}{hidden}"),
        (
            "parts",
            (
                f"{number(data['parts_dropped'])} dropped unread, {number(data['parts_read'])} "
                f"read, {number(data['parts_rewritten'])} of them rewritten, "
                f"{number(data['parts_excluded'])} excluded by statistics"
            ),
        ),
        ("transaction", number(data["transaction"])),
        ("record", f"{data['delete']}: also hides such rows of appends under way"),
        ("requests", requests_text(data["requests"])),
        ("time", about_duration(round(data["seconds"] * 1000))),
    ]
    page.pairs(rows_told)
    return page
