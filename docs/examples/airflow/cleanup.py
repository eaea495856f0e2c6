"""Delete objects whose grace is over, each night, and at most a million of them."""

from __future__ import annotations

from datetime import datetime

from airflow.sdk import DAG

from firnline.airflow import Cleanup

with DAG("nightly_cleanup", schedule="0 3 * * *", start_date=datetime(2026, 1, 1), catchup=False):
    Cleanup(table="events", max_deletes=1_000_000)
