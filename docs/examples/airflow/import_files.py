"""Take the new files of a folder that others write; the table is a param of the run.

An import holds no pool, so its table may be a template; that of any other operator may not.
"""

from __future__ import annotations

from datetime import datetime

from airflow.sdk import DAG, Param

from firnline.airflow import Import

with DAG(
    "take_files",
    schedule="*/15 * * * *",
    start_date=datetime(2026, 1, 1),
    catchup=False,
    params={"into": Param("events", type="string")},
):
    Import(table="{{ params.into }}", source=["s3://lake/firehose/"], skip_bad=True)
