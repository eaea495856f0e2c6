"""The text that an approval form shows about each answer, for every operation that asks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from firnline.airflow.figures import parts_text, time_text
from firnline.settings.load import TableSettings
from firnline.units import about_size, counted, format_duration

NONE = "(none of these)"
"""The option with which a person picks nothing."""


def answer_lines(
    operation: str, table: TableSettings, figures: Mapping[str, Any], until_ms: int
) -> str:
    """Return the lines of a question that say what Approve, Reject and no answer do.

    Args:
        operation: part of the DAG's id before ``__``.
        table: the table.
        figures: those that the question is made of.
        until_ms: the time until which an answer counts, unix ms.
    """
    return (
        f"\n\n**Approve** {_APPROVED[operation](table, figures)}."
        f"\n\n**Reject** {_REJECTED.get(operation, 'changes nothing')}, and the run ends as a "
        f"success.\n\n{_late_text(until_ms, 'is the same as a rejection; an approval')}"
    )


def pick_lines(until_ms: int) -> str:
    """Return the lines of a list to pick from that say what a choice and no answer do."""
    return (
        "\nWhat you pick is shown once more for an approval: nothing is removed yet. With "
        f"`{NONE}` nothing is changed, and the run ends as a success.\n\n"
        f"{_late_text(until_ms, 'does the same; a choice')}"
    )


def _late_text(until_ms: int, means: str) -> str:
    """Return what no answer in time means; it ends with the answer that comes too late then."""
    return (
        f"**No answer** until {time_text(until_ms)} UTC (`answer_within`) {means} after that comes "
        "too late, and takes a new run."
    )


def _removed(table: TableSettings, figures: Mapping[str, Any]) -> str:  # noqa: ARG001 - one signature for all
    rows = figures["rows"]
    what, parts = counted(len(rows), "partition"), parts_text(sum(row["parts"] for row in rows))
    grace = format_duration(figures["grace_ms"])
    return f"drops {what} in one transaction; clean-up deletes the {parts} {grace} later"


def _swept(table: TableSettings, figures: Mapping[str, Any]) -> str:  # noqa: ARG001 - one signature for all
    ends = len(figures.get("endings", ()))
    changes = f", and ends {counted(ends, 'prepared change')}" if ends else ""
    what = counted(figures["orphans_asked"], "object")
    return f"deletes {what} at once and for good, those that are orphans still{changes}"


def _erased(table: TableSettings, figures: Mapping[str, Any]) -> str:
    parts, grace = parts_text(figures["parts_to_read"]), format_duration(table.cleanup.grace)
    return (
        f"starts the Spark job that reads {parts} and erases the rows in one transaction; clean-up "
        f"deletes the objects that held them {grace} later"
    )


def _started(table: TableSettings, figures: Mapping[str, Any]) -> str:  # noqa: ARG001 - one signature for all
    tables = counted(len(figures["erases"]), "table")
    return f"starts an erase of each of {tables}, which asks nobody again"


def _committed(table: TableSettings, figures: Mapping[str, Any]) -> str:  # noqa: ARG001 - one signature for all
    new, size = counted(figures["parts"], "new part"), about_size(figures["bytes"])
    return (
        f"commits exactly what was written ({new}, {size}) in one transaction, unless these "
        f"partitions have changed since transaction {figures['seq']}"
    )


def _dropped(table: TableSettings, figures: Mapping[str, Any]) -> str:
    parts, grace = parts_text(figures["parts"]), format_duration(table.cleanup.grace)
    return (
        f"drops what is past then ({parts} now) in one transaction; clean-up deletes the objects "
        f"{grace} later"
    )


_APPROVED: Mapping[str, Callable[[TableSettings, Mapping[str, Any]], str]] = {
    "remove_partitions": _removed,
    "orphan_sweep": _swept,
    "erase": _erased,
    "erase_person": _started,
    "ttl": _dropped,
    "rewrite_partitions": _committed,
    "update_where": _committed,
}
"""Operation -> what an approval of these figures does."""
_REJECTED = dict.fromkeys(
    ("rewrite_partitions", "update_where"), "deletes what was written, which nobody has seen"
)
"""Operation -> what a rejection does, of those that have prepared something."""
