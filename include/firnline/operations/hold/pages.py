"""The pages of legal holds: what plans, reports and the list say."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from firnline.pages import Column, Page, number
from firnline.predicate.tree import parse_json
from firnline.predicate.words import in_words
from firnline.shown import when
from firnline.units import about_size, counted


def list_page(data: Mapping[str, Any]) -> Page:
    """Return the page of the holds in force, from its figures."""
    page = Page()
    if not data["holds"]:
        page.line(f"{data['table']} has no legal hold.")
        return page
    columns = [
        Column("hold", wrap=True),
        Column("rows", wrap=True),
        Column("since"),
        Column("by", wrap=True),
        Column("why", wrap=True),
        Column("parts", number=True),
        Column("kept dead", number=True),
    ]
    rows = [
        [
            hold["name"],
            _rows(hold),
            when(hold["t"]),
            _by(hold),
            hold["why"],
            number(hold["live"]["parts"]),
            number(hold["dead"]["parts"]),
        ]
        for hold in data["holds"]
    ]
    page.table(columns, rows)
    return page


def hold_plan_page(data: Mapping[str, Any]) -> Page:
    """Return the page of a plan, from its figures."""
    page = Page()
    _facts(page, data["hold"])
    page.line()
    page.conclusion(f"Nobody could remove these rows of {data['table']} until the hold ends.")
    return page


def hold_report_page(data: Mapping[str, Any]) -> Page:
    """Return the page of a report, from its figures."""
    page = Page()
    _facts(page, data["hold"], data["transaction"])
    page.line()
    page.conclusion(
        f"{data['table']} is held: whatever would remove these rows leaves them or is refused, "
        f"until `firnline hold end {data['table']} {shlex.quote(data['hold']['name'])}`."
    )
    return page


def end_plan_page(data: Mapping[str, Any]) -> Page:
    """Return the page of a plan, from its figures."""
    page = Page()
    _facts(page, data["hold"])
    page.line()
    page.conclusion(f"These rows of {data['table']} could be removed again by whoever may.")
    return page


def end_report_page(data: Mapping[str, Any]) -> Page:
    """Return the page of a report, from its figures."""
    page = Page()
    _facts(page, data["hold"], data["transaction"])
    page.line()
    page.conclusion(
        f"The hold on {data['table']} has ended: the next TTL and clean-up remove what is past."
    )
    return page


def _facts(page: Page, hold: Mapping[str, Any], transaction: int | None = None) -> None:
    live, dead = hold["live"], hold["dead"]
    covers = f"at most {counted(live['rows'], 'row')} in {counted(live['parts'], 'part')}"
    kept = [("kept dead", f"{counted(dead['parts'], 'part')}, {about_size(dead['bytes'])}")]
    page.pairs(
        [
            ("hold", hold["name"]),
            ("rows", _rows(hold)),
            ("by", _by(hold)),
            ("why", hold["why"]),
            ("covers", f"{covers}, {about_size(live['bytes'])}"),
            *(kept if dead["parts"] else []),
            *([] if transaction is None else [("transaction", number(transaction))]),
        ]
    )


def _rows(hold: Mapping[str, Any]) -> str:
    where = in_words(parse_json(hold["where"])) if hold["where"] else "all"
    return f"{where} in {', '.join(hold['partitions'])}" if hold["partitions"] else where


def _by(hold: Mapping[str, Any]) -> str:
    approved = hold["approved_by"]
    return f"{hold['by']}, approved by {approved}" if approved else str(hold["by"])
