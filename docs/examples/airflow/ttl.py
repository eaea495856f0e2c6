"""Drop what is past the age that the table keeps, each night."""

from __future__ import annotations

from datetime import datetime

from airflow.sdk import DAG

from firnline.airflow import Ttl

with DAG("nightly_ttl", schedule="30 2 * * *", start_date=datetime(2026, 1, 1), catchup=False):
    Ttl(table="events")
