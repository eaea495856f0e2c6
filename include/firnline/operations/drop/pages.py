"""The pages of removals: what their plans and reports say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from firnline.operations.common_pages import SHOWN, dropped_page, sentence
from firnline.pages import Column, Page, number
from firnline.shown import when
from firnline.units import about_duration, about_size, counted


def list_page(data: Mapping[str, Any]) -> Page:
    """Return the page of a report, from its figures."""
    page = Page()
    if not data["partitions"]:
        page.line(f"{data['table']} has no live part.")
        return page
    partitions = data["partitions"]
    _table(page, partitions, data["now"])
    parts, size = (sum(each[name] for each in partitions) for name in ("parts", "bytes"))
    listed = counted(len(partitions), "partition"), counted(parts, "part"), about_size(size)
    page.in_short(", ".join(listed))
    return page


def _table(page: Page, partitions: Sequence[Mapping[str, Any]], now_ms: int) -> None:
    columns = [
        Column("partition", wrap=True),
        *(Column(title, number=True) for title in ("parts", "rows", "bytes")),
        Column("oldest", number=True, dispensable=1),
        Column("newest", number=True),
    ]
    rows = [
        [
            partition["partition"] or "-",
            number(partition["parts"]),
            number(partition["rows"]),
            about_size(partition["bytes"]),
            *(
                about_duration(max(0, now_ms - partition[f"{end}_ms"]))
                for end in ("oldest", "newest")
            ),
        ]
        for partition in partitions
    ]
    counts = [partition["rows"] for partition in partitions]
    total = [
        f"{number(len(rows))} in all",
        number(sum(partition["parts"] for partition in partitions)),
        number(None if None in counts else sum(counts)),
        about_size(sum(partition["bytes"] for partition in partitions)),
        "",
        "",
    ]
    page.table(columns, rows, total if len(rows) > 1 else None)


def plan_page(data: Mapping[str, Any]) -> Page:
    """Return the page of a plan, from its figures."""
    page = Page()
    _table(page, data["partitions"], data["now"])
    page.line()
    page.conclusion(f"{sentence(data)} of {data['table']} would go.")
    return page


def ttl_plan_page(data: Mapping[str, Any]) -> Page:
    """Return the page of a plan, from its figures."""
    page = Page()
    if data["partitions"]:
        columns = [
            Column("partition", wrap=True),
            *(Column(title, number=True) for title in ("parts", "rows", "bytes")),
            Column("past since"),
        ]
        rows = [
            [
                partition["partition"] or "-",
                number(partition["parts"]),
                number(partition["rows"]),
                about_size(partition["bytes"]),
                when(partition["end_ms"]),
            ]
            for partition in data["partitions"]
        ]
        page.table(columns, rows)
        page.line()
    _render_kept(page, data)
    cutoff = when(data["cutoff_ms"])
    if data["partitions"]:
        page.conclusion(f"{sentence(data)} of {data['table']} would go: wholly before {cutoff}.")
    else:
        page.conclusion(f"Nothing in {data['table']} is wholly before {cutoff}.")
    return page


def ttl_report_page(data: Mapping[str, Any]) -> Page:
    """Return the page of a report, from its figures."""
    page = Page()
    _render_kept(page, data)
    if data["transaction"] is None:
        name = data["table"]
        page.conclusion(f"Nothing to drop in {name}: `firnline ttl {name} --dry-run` says why.")
        return page
    page.add(dropped_page(data))
    return page


def _render_kept(page: Page, data: Mapping[str, Any]) -> None:
    """Print the reasons with their counts, and the partitions that cannot be dated."""
    if data["undecided"]:
        columns = [
            Column("stays, not dated"),
            Column("parts", number=True),
            Column("because", wrap=True),
        ]
        rows = [
            [found["partition"] or "-", number(found["parts"]), found["reason"]]
            for found in data["undecided"][:SHOWN]
        ]
        page.table(columns, rows)
        left_out = data.get("undecided_count", len(data["undecided"])) - len(rows)
        if left_out > 0:
            page.line(f"… and {number(left_out)} more: --json lists them")
        page.line()
    page.reasons("partitions", data["kept"])
