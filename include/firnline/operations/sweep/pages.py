"""The pages of sweep: what its plan and its report say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from firnline.operations.common_pages import add_undeleted
from firnline.pages import Column, Page, number, requests_text
from firnline.units import about_duration, about_size, counted

_SHOWN = 50


def plan_page(data: Mapping[str, Any]) -> Page:
    """Return the page of a plan, from its figures."""
    page = Page()
    orphans = data["orphans"]
    if orphans:
        columns = [
            Column("orphan", wrap=True),
            Column("what"),
            Column("bytes", number=True),
            Column("age", number=True),
        ]
        rows = [
            [
                one["key"],
                one["kind"],
                "?" if one["kind"] == "upload" else about_size(one["bytes"]),
                about_duration(one["age"]),
            ]
            for one in orphans[:_SHOWN]
        ]
        count, whole = len(orphans) + data["more"], data["bytes"] + data["more_bytes"]
        page.in_short(f"{counted(count, 'orphan')} ({about_size(whole)}) would be deleted")
        page.table(columns, rows, [f"{number(count)} in all", "", about_size(whole), ""])
        page.line()
        if count > _SHOWN:
            page.line(f"The first {_SHOWN} are shown; --json lists {number(len(orphans))}.")
        page.line(f"`firnline sweep {data['table']} --delete` deletes them.")
        foreign = sum(one["kind"] == "foreign" for one in orphans)
        if foreign:
            page.line(
                f"But {number(foreign)} with names that firnline does not give: "
                "those go only by --key."
            )
    else:
        page.conclusion(f"No orphans in {data['table']}.")
    if data["endings"]:
        ends = counted(len(data["endings"]), "prepared change")
        page.in_short(f"{page.sentence}; {ends} would end")
    _render_young(page, data, about_duration(data["grace"]))
    return page


def _render_young(page: Page, data: Mapping[str, Any], grace: str) -> None:
    if data["prepared"]:
        page.line(
            f"{counted(data['prepared'], 'part')} of prepared changes wait for a decision: see "
            f"`firnline rewrite {data['table']} --prepared`."
        )
    if data.get("endings"):
        page.line(
            f"{counted(len(data['endings']), 'prepared change')} would end: nobody decided in time."
        )
    if data.get("discarded"):
        page.line(
            f"{counted(data['discarded'], 'part')} of prepared changes deleted: nobody decided in "
            "time."
        )
    if data.get("waiting"):
        from firnline.operations.sweep.run import WAITING

        size = about_size(data["waiting_bytes"])
        page.line(f"{counted(data['waiting'], 'orphan')} ({size}) {WAITING}.")
    if data["young"]:
        page.line(
            f"{counted(data['young'], 'object')} ({about_size(data['young_bytes'])}) that nobody "
            f"names, not older than {grace}: somebody may still be at work there."
        )


def report_page(data: Mapping[str, Any]) -> Page:
    """Return the page of a report, from its figures."""
    page = Page()
    add_undeleted(page, data["failures"], data["failed"])
    if not data["orphans"]:
        page.conclusion(f"No orphans in {data['table']}.")
        for why, count in data["left"].items():
            page.line(f"{counted(count, 'orphan')} {why}.")
    else:
        page.in_short(
            f"deleted: {counted(data['deleted'], 'orphan')} ({about_size(data['bytes'])})"
        )
        page.pairs(
            [
                ("orphans", f"{number(data['orphans'])}, {about_size(data['orphan_bytes'])}"),
                ("deleted", f"{number(data['deleted'])}, {about_size(data['bytes'])}"),
                ("of them uploads", number(data["uploads_aborted"])),
                *((f"left: {number(count)}", why) for why, count in data["left"].items()),
                ("requests", requests_text(data["requests"])),
                ("time", about_duration(round(data["seconds"] * 1000))),
            ]
        )
    if data["gone"]:
        page.line(f"{counted(data['gone'], 'key')} given that is not an orphan (any more).")
    left = sum(data["left"].values())
    page.in_short(
        page.sentence
        + (f"; {number(left)} left" if left else "")
        + (f"; {counted(data['discarded'], 'prepared part')} deleted" if data["discarded"] else "")
    )
    _render_young(page, data, "orphan_grace")
    return page
