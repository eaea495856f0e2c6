"""Load a day again as often as its run is cleared: the rows of the day are replaced each time."""

from __future__ import annotations

from datetime import datetime

from airflow.sdk import dag, task

from firnline.airflow import Replace

STAGED = "s3://lake/staged/{{ ds }}/"


@dag(schedule="@daily", start_date=datetime(2026, 1, 1), catchup=False)
def load_days() -> None:
    @task
    def stage(folder: str) -> None:
        """Write Parquet files with the rows of the day."""

    stage(STAGED) >> Replace(
        table="users",
        files=[STAGED],
        column="ts",
        start="{{ ds }}",
        end="{{ macros.ds_add(ds, 1) }}",
    )


load_days()
