"""Tombstone clean-up as the work of a DAG. ``dags/tombstone_cleanup.py`` creates the DAGs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow.sdk import Param

from firnline.airflow.figures import time_text
from firnline.airflow.params import count_param
from firnline.airflow.work import InTaskWork
from firnline.operations.registry import CLEANUP
from firnline.units import about_size

if TYPE_CHECKING:
    from firnline.operations.cleanup.run import CleanupOptions


class CleanupWork(InTaskWork["CleanupOptions"]):
    """Deletes objects that no state within the grace needs."""

    about = CLEANUP

    def params(self) -> dict[str, Param]:
        """Return the params: a bound on the objects that one run deletes."""
        return {
            "max_deletes": count_param(
                "Objects to delete at most",
                "The rest waits for the next run. "
                "Empty: `cleanup.max_deletes_per_run` of the table's settings.",
            )
        }

    def options(self, params: Mapping[str, Any], *, dry_run: bool) -> CleanupOptions:
        """Return the options as given: Airflow has already validated them."""
        from firnline.operations.cleanup.run import CleanupOptions

        return CleanupOptions(max_deletes=params.get("max_deletes"), dry_run=dry_run)

    def plan_lines(self, figures: Mapping[str, Any]) -> list[str]:
        """Return totals, and what has to wait until when."""
        return [f"to delete: {_amounts(figures)}", *_waiting_lines(figures)]

    def report_lines(self, figures: Mapping[str, Any]) -> list[str]:
        """Return totals, and what has to wait until when."""
        not_deleted = [f"not deleted: {figures['failed']} objects"] if figures["failed"] else []
        return [f"deleted: {_amounts(figures)}", *not_deleted, *_waiting_lines(figures)]

    def changed(self, figures: Mapping[str, Any]) -> bool:
        """Return True if anything was deleted: log files go without a transaction."""
        return any(figures[name] for name in ("parts", "log_files", "txn_files"))


def _amounts(figures: Mapping[str, Any]) -> str:
    kinds = (("parts", "parts"), ("log_files", "log files"), ("txn_files", "transactions"))
    each = ", ".join(f"{figures[name]} {text}" for name, text in kinds)
    return f"{each} ({about_size(figures['bytes'])})"


def _waiting_lines(figures: Mapping[str, Any]) -> list[str]:
    lines = []
    for each in figures["waiting"]:
        until = each["last_ms"]
        when = "" if until is None else f" (the last of them until {time_text(until)} UTC)"
        size = about_size(each["bytes"])
        lines.append(f"{each['count']} {each['what']} ({size}) stay: {each['reason']}{when}")
    return lines
