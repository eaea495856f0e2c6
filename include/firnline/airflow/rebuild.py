"""The rebuild of a lost log as the work of a DAG. ``dags/rebuild.py`` creates the DAGs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow.sdk import Param

from firnline.airflow.params import flag_param, globs, globs_param
from firnline.airflow.work import InTaskWork, Plan
from firnline.operations.registry import REBUILD

if TYPE_CHECKING:
    from firnline.operations.rebuild.run import RebuildOptions


class RebuildWork(InTaskWork["RebuildOptions"]):
    """Writes a log from parts and transactions."""

    about = REBUILD

    def params(self) -> dict[str, Param]:
        """Return the params: the decisions on objects that no transaction or log file names."""
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
        """Return the options. Raises UsageError if a value is not a list of globs."""
        from firnline.operations.rebuild.run import RebuildOptions

        return RebuildOptions(
            include=globs("include", params.get("include")),
            exclude=globs("exclude", params.get("exclude")),
            force=bool(params.get("force")),
            dry_run=dry_run,
        )

    def is_idle(self, plan: Plan) -> bool:  # noqa: ARG002 - as the base class
        """Return False: a table of which nothing is left must fail, which the work itself does."""
        return False
