"""The pages of erase: what its plan and its report say."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from firnline.operations.common_pages import add_groups, failures_page
from firnline.operations.registry import CLEANUP
from firnline.pages import Page, number, requests_text
from firnline.units import about_duration, about_size, counted


def partly_page(data: Mapping[str, Any], *, has_cleanup: bool = False) -> Page:
    """Return the page of a report, from its figures."""
    page = Page()
    page.add(failures_page(data))
    page.add(report_page(data, has_cleanup=has_cleanup))
    return page


def plan_page(data: Mapping[str, Any]) -> Page:
    """Return the page of a plan, from its figures."""
    page = Page()
    add_groups(page, data)
    page.conclusion(
        f"Keys of {', '.join(data['columns'])}: {number(data['keys'])}. "
        f"{counted(data['parts_to_read'], 'part')} of {data['table']} would be read (about "
        f"{about_size(data['bytes_in'])}), and rewritten where a row has one of them."
    )
    return page


def _next(data: Mapping[str, Any], *, has_cleanup: bool) -> str:
    command = f"`firnline certificate {data['table']} {data['certificate']}`, after the grace"
    return f"{command}; so does a run of {CLEANUP.dag} in Airflow" if has_cleanup else command


def report_page(data: Mapping[str, Any], *, has_cleanup: bool = False) -> Page:
    """Return the page of a report, from its figures."""
    page = Page()
    counts = defaultdict(int, data["counts"])
    keys = f"{number(data['keys'])} of {', '.join(data['columns'])}"
    rows = [
        ("erased", counted(counts["rows_deleted"], "row")),
        ("keys", keys),
        (
            "parts",
            (
                f"{number(data['parts_read'])} read, {number(data['parts_rewritten'])} of them "
                f"rewritten, {number(data['parts_excluded'])} excluded by statistics"
            ),
        ),
        ("transaction", number(data["transaction"])),
        ("certificate", f"{data['certificate']}"),
        ("next", _next(data, has_cleanup=has_cleanup)),
        ("requests", requests_text(data["requests"])),
        ("time", about_duration(round(data["seconds"] * 1000))),
    ]
    if data["secret"] is not None:
        rows.append(("secret", f"{data['secret']}"))
    if data["settled"]:
        rows.append(("earlier runs", f"certified now: {', '.join(data['settled'])}"))
    page.pairs(rows)
    page.line()
    if data["secret"] is not None:
        page.line(
            "Note the secret, it is stored nowhere: with it and the file of keys `firnline "
            f"certificate {data['table']} {data['certificate']} --keys FILE --secret SECRET` shows "
            "whose certificate this is."
        )
    page.line(f"No certificate speaks of {'; '.join(data['outside'])}.")
    return page
