"""The page of the tables below a place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from firnline.errors import some
from firnline.pages import Column, Page, number
from firnline.units import about_duration, about_size, counted


def tables_page(data: Mapping[str, Any]) -> Page:
    """Return the page of a report, from its figures."""
    page = Page()
    tables = data["tables"]
    if not tables:
        levels = counted(data["depth"], "level")
        page.conclusion(f"No table at {data['url']} or in {levels} of folders below it.")
        _add_links(page, data["links"])
        return page
    page.table(*_grid(tables, data))
    page.in_short(_summary(tables))
    page.line()
    page.line(f"{page.sentence}.")
    _add_links(page, data["links"])
    if data["to_add"]:
        page.line()
        page.line("To write those that the settings do not have into them:")
        for command in data["to_add"]:
            page.command(command)
    return page


def _add_links(page: Page, links: Sequence[str]) -> None:
    if links:
        page.line()
        page.line(
            f"Not followed: {counted(len(links), 'symbolic link')}, {some(links)}. A table behind "
            "one is listed by a URL that leads to it."
        )


def _grid(
    tables: Sequence[Mapping[str, Any]], data: Mapping[str, Any]
) -> tuple[list[Column], list[list[str]]]:
    if data["shallow"]:
        columns = [Column("root", wrap=True), Column("settings"), Column("", wrap=True)]
        return columns, [[each["root"], each["name"] or "-", _remark(each)] for each in tables]
    columns = [
        Column("root", wrap=True),
        Column("settings"),
        *(Column(title, number=True) for title in ("score", "parts", "bytes", "newest")),
        Column("", wrap=True, prose=True),
    ]
    return columns, [_row(each, data["looked_ms"]) for each in tables]


def _row(table: Mapping[str, Any], now_ms: int) -> list[str]:
    named = [table["root"], table["name"] or "-"]
    if table["state"] != "readable":
        unknown = "?" if table["state"] == "unreadable" else "-"
        return [*named, *[unknown] * 4, _remark(table)]
    age = about_duration(max(0, now_ms - table["newest_ms"]))
    figures = [number(table["score"]), number(table["parts"]), about_size(table["bytes"]), age]
    return [*named, *figures, ""]


def _remark(table: Mapping[str, Any]) -> str:
    if table["state"] == "unreadable":
        return f"cannot be read: {table['reason']}"
    return "not written" if table["state"] == "not written" else ""


def _summary(tables: Sequence[Mapping[str, Any]]) -> str:
    """Return the counts in words, those that are 0 left out."""
    there = [each for each in tables if each["state"] != "not written"]
    broken = sum(each["state"] == "unreadable" for each in there)
    unnamed = sum(each["name"] is None for each in there)
    absent = len(tables) - len(there)
    words = [counted(len(there), "table")]
    words += [f"{number(broken)} cannot be read"] if broken else []
    words += [f"{number(unnamed)} not in the settings"] if unnamed else []
    words += [f"{number(absent)} in the settings and not written"] if absent else []
    return ", ".join(words)
