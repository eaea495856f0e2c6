"""The usual maintenance of a table after its load, as one task group."""

from __future__ import annotations

from datetime import datetime

from airflow.sdk import dag, task

from firnline.airflow import maintain


@dag(schedule="@daily", start_date=datetime(2026, 1, 1), catchup=False)
def load_and_maintain() -> None:
    @task
    def load() -> None:
        """Append the rows of the day."""

    # TTL if the table has one, then merge, clean-up and verification, each after the one before.
    load() >> maintain("events", merge={"max_bytes": "50GiB"}, verify=True)


load_and_maintain()
