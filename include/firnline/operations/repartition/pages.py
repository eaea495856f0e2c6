"""The pages of repartition: what its plan and its report say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from firnline.operations.common_pages import SHOWN, add_more
from firnline.pages import Column, Page, number, requests_text
from firnline.units import about_duration, about_size, counted


def plan_page(data: Mapping[str, Any]) -> Page:
    """Return the page of a plan, from its figures."""
    page = Page()
    name = data["table"]
    layout = ", ".join(data["layout"])
    if not data["partitions"]:
        page.line(f"Nothing to move in {name}: all partitions are of the layout {layout}.")
        return page
    columns = [
        Column("partition", wrap=True),
        *(Column(title, number=True) for title in ("parts", "bytes")),
    ]
    rows = [
        [one["partition"] or "-", number(one["parts"]), about_size(one["bytes"])]
        for one in data["partitions"][:SHOWN]
    ]
    page.table(columns, rows)
    add_more(page, len(data["partitions"]) - len(rows))
    page.line()
    page.line(
        f"{counted(data['parts_in'], 'part')} of {counted(len(data['partitions']), 'partition')} "
        f"would be moved to partitions by {layout}: about {about_size(data['bytes_in'])} to read "
        f"and to write, and at least {counted(data['requests'], 'request')} besides reading "
        "the log."
    )
    return page


def report_page(data: Mapping[str, Any]) -> Page:
    """Return the page of a report, from its figures."""
    page = Page()
    counts = data["counts"]
    if data["failures"]:
        columns = [Column("partition"), Column("as it was because", wrap=True)]
        page.table(columns, ([f["partition"] or "-", f["message"]] for f in data["failures"]))
        page.line()
    if data["partitions"]:
        _table(page, data)
    if not data["transactions"]:
        layout = ", ".join(data["layout"])
        page.line(f"Nothing was moved in {data['table']}, whose layout is {layout}.")
    else:
        sizes = (about_size(counts.get(f"bytes_{end}", 0)) for end in ("in", "out"))
        page.pairs(
            [
                ("rows", number(counts.get("rows_out", 0))),
                ("parts", f"{number(counts['parts_in'])} → {number(counts.get('parts_out', 0))}"),
                ("bytes", " → ".join(sizes)),
                ("transactions", number(len(data["transactions"]))),
                ("requests", requests_text(data["requests"])),
                ("time", about_duration(round(data["seconds"] * 1000))),
            ]
        )
    if data["parts_left"]:
        page.line(
            f"{counted(data['parts_left'], 'part')} of "
            f"{counted(data['partitions_left'], 'partition')} of a former layout are left; run it "
            "again once no writer uses that layout any more."
        )
    return page


def _table(page: Page, data: Mapping[str, Any]) -> None:
    columns = [
        Column("moved", wrap=True),
        *(Column(title, number=True) for title in ("to partitions", "parts", "rows")),
    ]
    rows = [
        [
            one["partition"] or "-",
            number(one["targets"]),
            f"{number(one['parts_in'])} → {number(one['parts_out'])}",
            number(one["rows"]),
        ]
        for one in data["partitions"][:SHOWN]
    ]
    page.table(columns, rows)
    add_more(page, len(data["transactions"]) - len(rows))
    page.line()
