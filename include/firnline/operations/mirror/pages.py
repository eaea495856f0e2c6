"""The pages of mirror: what its plan and its report say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from firnline.pages import Page, number, requests_text
from firnline.shown import when
from firnline.units import about_duration, counted


def report_page(data: Mapping[str, Any]) -> Page:
    """Return the page of a report, from its figures."""
    page = Page()
    from firnline.settings.mirrors import FORMATS

    for name in FORMATS:
        if data[name] is not None:
            _render_one(page, data, name)
    pairs = [("checkpoint", number(data["checkpoint"]))] if data["checkpoint"] else []
    if data["expired"]:
        pairs.append(("expired", counted(data["expired"], "object")))
    pairs += [("warning", warning) for warning in data["warnings"]]
    pairs += [
        ("requests", requests_text(data["requests"])),
        ("time", about_duration(round(data["seconds"] * 1000))),
    ]
    page.pairs(pairs)
    return page


def _render_one(page: Page, data: Mapping[str, Any], name: str) -> None:
    from firnline.operations.mirror.words import VERSION, sentence_of

    done = data[name]
    page.line(sentence_of(data, name))
    pairs = [
        (VERSION[name], "none" if done["version"] is None else number(done["version"])),
        ("shows transaction", "none" if done["shown"] is None else number(done["shown"])),
        ("newest transaction", number(done["seq"])),
        ("files", number(done["files"])),
    ]
    if done["vectors"]:
        pairs.append(("files with hidden rows", number(done["vectors"])))
    if done["hold"] is not None:
        pairs.append(("waits since", when(done["hold"]["since_ms"])))
    page.pairs(pairs)


def checks_page(data: Mapping[str, Any]) -> Page:
    """Return the page of a report, from its figures."""
    page = Page()
    from firnline.settings.mirrors import FORMATS

    for name in FORMATS:
        if data[name] is not None:
            _render_check(page, data[name])
        if name in data["errors"]:
            page.line(f"The {name.capitalize()} mirror of {data['table']} was not compared.")
            page.pairs([("error", data["errors"][name])])
    return page


def _render_check(page: Page, data: Mapping[str, Any]) -> None:
    from firnline.operations.mirror.words import VERSION

    name = data["format"]
    state = "shows the newest state" if data["same"] else "differs from the log"
    page.line(f"The {name.capitalize()} mirror of {data['table']} {state}.")
    pairs = [
        (VERSION[name], "none" if data["version"] is None else number(data["version"])),
        ("shows transaction", "none" if data["shown"] is None else number(data["shown"])),
        ("newest transaction", number(data["seq"])),
        ("live parts", number(data["parts"])),
        ("of them missing", number(data["missing"])),
        ("dead parts shown", number(data["dead"])),
    ]
    if data["unhidden"]:
        pairs.append(("parts with other hidden rows", number(data["unhidden"])))
    if data["columns_differ"]:
        pairs.append(("columns", "differ"))
    if data["hold"] is not None:
        pairs.append(("waits", data["hold"]["reason"]))
        pairs.append(("since", when(data["hold"]["since_ms"])))
    pairs.append(("requests", requests_text(data["requests"])))
    page.pairs(pairs)
