"""The pages of prepared changes: which rows they would remove, add and change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from firnline.operations.common_pages import SHOWN
from firnline.operations.prepared.evidence import sample_text
from firnline.pages import Column, Page, number, requests_text
from firnline.shown import when
from firnline.units import about_duration, about_size, counted


def prepared_page(data: Mapping[str, Any]) -> Page:
    """Return the report of a prepare: its evidence, its id and how to decide."""
    page = Page()
    name, change = data["table"], data["id"]
    if change is None:
        page.line(f"Nothing would change in {name}, so nothing is prepared.")
        return page
    render_evidence(page, name, data["evidence"])
    page.pairs(
        [
            ("prepared", change + (" (by an earlier try of this run)" if data["earlier"] else "")),
            ("made from", f"the table as of transaction {number(data['seq'])}"),
            ("new parts", about_size(data["bytes"])),
            ("kept for", about_duration(data["keep"])),
            ("requests", requests_text(data["requests"])),
            ("time", about_duration(round(data["seconds"] * 1000))),
        ]
    )
    page.line()
    render_choices(page, name, change)
    return page


def render_choices(page: Page, table: str, change: str) -> None:
    """Add the two commands that decide on a change."""
    page.line("Nobody sees it yet. To commit exactly these parts, or to delete them:")
    page.command(f"firnline rewrite {table} --commit {change}")
    page.command(f"firnline rewrite {table} --discard {change}")


def commit_page(data: Mapping[str, Any]) -> Page:
    """Return what the commit of a prepared change would do."""
    page = Page()
    if data["committed"] is not None:
        done = f"is committed to {data['table']} already, as transaction {data['committed']}"
        page.line(f"{data['id']} {done}.")
        return page
    render_evidence(page, data["table"], data["evidence"])
    old, new = _parts(data)
    page.line(f"A commit of {data['id']} would put {new} in the place of {old}.")
    return page


def discard_page(data: Mapping[str, Any]) -> Page:
    """Return what the discard of a prepared change would do."""
    page = Page()
    render_evidence(page, data["table"], data["evidence"])
    page.line(f"A discard of {data['id']} would delete {_parts(data)[1]}, which nobody sees.")
    return page


def _parts(data: Mapping[str, Any]) -> tuple[str, str]:
    """Return how many parts would be replaced, and how many are new."""
    counts = data["counts"]
    return counted(counts["parts_in"], "part"), counted(counts.get("parts_out", 0), "new part")


def render_evidence(page: Page, table: str, shown: Mapping[str, Any]) -> None:
    """Add the difference: a row per partition, changed columns, sample rows, assertions."""
    _partitions(page, table, shown)
    if shown["columns"]:
        columns = [Column("column", wrap=True), Column("values changed", number=True)]
        most = sorted(shown["columns"].items(), key=lambda item: (-item[1], item[0]))
        page.table(columns, ([name, number(count)] for name, count in most))
        page.line()
    if shown.get("samples"):
        _samples(page, shown["samples"])
    if shown.get("assertions"):
        page.table([Column("holds", wrap=True)], ([one] for one in shown["assertions"]))
        page.line()


def _partitions(page: Page, table: str, shown: Mapping[str, Any]) -> None:
    kinds = ("removed", "added", "changed") if shown["keys"] else ("removed", "added")
    columns = [
        Column("partition", wrap=True),
        Column("rows", number=True),
        *(Column(kind, number=True) for kind in kinds),
    ]

    def row(name: str, figures: Mapping[str, Any]) -> list[str]:
        rows = f"{number(figures['rows_before'])} → {number(figures['rows_after'])}"
        return [name, rows, *(number(figures[kind]) for kind in kinds)]

    rows = [row(each["partition"] or "-", each) for each in shown["partitions"][:SHOWN]]
    footer = row(counted(shown["partition_count"], "partition"), shown)
    page.table(columns, rows, footer if shown["partition_count"] > 1 else None)
    if shown["partition_count"] > len(rows):
        more = number(shown["partition_count"] - len(rows))
        page.line(f"and {more} more; `firnline rewrite {table} --prepared --json` has them")
    if shown["keys"]:
        page.line(f"Rows are matched by {', '.join(shown['keys'])}.")
    elif shown["added"]:
        page.line("A changed row counts as one removed and one added: no key matches rows.")
        page.line("(--key names one, for a new prepare.)")
    page.line()


def _samples(page: Page, samples: Sequence[Mapping[str, Any]]) -> None:
    of = {one["partition"] or "-" for one in samples}
    several = len(of) > 1
    if not several:
        page.line(f"Sample rows, of {of.pop()}:")
    columns = [
        Column("sample", style="dim"),
        *[Column("partition", wrap=True)] * several,
        Column("row", wrap=True),
    ]
    rows = [
        [one["kind"], *[one["partition"] or "-"] * several, sample_text(one)] for one in samples
    ]
    page.table(columns, rows)
    page.line()


def waiting_page(data: Mapping[str, Any]) -> Page:
    """Return the prepared changes of a table."""
    page = Page()
    if not data["prepared"]:
        page.line(f"Nothing is prepared in {data['table']}.")
        return page
    for one in data["prepared"]:
        page.pairs(_waiting(one))
        page.line()
    page.line(f"`firnline rewrite {data['table']} --commit ID --dry-run` shows the rows of one.")
    return page


def _waiting(one: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return what is to be known of a change before one looks at its rows."""
    shown, options, run = one["evidence"], one["options"], one["run"]
    kinds = ", ".join(f"{number(shown.get(k, 0))} {k}" for k in ("removed", "added"))
    if shown.get("keys"):
        kinds += f", {number(shown.get('changed', 0))} changed"
    stays = "where" if options.get("where") else "sql"
    partitions = counted(shown.get("partition_count", 0), "partition")
    who = run.get("user") or run.get("dag_id") or ""
    by = f" by {who}" if who else ""
    rows = [
        ("prepared", one["id"]),
        ("since", f"{when(one['t'])}{by}, kept for {about_duration(one['keep'])}"),
        (stays, options.get(stays) or "-"),
        ("rows", f"{kinds}, in {partitions}"),
        ("new parts", f"{number(one['parts'])}, {about_size(one['bytes'])}"),
    ]
    if one["begun"]:
        rows.append(("begun", "somebody has decided already: give the same decision again"))
    return rows


def committed_page(data: Mapping[str, Any]) -> Page:
    """Return the report of a commit."""
    page = Page()
    counts = data["counts"]
    undone = f"; transaction {data['undone_by']} has undone it" if data["undone_by"] else ""
    again = f" (by an earlier try{undone})" if data["earlier"] else ""
    removed, changed = counts.get("rows_removed", 0), counts.get("rows_changed", 0)
    page.pairs(
        [
            ("committed", f"transaction {number(data['transaction'])}{again}"),
            (
                "rows",
                f"{f'{number(changed)} changed, ' if changed else ''}{number(removed)} vanished",
            ),
            ("parts", f"{number(counts['parts_in'])} → {number(counts.get('parts_out', 0))}"),
            ("requests", requests_text(data["requests"])),
            ("time", about_duration(round(data["seconds"] * 1000))),
        ]
    )
    return page


def discarded_page(data: Mapping[str, Any]) -> Page:
    """Return the report of a discard."""
    page = Page()
    size = about_size(data["bytes"])
    page.line(
        f"Prepared change {data['id']} is discarded: {counted(data['parts'], 'part')} ({size}) "
        f"deleted. {data['table']} is as it was."
    )
    return page
