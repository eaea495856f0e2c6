"""Registers firnline with Airflow: listeners (guards, notes), links to transactions, and the page.

Airflow loads each file of the plugins folder as a module of its own, named after the file.
"""

from __future__ import annotations

from airflow.plugins_manager import AirflowPlugin

from firnline.airflow import conf_guard, pool_guard
from firnline.airflow import notes as done_note
from firnline.airflow.backfills import BackfillOnly
from firnline.airflow.links import RunLink
from firnline.airflow.page.app import PREFIX, Apps

_BUNDLE = f"{PREFIX.lstrip('/')}/static/firnline.js"


class FirnlinePlugin(AirflowPlugin):
    """The listeners, links and schedules that firnline adds to Airflow."""

    name = "firnline"
    listeners = [conf_guard, pool_guard, done_note]
    operator_extra_links = [RunLink()]
    timetables = [BackfillOnly]
    fastapi_apps = Apps()
    # The bundle defines a component for each of these names.
    react_apps = [
        {
            "name": "Tables",
            "bundle_url": f"{_BUNDLE}?tables",
            "destination": "nav",
            "category": "browse",
            "url_route": "firnline-tables",
        },
        {
            "name": "Table health",
            "bundle_url": f"{_BUNDLE}?table",
            "destination": "dag",
            "url_route": "firnline-table",
        },
    ]
