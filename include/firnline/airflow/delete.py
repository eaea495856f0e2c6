"""Delete by a condition as the work of a DAG. ``dags/delete_where.py`` creates the DAGs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from firnline.airflow.work import SparkWork
from firnline.operations.delete.options import DeleteOptions
from firnline.operations.registry import DELETE
from firnline.units import about_size


class DeleteWork(SparkWork[DeleteOptions]):
    """Deletes the rows for which a predicate is true."""

    about = DELETE

    def plan_lines(self, figures: Mapping[str, Any]) -> list[str]:
        """Return totals, each group to read, and the reasons for leaving other parts alone."""
        return [f"as of transaction {figures['seq']}, {figures['mode']}:", *reading_lines(figures)]


def reading_lines(figures: Mapping[str, Any]) -> list[str]:
    """Return log lines on the parts that a delete or an erase would read."""
    size = about_size(figures["bytes_in"])
    lines = [f"{figures['parts_to_read']} parts to read ({size}); those with such rows go"]
    dropped = figures["parts_to_drop"]
    lines += [f"{dropped} parts of {figures['rows_to_drop']} such rows go unread"] * (dropped > 0)
    lines += [
        f"partition {group['partition'] or '(none)'}: {group['parts']} parts, "
        f"{about_size(group['bytes'])}"
        for group in figures["groups"]
    ]
    return lines + [f"{n} parts left alone: {why}" for why, n in figures["left_alone"].items()]
