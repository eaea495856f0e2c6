"""The pages of merge: what its plan and its report say."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from firnline.pages import Column, Page, number, requests_text
from firnline.units import about_duration, about_size, counted


def plan_page(data: Mapping[str, Any]) -> Page:
    """Return the page of a plan, from its figures."""
    page = Page()
    if data["groups"]:
        columns = [
            Column("partition", wrap=True),
            *(Column(title, number=True) for title in ("parts in", "parts out", "bytes")),
        ]
        rows = [
            [name or "-", number(parts), number(outputs), about_size(size)]
            for name, (parts, outputs, size) in _by_partition(data["groups"]).items()
        ]
        whole = [number(data["parts_in"]), number(data["parts_out"]), about_size(data["bytes_in"])]
        page.table(columns, rows, [f"{len(rows)} in all", *whole] if len(rows) > 1 else None)
        page.line()
    page.reasons("parts", data["left_alone"])
    page.conclusion(_summary(data))
    return page


def _by_partition(groups: Sequence[Mapping[str, Any]]) -> dict[str, tuple[int, int, int]]:
    """Return parts, outputs and bytes by partition, in the order of the plan."""
    by_partition: dict[str, tuple[int, int, int]] = {}
    for planned in groups:
        parts, count, size = by_partition.get(planned["partition"], (0, 0, 0))
        added = (parts + planned["parts"], count + planned["outputs"], size + planned["bytes"])
        by_partition[planned["partition"]] = added
    return by_partition


def _summary(data: Mapping[str, Any]) -> str:
    name = data["table"]
    clauses = []
    if data["parts_hidden"]:
        clauses.append(
            f"{counted(data['parts_hidden'], 'part')}, of which deletes hide every row "
            f"({number(data['rows_hidden'])}), would go without being read."
        )
    if data["groups"]:
        clauses.append(
            f"{counted(data['parts_in'], 'part')} would become {number(data['parts_out'])}: about "
            f"{about_size(data['bytes_in'])} to read, at most as much to write, and "
            f"{counted(data['requests'], 'request')} besides reading the log."
        )
        if data["tasks"] > len(data["groups"]):
            clauses.append(
                f"{counted(len(data['groups']), 'group')} would be up to {number(data['tasks'])} "
                "tasks, because some are above merge.split_above."
            )
        clauses += ["merge.sql would be applied to their rows."] * (data["sql"] is not None)
    return " ".join(clauses) or f"Nothing to merge in {name}."


def report_page(data: Mapping[str, Any]) -> Page:
    """Return the page of a report, from its figures."""
    page = Page()
    name, counts = data["table"], defaultdict(int, data["counts"])
    if not data["groups"] and not data["groups_lost"]:
        page.line(f"Nothing to merge in {name}: `firnline plan merge {name}` says why.")
        return page
    if data["failures"]:
        columns = [Column("partition"), Column("not merged because", wrap=True)]
        failures = ([f["partition"] or "-", f["message"]] for f in data["failures"])
        page.table(columns, failures)
        page.line()
    rows = [
        ("merged", f"{counted(counts['parts_in'], 'part')} → {number(counts['parts_out'])}"),
        ("rows", _rows(counts)),
        ("bytes", f"{about_size(counts['bytes_in'])} → {about_size(counts['bytes_out'])}"),
        ("groups", _groups(data)),
        ("transactions", _sequences(data["transactions"])),
        ("requests", requests_text(data["requests"])),
        ("time", about_duration(round(data["seconds"] * 1000))),
    ]
    if data["groups_lost"]:
        lost = f"{counted(data['groups_lost'], 'group')}, which another run had committed first"
        rows.append(("in vain", lost))
    if data["replans"]:
        rows.append(("planned again", f"{counted(data['replans'], 'time')}, because of rivals"))
    page.pairs(rows)
    return page


def _groups(data: Mapping[str, Any]) -> str:
    text = f"{number(data['groups_done'])} of {number(data['groups'])} committed"
    if data["tasks"] > data["groups"]:
        text += f", in {counted(data['tasks'], 'task')}"
    return text


def _rows(counts: dict[str, int]) -> str:
    text = number(counts["rows_in"])
    if counts["rows_in"] != counts["rows_out"]:
        text += (
            f" → {number(counts['rows_out'])}: {number(counts['rows_deleted'])} deleted, "
            f"{number(counts['rows_deduplicated'])} replaced by newer ones of their key"
        )
    if counts["rows_removed"]:
        text += f", {number(counts['rows_removed'])} removed by merge.sql"
    return text


def _sequences(numbers: Sequence[int]) -> str:
    if not numbers:
        return "none"
    shown = ", ".join(number(seq) for seq in numbers[:10])
    return shown if len(numbers) <= 10 else f"{shown} … {number(numbers[-1])}"
