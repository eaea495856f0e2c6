"""See what a rebuild of a lost log would write; nothing is written without the param."""

from __future__ import annotations

from airflow.sdk import DAG, Param

from firnline.airflow import Rebuild

with DAG("rebuild_log", schedule=None, params={"really": Param(False, type="boolean")}):
    Rebuild(table="events", dry_run="{{ not params.really }}")
