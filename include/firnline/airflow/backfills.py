"""The schedule of DAGs for backfills: data intervals, and no runs of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.timetables.interval import CronDataIntervalTimetable

if TYPE_CHECKING:
    from airflow.timetables.base import DagRunInfo, DataInterval, TimeRestriction


class BackfillOnly(CronDataIntervalTimetable):
    """Has data intervals for backfills, since Airflow refuses them to a DAG without a schedule.

    The plugin registers it: Airflow's scheduler makes it anew from its name.
    """

    def next_dagrun_info(
        self,
        *,
        last_automated_data_interval: DataInterval | None,
        restriction: TimeRestriction,
    ) -> DagRunInfo | None:
        """Return the next interval of a backfill; None for the scheduler.

        A backfill gives its last date as the latest one. The scheduler gives the end date of the
        DAG, and the DAGs have none.
        """
        if restriction.latest is None:
            return None
        return super().next_dagrun_info(
            last_automated_data_interval=last_automated_data_interval, restriction=restriction
        )
