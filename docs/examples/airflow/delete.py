"""Delete rows by a condition with the date of the run in it: arguments are templates."""

from __future__ import annotations

from datetime import datetime

from airflow.sdk import DAG

from firnline.airflow import Delete

with DAG("forget_guests", schedule="@daily", start_date=datetime(2026, 1, 1), catchup=False):
    Delete(
        table="events",
        where="customer = 0 and day < '{{ macros.ds_add(ds, -30) }}'",
        mode="lazy",
    )
