"""Undo a bad load: the run is told the last transaction that was right."""

from __future__ import annotations

from airflow.sdk import DAG, Param

from firnline.airflow import Restore, Verify

with DAG("undo_load", schedule=None, params={"to": Param(type="integer", minimum=0)}):
    Restore(table="events", to="{{ params.to }}", partitions="*") >> Verify(table="events")
