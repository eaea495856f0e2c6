"""The HTTP interface of the page: figures as JSON, and the page's own files.

Every route but the page's files asks who calls: 401 for nobody, 403 for a user who may not read the
table's DAGs. A mounted application inherits no authentication from Airflow.
"""

from __future__ import annotations

import importlib
from collections.abc import Awaitable, Callable, MutableMapping
from pathlib import Path
from typing import Any

PREFIX = "/firnline"
"""Path of the interface on Airflow's API server."""
STATIC = Path(__file__).parent / "static"

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Scope]]
Send = Callable[[Scope], Awaitable[None]]


class Page:
    """The ASGI application, created by the first request.

    Airflow imports plugins in every process, tasks among them; FastAPI and the ORM take half a
    second that only the API server has to spend.
    """

    def __init__(self) -> None:
        self._app: Callable[[Scope, Receive, Send], Awaitable[None]] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if self._app is None:
            routes = importlib.import_module("firnline.airflow.page.routes")
            self._app = routes.make_app()
        await self._app(scope, receive, send)
