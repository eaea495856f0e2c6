"""A REST catalog whose answers are not waited for without limit, as pyiceberg's own does.

A catalog that is silent would hold a run, and with it the planner of all tables, until somebody
ends it. A commit whose answer does not come may have been taken: the next run sees.
"""

from __future__ import annotations

from typing import Any

from pyiceberg.catalog.rest import RestCatalog
from requests import PreparedRequest, Response, Session
from requests.adapters import HTTPAdapter

LIMIT = (20.0, 120.0)
"""Seconds for a connection, and of silence in an answer."""


class _Limited(HTTPAdapter):
    def send(self, request: PreparedRequest, *args: Any, **given: Any) -> Response:
        given["timeout"] = given.get("timeout") or LIMIT
        return super().send(request, *args, **given)


class LimitedRestCatalog(RestCatalog):
    """pyiceberg's, with a limit for each request but those that are signed for AWS."""

    def _config_headers(self, session: Session) -> None:
        # First of all that is done with a session, so it holds for the request of a token too.
        for scheme in ("http://", "https://"):
            session.mount(scheme, _Limited())
        super()._config_headers(session)
