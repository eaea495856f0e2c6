"""Undoing transactions in partitions as the work of a DAG. ``dags/restore.py`` creates the DAGs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from firnline.airflow.work import InTaskWork
from firnline.errors import UsageError
from firnline.operations.registry import RESTORE
from firnline.operations.restore.options import RestoreOptions
from firnline.units import about_size

_SHOWN = 20


class RestoreWork(InTaskWork[RestoreOptions]):
    """Restores partitions to their state after a transaction."""

    about = RESTORE

    def options(self, params: Mapping[str, Any], *, dry_run: bool) -> RestoreOptions:
        """Return the options. Raises UsageError if no partitions are given."""
        options = super().options(params, dry_run=dry_run)
        if not options.partitions:
            raise UsageError(
                "a restore needs partitions, and none was named",
                next_step='give partitions, such as ["ts_day=2024-03-*"], or ["*"] for all',
            )
        return options

    def plan_lines(self, figures: Mapping[str, Any]) -> list[str]:
        """Return what is restored and removed, the undone transactions, and the partitions."""
        undone = ", ".join(map(str, figures["undone"])) or "none"
        names = [name or "(none)" for name in figures["partitions"]]
        more = figures.get("partitions_in_all", len(names)) - _SHOWN
        return [
            f"as of transaction {figures['seq']}, back to {figures['to']}; undone: {undone}",
            f"comes back: {_figures(figures['restored'])}",
            f"goes: {_figures(figures['removed'])}",
            f"stays: {figures['kept_parts']} parts",
            *(f"in {name}" for name in names[:_SHOWN]),
            *([f"and {more} partitions more"] if more > 0 else []),
        ]

    def report_lines(self, figures: Mapping[str, Any]) -> list[str]:
        """Return what was restored and what was removed."""
        plan = figures["plan"]
        back, gone = _figures(plan["restored"]), _figures(plan["removed"])
        return [f"restored: {back}; removed: {gone}; transaction {figures['transaction']}"]


def _figures(found: Mapping[str, Any]) -> str:
    return f"{found['parts']} parts of {found['rows']} rows ({about_size(found['bytes'])})"
