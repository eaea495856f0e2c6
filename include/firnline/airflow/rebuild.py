"""The rebuild of a lost log as work of a DAG. ``dags/rebuild.py`` makes the DAGs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from airflow.sdk import Param

from firnline.airflow.params import flag_param, globs, globs_param
from firnline.airflow.work import InTaskWork, Plan

if TYPE_CHECKING:
    from firnline.log.txn_file import RunIdentity
    from firnline.operations.rebuild.plan import RebuildPlan
    from firnline.operations.rebuild.run import RebuildOptions, RebuildReport
    from firnline.table import Table


class RebuildWork(InTaskWork["RebuildOptions", "RebuildReport"]):
    """A log is written from parts and transactions."""

    operation = "rebuild"
    noun = "a rebuild"
    follows_settings = False
    destructive = True
    once = True

    def params(self) -> dict[str, Param]:
        """What to do with objects that nobody names."""
        return {
            "include": globs_param(
                "Include",
                "Globs over keys or file names, one a line: undecided objects that are parts.",
            ),
            "exclude": globs_param(
                "Exclude", "Globs over keys or file names, one a line: objects that are no parts."
            ),
            "force": flag_param("Force", "Also rebuild a log that reads and lacks nothing."),
        }

    def options(self, params: Mapping[str, Any], *, dry_run: bool) -> RebuildOptions:
        """Raises UsageError: a list of globs that is none."""
        from firnline.operations.rebuild.run import RebuildOptions

        return RebuildOptions(
            include=globs("include", params.get("include")),
            exclude=globs("exclude", params.get("exclude")),
            force=bool(params.get("force")),
            dry_run=dry_run,
        )

    def preview(self, table: Table, options: RebuildOptions) -> RebuildPlan:
        """What the log would name, and what somebody has to decide."""
        from firnline.operations.rebuild.run import preview

        return preview(table, options)

    def is_idle(self, plan: Plan) -> bool:  # noqa: ARG002 - as the base class
        """Never: a table of which nothing is left is no success, and the work itself says so."""
        return False

    def run(
        self,
        table: Table,
        options: RebuildOptions,
        run: RunIdentity,
        on_progress: Callable[[object], None],
    ) -> RebuildReport:
        """Write it, in one transaction."""
        from firnline.operations.rebuild.run import run_rebuild

        return run_rebuild(table, options, run, on_progress)
