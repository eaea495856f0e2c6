"""Maintenance in Airflow 2.10 or 2.11, where a task runs the command line.

The operators and the DAGs of firnline need Airflow 3. The pool of the table is the lock: create the
pools with `firnline pools`.
"""

from __future__ import annotations

from datetime import datetime

from airflow import DAG

try:
    from airflow.providers.standard.operators.bash import BashOperator
except ImportError:  # Airflow 2.10 without that provider
    from airflow.operators.bash import BashOperator

ENVIRONMENT = {"FIRNLINE_TABLES": "/opt/airflow/include/tables.yaml"}

with DAG("maintain_events", schedule="@hourly", start_date=datetime(2026, 1, 1), catchup=False):
    merge = BashOperator(
        task_id="merge",
        bash_command="firnline merge events",
        env=ENVIRONMENT,
        append_env=True,
        pool="events.merge",
    )
    cleanup = BashOperator(
        task_id="cleanup",
        # What asks at a terminal needs --yes.
        bash_command="firnline cleanup events",
        env=ENVIRONMENT,
        append_env=True,
        pool="events.cleanup",
    )
    merge >> cleanup
