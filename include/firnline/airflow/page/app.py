"""The page's application, as the plugin hands it to Airflow.

Every route but the page's script asks who calls: 401 for nobody, 403 for a user who may not read
the table's DAGs. A mounted application inherits no authentication from Airflow.
"""

from __future__ import annotations

import importlib
import logging
from functools import cache
from pathlib import Path
from typing import Any

from firnline.airflow.versions import AIRFLOW_3_1_PLUS, needs

PREFIX = "/firnline"
"""Path of the interface on Airflow's API server."""
STATIC = Path(__file__).parent / "static"
NO_PAGE = needs("3.1", "the page of the tables", "Airflow does not show it")
_LOG = logging.getLogger("firnline.page")


class Apps:
    """A plugin's list of applications (``fastapi_apps``), made when Airflow first reads it.

    Airflow imports plugins in every process, tasks among them; FastAPI and the ORM take half a
    second that only the API server has to spend, and only it reads the list.
    """

    def __get__(self, plugin: object, owner: type | None = None) -> list[dict[str, Any]]:
        """Return the list, the same each time."""
        return _apps()


@cache
def _apps() -> list[dict[str, Any]]:
    if not AIRFLOW_3_1_PLUS:
        _LOG.warning("%s; `firnline health` shows the same figures", NO_PAGE)
    routes = importlib.import_module("firnline.airflow.page.routes")
    return [{"app": routes.make_app(), "url_prefix": PREFIX, "name": "firnline"}]
