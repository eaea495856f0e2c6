"""Registers the pool guard, notes on runs and the link to a run's transactions with Airflow.

Airflow loads each file of the plugins folder as a module of its own, named after the file.
"""

from __future__ import annotations

from airflow.plugins_manager import AirflowPlugin

from firnline.airflow import notes as done_note
from firnline.airflow import pool_guard
from firnline.airflow.links import RunLink


class FirnlinePlugin(AirflowPlugin):
    """The listeners and links that firnline adds to Airflow."""

    name = "firnline"
    listeners = [pool_guard, done_note]
    operator_extra_links = [RunLink()]
