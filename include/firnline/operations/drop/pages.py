"""The pages of drop: what its plan and its report say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from firnline.operations.common_pages import sentence
from firnline.pages import Column, Page, number
from firnline.units import about_duration, about_size, counted


def list_page(data: Mapping[str, Any]) -> Page:
    """Return the page of a report, from its figures."""
    page = Page()
    if not data["partitions"]:
        page.line(f"{data['table']} has no live part.")
        return page
    found = data["partitions"]
    _table(page, found, data["now"])
    parts, size = (sum(each[name] for each in found) for name in ("parts", "bytes"))
    listed = counted(len(found), "partition"), counted(parts, "part"), about_size(size)
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
            found["partition"] or "-",
            number(found["parts"]),
            number(found["rows"]),
            about_size(found["bytes"]),
            *(about_duration(max(0, now_ms - found[f"{end}_ms"])) for end in ("oldest", "newest")),
        ]
        for found in partitions
    ]
    counts = [found["rows"] for found in partitions]
    total = [
        f"{number(len(rows))} in all",
        number(sum(found["parts"] for found in partitions)),
        number(None if None in counts else sum(counts)),
        about_size(sum(found["bytes"] for found in partitions)),
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
