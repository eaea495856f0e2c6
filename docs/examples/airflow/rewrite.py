"""Rewrite the partition of a day, once its corrections have come."""

from __future__ import annotations

from datetime import datetime

from airflow.sdk import DAG

from firnline.airflow import Rewrite

with DAG("correct_days", schedule="@daily", start_date=datetime(2026, 1, 1), catchup=False):
    Rewrite(
        table="events",
        partitions=["day={{ ds }}"],
        sql="select * replace (round(amount, 2) as amount) from _rows",
    )
