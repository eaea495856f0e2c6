"""Rewriting partitions, by backfill or manually: the work of ``dags/rewrite_partitions.py``."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow.sdk import CronDataIntervalTimetable

from firnline.airflow.runs import first_try, kind_of_run
from firnline.airflow.tasks import PlanOperation
from firnline.airflow.work import SparkWork
from firnline.errors import UsageError
from firnline.operations.options import RewriteOptions
from firnline.operations.registry import REWRITE
from firnline.settings.fields import TIME_TRANSFORMS
from firnline.settings.load import TableSettings
from firnline.units import about_size, counted

if TYPE_CHECKING:
    from airflow.sdk import Context


BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)
"""Start date of the DAGs: before the first day of any backfill."""
_INTERVALS = {"hour": "@hourly", "day": "@daily", "month": "@monthly", "year": "@yearly"}
"""Finest time in a partition's path -> data interval that holds whole partitions; finest first."""


class RewriteWork(SparkWork[RewriteOptions]):
    """Replaces partitions by the result of a filter or a query."""

    about = REWRITE

    def plan_sentence(self, figures: Mapping[str, Any]) -> str:
        """Return how much of how many partitions is read."""
        number = figures.get("partitions_in_all", len(figures["partitions"]))
        size, dropped = about_size(figures["bytes_in"]), figures["parts_to_drop"]
        read = f"{counted(figures['parts_to_read'], 'part')} ({size}) to read"
        unread = f", {counted(dropped, 'part')} would go unread" if dropped else ""
        return f"in {counted(number, 'partition')} {read}{unread}"

    def parse_params(self, context: Context) -> RewriteOptions:
        """Return the options from the params and, in a backfill, the run's data interval."""
        import msgspec

        options = msgspec.structs.replace(
            super().parse_params(context), first_try=first_try(context)
        )
        dag_run = context["dag_run"]
        if kind_of_run(context) == "backfill":
            start, end = dag_run.data_interval_start, dag_run.data_interval_end
            if start is None or end is None:
                raise UsageError(
                    f"run {context['run_id']} of a backfill has no data interval",
                    next_step="create the backfill again",
                )
            return msgspec.structs.replace(options, start_ms=_unix_ms(start), end_ms=_unix_ms(end))
        if not options.partitions:
            raise UsageError(
                "a rewrite by hand needs partitions, and none was named",
                next_step='give partitions, such as ["ts_day=2024-03-*"], or ["*"] for all',
            )
        return options


class PlanRewrite(PlanOperation):
    """Plans a rewrite; scheduled runs, which only mark the dates of a backfill, end here."""

    def execute(self, context: Context) -> dict[str, Any]:
        """Plan. Skips downstream tasks if there is nothing to do."""
        # Checked before the params, which such a run does not have.
        if kind_of_run(context) == "scheduled":
            self._skip(context, {}, "only a backfill, or a run by hand, rewrites anything")
        return super().execute(context)


def interval_of(table: TableSettings) -> CronDataIntervalTimetable | None:
    """Return the data interval that spans whole partitions; None if they contain no time.

    It is that of the first time column, as in the planner (``operations.rewrite.plan``).
    """
    times = [field for field in table.partition_by if field.transform in TIME_TRANSFORMS]
    units = {field.transform for field in times if field.column == times[0].column}
    finest = next((unit for unit in _INTERVALS if unit in units), None)
    return None if finest is None else CronDataIntervalTimetable(_INTERVALS[finest], timezone="UTC")


def _unix_ms(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)
