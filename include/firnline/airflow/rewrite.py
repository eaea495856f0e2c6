"""Rewriting partitions, by backfill or manually: the work of ``graphs.rewrite_partitions``."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from firnline.airflow.backfills import BackfillOnly
from firnline.airflow.prepared import PreparedWork
from firnline.airflow.runs import kind_of_run
from firnline.errors import UsageError
from firnline.next_steps import GIVE_PARTITIONS
from firnline.operations.options import RewriteOptions
from firnline.operations.registry import REWRITE
from firnline.settings.fields import TIME_TRANSFORMS
from firnline.settings.load import TableSettings

if TYPE_CHECKING:
    from airflow.sdk import Context

BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)
"""Start date of the DAGs: before the first day of any backfill."""
_INTERVALS = {"hour": "@hourly", "day": "@daily", "month": "@monthly", "year": "@yearly"}
"""Finest time in a partition's path -> data interval that holds whole partitions; finest first."""


class RewriteWork(PreparedWork[RewriteOptions]):
    """Replaces partitions by the result of a filter or a query."""

    about = REWRITE

    def parse_params(self, context: Context) -> RewriteOptions:
        """Return the options from the params and, in a backfill, the run's data interval."""
        import msgspec

        options = super().parse_params(context)
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
                next_step=GIVE_PARTITIONS,
            )
        return options


def interval_of(table: TableSettings) -> BackfillOnly | None:
    """Return the data interval that spans whole partitions; None if they contain no time.

    It is that of the first time column, as in the planner (``operations.rewrite.plan``).
    """
    times = [field for field in table.partition_by if field.transform in TIME_TRANSFORMS]
    units = {field.transform for field in times if field.column == times[0].column}
    finest = next((unit for unit in _INTERVALS if unit in units), None)
    return None if finest is None else BackfillOnly(_INTERVALS[finest], timezone="UTC")


def _unix_ms(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)
