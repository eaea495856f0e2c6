"""The pages of delete: what its plan and its report say."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from firnline.operations.common_pages import add_groups, held_rows, nothing_matches
from firnline.pages import Page, number, requests_text
from firnline.units import about_duration, about_size, counted


def plan_page(data: Mapping[str, Any]) -> Page:
    """Return the page of a plan, from its figures."""
    page = Page()
    name = data["table"]
    add_groups(page, data)
    if data["holds"]:
        page.line(held_rows(data["holds"]))
    if data["only_record"] and data["by_winners"]:
        page.conclusion(nothing_matches(name))
        return page
    if data["only_record"]:
        page.conclusion(
            f"No part of {name} would be touched. The delete record is committed all the same: it "
            "hides matching rows, also those of appends that are under way."
        )
        return page
    read = (
        f"{counted(data['parts_to_read'], 'part')} of {name} would be read (about "
        f"{about_size(data['bytes_in'])}), and rewritten where rows match"
    )
    whole = (
        f"{counted(data['parts_to_drop'], 'part')} of {name} would be dropped unread: all of "
        f"{number(data['rows_to_drop'])} rows match"
    )
    found = [read] * bool(data["parts_to_read"]) + [whole] * bool(data["parts_to_drop"])
    page.conclusion(f"{'; '.join(found)}.")
    return page


def report_page(data: Mapping[str, Any]) -> Page:
    """Return the page of a report, from its figures."""
    page = Page()
    if data.get("holds"):
        page.line(held_rows(data["holds"]))
        page.line()
    counts = defaultdict(int, data["counts"])
    rows = [
        ("deleted", _deleted(data, counts)),
        (
            "parts",
            (
                f"{number(data['parts_read'])} read, {number(data['parts_rewritten'])} of them "
                f"rewritten, {number(data['parts_dropped'])} dropped unread, "
                f"{number(data['parts_excluded'])} excluded by statistics"
            ),
        ),
        ("transaction", "none" if data["transaction"] is None else number(data["transaction"])),
        ("record", _record(data)),
        ("requests", requests_text(data["requests"])),
        ("time", about_duration(round(data["seconds"] * 1000))),
    ]
    page.pairs(rows)
    return page


def _record(data: Mapping[str, Any]) -> str:
    if data["delete"] is None:
        return "none: the rows that readers saw are gone, and appends under way come after it"
    return f"{data['delete']}: also hides such rows of appends under way"


def _deleted(data: Mapping[str, Any], counts: dict[str, int]) -> str:
    if data["mode"] == "lazy":
        return (
            f"rows of up to {counted(data['parts_hidden'], 'part')} are hidden from readers; the "
            "next merge removes and counts them"
        )
    return counted(counts["rows_deleted"], "row")
