"""The pages of rewrite: what its plan and its report say."""

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
    if data["partitions"]:
        columns = [
            Column("partition", wrap=True),
            *(Column(title, number=True) for title in ("to read", "to drop", "bytes")),
        ]
        rows = [
            [
                partition["partition"] or "-",
                number(partition["parts_to_read"]),
                number(partition["parts_to_drop"]),
                about_size(partition["bytes"]),
            ]
            for partition in data["partitions"]
        ]
        page.table(columns, rows)
        page.line()
    page.reasons("parts", data["left_alone"])
    if not data["partitions"]:
        page.conclusion(f"Nothing to rewrite in {name}.")
        return page
    text = (
        f"{counted(data['parts_to_read'], 'part')} of {name} would be read (about "
        f"{about_size(data['bytes_in'])}), with at most {number(data['requests'])} requests "
        "besides reading the log"
    )
    if data["parts_to_drop"]:
        text += (
            f"; {counted(data['parts_to_drop'], 'part')} would go unread: none of their rows stays"
        )
    page.line(f"{text}.")
    page.in_short(f"in {counted(len(data['partitions']), 'partition')} {text}")
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
        page.line(f"Nothing changed in {data['table']}.")
        return page
    page.pairs(
        [
            ("rows", f"{number(counts.get('rows_removed', 0))} vanished"),
            (
                "parts",
                (
                    f"{number(counts['parts_in'])} → {number(counts.get('parts_out', 0))}; "
                    f"{number(data['parts_untouched'])} read and left as they are"
                ),
            ),
            (
                "bytes",
                f"{about_size(counts['bytes_in'])} → {about_size(counts.get('bytes_out', 0))}",
            ),
            ("transactions", number(len(data["transactions"]))),
            ("requests", requests_text(data["requests"])),
            ("time", about_duration(round(data["seconds"] * 1000))),
        ]
    )
    return page


def _table(page: Page, data: Mapping[str, Any]) -> None:
    columns = [
        Column("partition", wrap=True),
        *(Column(title, number=True) for title in ("parts", "rows", "vanished")),
    ]
    rows = [
        [
            done["partition"] or "-",
            f"{number(done['parts_in'])} → {number(done['parts_out'])}",
            f"{number(done['rows_in'])} → {number(done['rows_out'])}",
            number(done["rows_removed"]),
        ]
        for done in data["partitions"][:SHOWN]
    ]
    page.table(columns, rows)
    add_more(page, data["partition_count"] - len(rows))
    page.line()
