"""The pages of a drop of a table: what its plan and its report say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from firnline.errors import some
from firnline.operations.common_pages import add_undeleted, sentence
from firnline.pages import Page, number, requests_text
from firnline.shown import when
from firnline.units import about_duration, about_size, counted


def plan_page(data: Mapping[str, Any]) -> Page:
    """Return the page of a plan, from its figures."""
    page = Page()
    pages = {"drop": _would_drop, "wait": _waits, "delete": _would_delete}
    pages[data["phase"]](page, data)
    return page


def _would_drop(page: Page, data: Mapping[str, Any]) -> None:
    page.pairs([("table", data["table"]), ("root", data["root"]), *_holds(data)])
    page.line()
    page.conclusion(
        f"{sentence(data)} of {data['table']}, all of it, would be dropped in one transaction."
    )
    page.line(
        "No object is deleted by that: it can be undone until clean-up deletes the parts, and a "
        f"second run, {about_duration(data['wait_ms'])} later, deletes everything below the root."
    )
    if data["certificates"]:
        page.line(
            f"Then {counted(data['certificates'], 'certificate')} of erases go, too: `firnline "
            f"certificate {data['table']} --bundle FOLDER` keeps copies."
        )


def _holds(data: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "partitions", number(data["partitions"])
    yield "parts", f"{number(data['parts'])}, {about_size(data['bytes'])}"
    unknown = data["parts_without_rows"]
    more = f", and those of {counted(unknown, 'part')} that do not say" if unknown else ""
    yield "rows", f"{number(data['rows'])}{more}"
    yield "mirrors", ", ".join(data["mirrors"]) or "none"
    yield "prepared changes", some(data["prepared"]) or "none"
    yield "in settings", data["named_in"] or "no file"


def _waits(page: Page, data: Mapping[str, Any]) -> None:
    name = data["table"]
    page.conclusion(_dropped(data))
    if data["shown_by"]:
        page.line(
            f"It is time to delete its objects, and readers of its {some(data['shown_by'])} mirror "
            f"may still use parts: `firnline mirror {name}` publishes that they are gone, and a "
            "grace later this command deletes everything."
        )
    else:
        page.line(
            f"From {when(data['due_ms'])} on, by the store's clock, the same command deletes every "
            f"object below {data['root']}."
        )
    _add_restore(page, data)


def _dropped(data: Mapping[str, Any]) -> str:
    return f"{data['table']} was dropped by transaction {number(data['mark'])}."


def _add_restore(page: Page, data: Mapping[str, Any]) -> None:
    """Add how to bring the table back."""
    page.line("Until clean-up has deleted its parts, this brings it back:")
    page.command(f"firnline restore {data['table']} --to {data['restore_to']}")


def _would_delete(page: Page, data: Mapping[str, Any]) -> None:
    left = data["left"]
    kinds = [
        ("" if at else "to delete", f"{number(count)} {kind}{_plural(kind, count)}")
        for at, (kind, count) in enumerate(left["objects"].items())
    ]
    page.pairs([("table", data["table"]), ("root", data["root"]), *kinds])
    page.line()
    if data["mark"] is not None:
        page.line(_dropped(data))
    total = counted(sum(left["objects"].values()), "object")
    page.conclusion(
        f"{total} ({about_size(left['bytes'])}) below {data['root']} would be deleted for good."
    )
    _add_what_stays(page, data)


def _plural(kind: str, count: int) -> str:
    """Return the plural of a kind of object, of which some end in a name of what they are of."""
    plain = count != 1 and " of " not in kind and " on " not in kind and not kind.endswith("s")
    return "s" if plain and kind != "foreign" else " objects" if kind == "foreign" else ""


def _add_what_stays(page: Page, data: Mapping[str, Any]) -> None:
    if data["catalog"]:
        page.line(f"What stays: {data['catalog']}. Drop it there without its files.")
    if data["named_in"]:
        page.line(f"{data['named_in']} names the table: take it out, or DAGs look for it.")


def report_page(data: Mapping[str, Any]) -> Page:
    """Return the page of a report, from its figures."""
    page = Page()
    plan = {"table": data["table"], **data["plan"]}
    add_undeleted(page, data["failures"], data["failed"])
    if data["transaction"] is not None:
        _has_dropped(page, data, plan)
    elif data["deleted"] or data["failed"]:
        _has_deleted(page, data, plan)
    else:
        return plan_page(plan)
    return page


def _figures(data: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [
        ("requests", requests_text(data["requests"])),
        ("time", about_duration(round(data["seconds"] * 1000))),
    ]


def _has_dropped(page: Page, data: Mapping[str, Any], plan: Mapping[str, Any]) -> None:
    page.in_short(f"dropped: {sentence(plan)}, all of {data['table']}")
    page.pairs(
        [
            ("dropped", f"{sentence(plan)}, all of {data['table']}"),
            ("transaction", number(data["transaction"])),
            *_figures(data),
        ]
    )
    page.line()
    _add_restore(page, plan)
    page.line(
        f"From {when(data['due_ms'])} on the same command deletes every object below "
        f"{plan['root']}. Stop what appends to it until then: what is appended is kept."
    )


def _has_deleted(page: Page, data: Mapping[str, Any], plan: Mapping[str, Any]) -> None:
    deleted = counted(data["deleted"], "object")
    page.in_short(f"deleted: {deleted} of {data['table']}")
    rows = [("deleted", deleted)]
    rows += [("uploads", number(data["uploads_aborted"]))] if data["uploads_aborted"] else []
    page.pairs([*rows, *_figures(data)])
    page.line()
    if data["failed"]:
        return
    page.line(f"Nothing of {data['table']} is left below {plan['root']}.")
    if data["markers"]:
        page.line(f"{counted(data['markers'], 'folder marker')} of a console stay there.")
    _add_what_stays(page, plan)
    page.line(
        f"Begin no new table there for {about_duration(plan['wait_ms'])}: a request to delete that "
        "the store carries out late could meet an object of the same name."
    )
