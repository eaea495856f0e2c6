"""What asks a person: each task starts a run of firnline's own DAG, where somebody answers."""

from __future__ import annotations

from datetime import datetime

from airflow.sdk import DAG

from firnline.airflow import Drop, Erase, Sweep

with DAG("ask_people", schedule="@monthly", start_date=datetime(2026, 1, 1), catchup=False):
    Sweep(table="events", older_than="7d")
    Drop(table="events", partitions=["day={{ macros.ds_add(ds, -365)[:4] }}-*"])
    # Wait for the end of the run, without a process meanwhile.
    Erase(
        table="users",
        columns=["customer"],
        keys_file="s3://lake/erase/{{ ds }}.csv",
        wait_for_completion=True,
        deferrable=True,
    )
