"""Close the orders of a day, once the shop has closed."""

from __future__ import annotations

from datetime import datetime

from airflow.sdk import DAG

from firnline.airflow import Update

with DAG("close_orders", schedule="@daily", start_date=datetime(2026, 1, 1), catchup=False):
    Update(
        table="orders",
        set=["status = 'closed'"],
        where="status = 'open' and day = '{{ ds }}'",
    )
