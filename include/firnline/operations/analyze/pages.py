"""The pages of analyze: what its plan and its report say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from firnline.operations.common_pages import SHOWN, failures_page
from firnline.pages import Column, Page, number, requests_text
from firnline.units import about_duration, counted

_ORDER = "(sort order)"
"""Stands among the columns that parts lack statistics of."""


def plan_page(data: Mapping[str, Any]) -> Page:
    """Return the page of a plan, from its figures."""
    page = Page()
    _render_without(page, data["table"], data)
    if not data["parts"]:
        page.line(_complete(data["table"], data))
        return page
    columns = [Column("column", wrap=True), Column("parts that lack it", number=True)]
    lacking = {**data["lacking"], **data["lacking_hashes"]}
    lacking[_ORDER] = data["parts_without_order"]
    rows = [[name, number(count)] for name, count in lacking.items() if count]
    page.table(columns, rows)
    page.line()
    columns = [Column("partition", wrap=True), Column("parts", number=True)]
    partitions = list(data["partitions"].items())
    page.table(columns, ([name or "-", number(count)] for name, count in partitions[:SHOWN]))
    if len(partitions) > SHOWN:
        page.line(f"… and {number(len(partitions) - SHOWN)} more: --json lists them")
    page.line()
    what = "footers"
    if data["parts_to_hash"]:
        what = f"footers, and of {data['parts_to_hash']:,} the columns to hash,"
    page.line(
        f"The {what} of {counted(data['parts'], 'part')} of {data['table']} would be read, with "
        f"about {counted(data['requests'], 'request')}."
    )
    return page


def _complete(table: str, plan: Mapping[str, Any]) -> str:
    if plan["lacking_hashes"] and not plan["parts_not_hashed"]:
        return f"The log has the statistics of {table} that footers can have, and its hash ranges."
    return f"The log has the statistics of {table} that footers can have."


def _render_without(page: Page, table: str, plan: Mapping[str, Any]) -> None:
    """Print which columns are not looked for, and why."""
    names = plan["columns_without_bounds"]
    if names:
        page.line(
            f"No footer has bounds of {', '.join(names)}, by the type: only appends and merges "
            "state them."
        )
    names = plan["columns_not_kept"]
    if names:
        page.line(
            f"Only the settings name {', '.join(names)}: `firnline properties apply {table}` makes "
            "the table keep their bounds; then run this again."
        )
    names = plan["columns_unknown"]
    if names:
        page.line(
            f"{table} has no column {', '.join(names)}, which the setting statistics names: "
            "correct it there, unless rows to come bring it."
        )

    if plan["parts_not_hashed"]:
        page.line(
            f"{counted(plan['parts_not_hashed'], 'part')} state no hash range of "
            f"{', '.join(plan['lacking_hashes'])}: with --hashes these columns are read."
        )


def report_page(data: Mapping[str, Any]) -> Page:
    """Return the page of a report, from its figures."""
    page = Page()
    _render_without(page, data["table"], data["plan"])
    if not data["plan"]["parts"]:
        page.line(_complete(data["table"], data["plan"]))
        return page
    if data["failures"]:
        page.add(failures_page(data))
    page.pairs(
        [
            ("columns", ", ".join([*data["plan"]["columns"], *_more(data["plan"])]) or "-"),
            ("parts that state more", number(data["parts"])),
            ("parts without them", number(data["parts_without"])),
            ("replaced meanwhile", number(data["parts_gone"])),
            ("transactions", ", ".join(map(number, data["transactions"])) or "-"),
            ("requests", requests_text(data["requests"])),
            ("time", about_duration(round(data["seconds"] * 1000))),
        ]
    )
    return page


def _more(plan: Mapping[str, Any]) -> list[str]:
    order = [_ORDER] if plan["parts_without_order"] else []
    return [*order, *(name for name, parts in plan["lacking_hashes"].items() if parts)]
