"""Check a table each week, with the footers of all its parts, and ring if something is wrong."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from airflow.sdk import DAG

from firnline.airflow import Verify


def ring(context: Any) -> None:
    """Tell somebody; the exception is the first finding, and what to do about it."""
    print(context["exception"])


with DAG("weekly_check", schedule="@weekly", start_date=datetime(2026, 1, 1), catchup=False):
    Verify(table="events", deep=True, on_failure_callback=ring)
