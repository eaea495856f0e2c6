"""The pages of an update: what its plan and its report say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from firnline.operations.common_pages import SHOWN, add_more, nothing_matches
from firnline.pages import Column, Page, number, requests_text
from firnline.units import about_duration, about_size, counted


def plan_page(data: Mapping[str, Any]) -> Page:
    """Return the page of a plan, from its figures."""
    page, name = Page(), data["table"]
    if data["partitions"]:
        columns = [
            Column("partition", wrap=True),
            *(Column(title, number=True) for title in ("to read", "bytes")),
        ]
        rows = [
            [each["partition"] or "-", number(each["parts_to_read"]), about_size(each["bytes"])]
            for each in data["partitions"]
        ]
        page.table(columns, rows[:SHOWN])
        add_more(page, len(rows) - len(rows[:SHOWN]))
        page.line()
    page.reasons("parts", data["left_alone"])
    if not data["partitions"]:
        page.conclusion(nothing_matches(name))
        return page
    text = (
        f"{counted(data['parts_to_read'], 'part')} of {name} would be read (about "
        f"{about_size(data['bytes_in'])}), and rewritten where rows match, with at most "
        f"{number(data['requests'])} requests besides reading the log"
    )
    page.line(f"{text}.")
    page.in_short(f"in {counted(len(data['partitions']), 'partition')} {text}")
    return page


def report_page(data: Mapping[str, Any]) -> Page:
    """Return the page of a report, from its figures."""
    page, counts = Page(), data["counts"]
    parts = (
        f"{number(data['parts_read'])} read, {number(data['parts_rewritten'])} of them rewritten, "
        f"{number(data['parts_excluded'])} excluded by statistics"
    )
    updated = counted(data["rows_changed"], "row")
    if data["earlier"]:
        said = f"{updated}, " if data["rows_changed"] else ""  # an older version counted none
        updated = f"{said}by an earlier try of this run"
    pairs = [
        ("updated", updated),
        ("partitions", number(len(data["partitions"]))),
        ("parts", parts),
        ("transaction", "none" if data["transaction"] is None else number(data["transaction"])),
        ("requests", requests_text(data["requests"])),
        ("time", about_duration(round(data["seconds"] * 1000))),
    ]
    if data["transaction"] is not None:
        before, after = counts["bytes_in"], counts.get("bytes_out", 0)
        pairs.insert(3, ("bytes", f"{about_size(before)} → {about_size(after)}"))
    page.pairs(pairs)
    return page
