"""Registers firnline with Airflow: listeners (guards, notes), links to transactions, and the page.

An entry point of the package names it, so no file has to be in the plugins
folder. Airflow imports it in every process, tasks among them. Beside an Airflow 2 it registers
nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firnline.airflow.versions import AIRFLOW_3_0_PLUS

if TYPE_CHECKING:
    from airflow.plugins_manager import AirflowPlugin

_SCRIPT = "static/firnline.js"


def make_plugin() -> type[AirflowPlugin] | None:
    """Return the plugin; None in an Airflow that cannot run the DAGs."""
    if not AIRFLOW_3_0_PLUS:
        return None
    from airflow.plugins_manager import AirflowPlugin

    from firnline.airflow import conf_guard, pool_guard
    from firnline.airflow import notes as done_note
    from firnline.airflow.backfills import BackfillOnly
    from firnline.airflow.links import RunLink
    from firnline.airflow.page.app import PREFIX, Apps

    bundle = f"{PREFIX.lstrip('/')}/{_SCRIPT}"

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
                "bundle_url": f"{bundle}?tables",
                "destination": "nav",
                "category": "browse",
                "url_route": "firnline-tables",
            },
            {
                "name": "Table health",
                "bundle_url": f"{bundle}?table",
                "destination": "dag",
                "url_route": "firnline-table",
            },
        ]

    return FirnlinePlugin


FirnlinePlugin = make_plugin()
"""What Airflow registers; None, which it passes over, in an Airflow 2."""
