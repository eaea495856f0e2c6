"""The evidence of a prepared change as Markdown: for questions, and for the page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from firnline.airflow.approvals import code
from firnline.operations.prepared.evidence import sample_text
from firnline.settings.load import TableSettings
from firnline.units import counted

SHOWN = 20
"""Maximum partitions in a question."""


def question(table: TableSettings, change: Mapping[str, Any]) -> tuple[str, str]:
    """Return headline and Markdown text of the question on a prepared change.

    Args:
        table: the table.
        change: a ``WaitingChange`` as plain data.
    """
    shown = change["evidence"]
    rows = f"{counted(shown['rows_before'], 'row')} before and {shown['rows_after']:,} after"
    options = change["options"]
    asked = options.get("where") or options.get("sql") or ""
    what = "rows that stay" if options.get("where") else "query"
    partitions = counted(shown["partition_count"], "partition")
    text = [
        f"**Rows: {_difference(shown)},** in {partitions}. The compared parts have {rows}.",
        "",
        f"The {what}: {code(asked)}",
        "",
        *evidence_lines(shown),
    ]
    return f"Rewrite rows ({_difference(shown)}) of table {table.name}?", "\n".join(text)


def _difference(shown: Mapping[str, Any]) -> str:
    kinds = [f"{shown[kind]:,} {kind}" for kind in ("removed", "added", "changed") if shown[kind]]
    return ", ".join(kinds) or "none"


def evidence_lines(shown: Mapping[str, Any]) -> list[str]:
    """Return the evidence as Markdown tables."""
    kinds = ("removed", "added", "changed") if shown["keys"] else ("removed", "added")
    lines = [f"| partition | rows before | after | {' | '.join(kinds)} |"]
    lines.append(f"|---|--:|--:|{'--:|' * len(kinds)}")
    for each in shown["partitions"][:SHOWN]:
        figures = " | ".join(f"{each[name]:,}" for name in ("rows_before", "rows_after", *kinds))
        lines.append(f"| {code(each['partition'] or '(none)')} | {figures} |")
    more = shown["partition_count"] - min(len(shown["partitions"]), SHOWN)
    lines += ["", f"and {counted(more, 'partition')} more."] * (more > 0)
    if shown["keys"]:
        lines += ["", f"Rows are matched by {', '.join(map(code, shown['keys']))}."]
    elif shown["added"]:
        lines += ["", "No key matches rows: a changed row is one removed and one added."]
    if shown["columns"]:
        lines += ["", "| column | values changed |", "|---|--:|"]
        lines += [f"| {code(name)} | {count:,} |" for name, count in shown["columns"].items()]
    lines += _sample_lines(shown["samples"])
    if shown["assertions"]:
        lines += ["", "These hold:", "", *(f"- {code(text)}" for text in shown["assertions"])]
    return lines


def _sample_lines(samples: list[dict[str, Any]]) -> list[str]:
    if not samples:
        return []
    rows = [
        f"| {one['kind']} | {code(one['partition'] or '(none)')} | {code(sample_text(one))} |"
        for one in samples
    ]
    return ["", "| sample | partition | row |", "|---|---|---|", *rows]
