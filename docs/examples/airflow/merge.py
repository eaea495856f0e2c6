"""A DAG that appends, and merges what it has appended when enough has come together."""

from __future__ import annotations

from datetime import datetime

from airflow.sdk import dag, task

from firnline.airflow import Merge


@dag(schedule="@hourly", start_date=datetime(2026, 1, 1), catchup=False)
def load_and_merge() -> None:
    @task
    def load() -> None:
        import firnline

        firnline.append("events", [{"day": "2026-01-01", "customer": 17, "amount": 2.5}])

    # One task, in the pool events.merge. With nothing to merge it succeeds in seconds.
    load() >> Merge(table="events", max_bytes="20GiB")


load_and_merge()
