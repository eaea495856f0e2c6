"""Undoing transactions in partitions as the work of a DAG. ``dags/restore.py`` creates the DAGs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow.sdk import Param

from firnline.airflow.params import flag_param, partition_globs, partitions_param
from firnline.airflow.work import InTaskWork
from firnline.errors import UsageError
from firnline.operations.registry import RESTORE
from firnline.units import about_size

if TYPE_CHECKING:
    from firnline.operations.restore.run import RestoreOptions

_SHOWN = 20


class RestoreWork(InTaskWork["RestoreOptions"]):
    """Restores partitions to their state after a transaction."""

    about = RESTORE

    def params(self) -> dict[str, Param]:
        """Return the params: the transaction to go back to, and the partitions."""
        return {
            "to": Param(
                None,
                type="integer",  # None fails validation: a run needs a value
                minimum=0,
                title="Transaction",
                description_md="Its number in `firnline history`: the last one after which all was "
                "well. 0: before the first.",
            ),
            "partitions": partitions_param("They are needed, `*` is all."),
            "exact": flag_param("Exact", "Also remove what was appended since."),
        }

    def options(self, params: Mapping[str, Any], *, dry_run: bool) -> RestoreOptions:
        """Return the options. Raises UsageError if no partitions are given."""
        from firnline.operations.restore.run import RestoreOptions

        partitions = partition_globs(params.get("partitions"))
        if not partitions:
            raise UsageError(
                "a restore needs partitions, and none was named",
                next_step='give partitions, such as ["ts_day=2024-03-*"], or ["*"] for all',
            )
        return RestoreOptions(
            to=params["to"],
            partitions=partitions,
            exact=bool(params.get("exact")),
            dry_run=dry_run,
        )

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
