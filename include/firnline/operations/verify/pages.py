"""The pages of verify: what its plan and its report say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from firnline.operations.common_pages import SHOWN
from firnline.pages import Column, Page, number, requests_text
from firnline.units import about_duration, about_size, counted


def report_page(data: Mapping[str, Any]) -> Page:
    """Return the page of a report, from its figures."""
    page = Page()
    page.in_short(_sentence(data))
    _render_findings(page, data)
    page.pairs(_rows(data))
    return page


def _sentence(data: Mapping[str, Any]) -> str:
    """Return what was checked, and how much was found."""
    checked = data["checked"]
    each = (
        counted(checked["log_files"], "log file"),
        counted(checked["transactions"], "transaction"),
        f"{number(checked['live_parts'])} live and {counted(checked['dead_parts'], 'dead part')}",
        f"{counted(checked['objects'], 'object')} ({about_size(checked['bytes'])})",
        *_opened(data),
    )
    return f"checked: {', '.join(each)}; found: {_found(data)}"


def _opened(data: Mapping[str, Any]) -> list[str]:
    """Return what a check that opens parts has opened."""
    checked, opened = data["checked"], []
    if data["deep"]:
        states = "states" if checked["footers"] == 1 else "state"
        rows = counted(checked["footer_rows"], "row")
        opened.append(f"{counted(checked['footers'], 'footer')} that {states} {rows}")
    if data["rows"]:
        parts = counted(checked["read_parts"], "part")
        opened.append(f"all {counted(checked['read_rows'], 'row')} of {parts}")
    if checked["unstated_parts"]:
        parts = counted(checked["unstated_parts"], "part")
        opened.append(f"{parts} without a digest to compare them with")
    return opened


def _found(data: Mapping[str, Any]) -> str:
    """Return the number of findings of each severity, the worst first."""
    severities = data["severities"]
    found = (
        f"{number(severities[level])} {level}{'' if severities[level] == 1 else 's'}"
        for level in ("error", "warning", "note")
        if severities.get(level)
    )
    return ", ".join(found) or "nothing"


def _render_findings(page: Page, data: Mapping[str, Any]) -> None:
    if not data["findings"]:
        return
    columns = [
        Column("severity"),
        Column("object", wrap=True),
        Column("finding", wrap=True, prose=True),
        Column("what to do", wrap=True, prose=True),
    ]
    shown: dict[str, int] = {}
    rows = []
    for finding in data["findings"]:
        kind = finding["kind"]
        shown[kind] = shown.get(kind, 0) + 1
        if shown[kind] <= SHOWN:
            texts = ("severity", "object", "sentence", "next_step")
            rows.append([finding[name] for name in texts])
    page.table(columns, rows)
    for kind, count in data["kinds"].items():
        if count > SHOWN:
            page.line(f"{number(count - SHOWN)} more of the kind {kind}.")
    page.line()


def _rows(data: Mapping[str, Any]) -> list[tuple[str, str]]:
    checked = data["checked"]
    seen = checked["v1_parts"]
    others = "" if seen == checked["live_parts"] else f"; clients of version 1 see {number(seen)}"
    rows = [
        ("table", data["table"]),
        ("found", _found(data)),
        ("log files", number(checked["log_files"])),
        ("transactions", number(checked["transactions"])),
        (
            "parts",
            f"{number(checked['live_parts'])} live, {number(checked['dead_parts'])} dead{others}",
        ),
        ("rows", number(checked["rows"])),
        ("objects", f"{number(checked['objects'])}, {about_size(checked['bytes'])}"),
    ]
    if data["deep"]:
        footers = f"{number(checked['footers'])} with {counted(checked['footer_rows'], 'row')}"
        rows.append(("footers", footers))
    if data["rows"]:
        read = f"{number(checked['read_parts'])} with {counted(checked['read_rows'], 'row')} read"
        if checked["unstated_parts"]:
            read += f"; {counted(checked['unstated_parts'], 'part')} without a digest to compare"
        rows.append(("rows of parts", read))
    rows += [
        ("requests", requests_text(data["requests"])),
        ("time", about_duration(round(data["seconds"] * 1000))),
    ]
    return rows
