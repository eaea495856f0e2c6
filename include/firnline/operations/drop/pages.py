"""The pages of removals: what their plans and reports say."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from firnline.operations.common_pages import SHOWN, dropped_page, held_rows, sentence
from firnline.pages import Column, Page, number
from firnline.shown import when
from firnline.units import about_duration, about_size, counted


def list_page(data: Mapping[str, Any]) -> Page:
    """Return the page of a report, from its figures."""
    page = Page()
    if not data["partitions"]:
        page.line(f"{data['table']} has no live part.")
        return page
    partitions = data["partitions"]
    _table(page, partitions, data["now"])
    parts, size = (sum(each[name] for each in partitions) for name in ("parts", "bytes"))
    listed = counted(len(partitions), "partition"), counted(parts, "part"), about_size(size)
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
            partition["partition"] or "-",
            number(partition["parts"]),
            number(partition["rows"]),
            about_size(partition["bytes"]),
            *(
                about_duration(max(0, now_ms - partition[f"{end}_ms"]))
                for end in ("oldest", "newest")
            ),
        ]
        for partition in partitions
    ]
    counts = [partition["rows"] for partition in partitions]
    total = [
        f"{number(len(rows))} in all",
        number(sum(partition["parts"] for partition in partitions)),
        number(None if None in counts else sum(counts)),
        about_size(sum(partition["bytes"] for partition in partitions)),
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


def ttl_plan_page(data: Mapping[str, Any]) -> Page:
    """Return the page of a plan, from its figures."""
    page = Page()
    if data["partitions"]:
        columns = [
            Column("partition", wrap=True),
            *(Column(title, number=True) for title in ("parts", "rows", "bytes")),
            Column("past since"),
        ]
        rows = [
            [
                partition["partition"] or "-",
                number(partition["parts"]),
                number(partition["rows"]),
                about_size(partition["bytes"]),
                when(partition["end_ms"]),
            ]
            for partition in data["partitions"]
        ]
        page.table(columns, rows)
        page.line()
    _render_kept(page, data)
    cutoff = when(data["cutoff_ms"])
    if data["hides"]:
        page.line(f"{_hidden(data['hides'])} would be hidden from readers.{_held(data['hides'])}")
    if data["partitions"] or data["hides"]:
        if data["fraction"] > data["max_removed_fraction"]:
            most = share_text(data["max_removed_fraction"])
            needs = "needs --force, a yes to its question, or an approval in its DAG"
            page.line(
                f"That is {share_text(data['fraction'])} of the table, more than "
                f"ttl.max_removed_fraction allows ({most}): "
                f"{f'such a run {needs}' if data['too_much'] else 'with --force it goes'}."
            )
        if data["partitions"]:
            page.conclusion(
                f"{sentence(data)} of {data['table']} would go: wholly before {cutoff}."
            )
        else:
            page.conclusion(
                f"No part of {data['table']} would go; rows of {_parts(data['hides'])} would."
            )
    else:
        page.conclusion(f"Nothing in {data['table']} is wholly before {cutoff}.")
    return page


def share_text(fraction: float) -> str:
    """Return a fraction of a table in words, rounded up: ``50.01 %`` is more than a half.

    ``all`` only where no row is left.
    """
    percent = math.ceil(round(fraction * 10_000, 6)) / 100
    return "all" if fraction >= 1 else f"{min(percent, 99.99):g} %"


def ttl_report_page(data: Mapping[str, Any]) -> Page:
    """Return the page of a report, from its figures."""
    page = Page()
    _render_kept(page, data)
    if data["transaction"] is None:
        name = data["table"]
        page.conclusion(f"Nothing to drop in {name}: `firnline ttl {name} --dry-run` says why.")
        return page
    hidden = data["hidden"]
    if hidden:
        page.line(
            f"{_hidden(hidden)} are hidden from readers; merges remove them, by "
            f"{when(hidden['due_ms'])} where nothing else is to be merged.{_held(hidden)}"
        )
    if data["parts"] or not hidden:
        page.add(dropped_page(data))
    else:
        page.conclusion(
            f"hidden: rows of {_parts(hidden)} of {data['table']}, by transaction "
            f"{number(data['transaction'])}"
        )
    return page


def _hidden(hides: Mapping[str, Any]) -> str:
    """Return how many rows go with which condition, as the subject of a sentence."""
    rows = "the rows" if hides["rows"] is None else f"about {counted(hides['rows'], 'row')}"
    return f"{rows} with {hides['column']} before {hides['before']} in {_parts(hides)}"


def _held(hides: Mapping[str, Any]) -> str:
    return f" {held_rows(hides['holds'])}" if hides.get("holds") else ""


def _parts(hides: Mapping[str, Any]) -> str:
    return f"{counted(hides['parts'], 'part')} ({about_size(hides['bytes'])})"


def _render_kept(page: Page, data: Mapping[str, Any]) -> None:
    """Print the reasons with their counts, and the partitions that cannot be dated."""
    if data["undecided"]:
        columns = [
            Column("stays"),
            Column("parts", number=True),
            Column("because", wrap=True),
        ]
        rows = [
            [found["partition"] or "-", number(found["parts"]), found["reason"]]
            for found in data["undecided"][:SHOWN]
        ]
        page.table(columns, rows)
        left_out = data.get("undecided_count", len(data["undecided"])) - len(rows)
        if left_out > 0:
            page.line(f"… and {number(left_out)} more: --json lists them")
        page.line()
    page.reasons("partitions", data["kept"])
