"""Tombstone clean-up as the work of a DAG. ``dags/tombstone_cleanup.py`` creates the DAGs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from firnline.airflow.figures import time_text
from firnline.airflow.work import InTaskWork
from firnline.operations.cleanup.options import CleanupOptions
from firnline.operations.registry import CLEANUP
from firnline.units import about_size


class CleanupWork(InTaskWork[CleanupOptions]):
    """Deletes objects that no state within the grace needs."""

    about = CLEANUP

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
