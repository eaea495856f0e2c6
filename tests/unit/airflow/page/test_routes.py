"""Whoever is not logged in gets nothing of the page but its script."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator

import httpx
import pytest
from fastapi import FastAPI
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from firnline.airflow.page import app as page
from tools.bootstrap import REPO

OPEN = {
    "/static": "the script of the page: Airflow's own page loads it, and it holds no figures",
}
"""Routes that answer anybody, and why."""


def apps() -> list[FastAPI]:
    """Every application that the plugin mounts into Airflow's API server."""
    found = page.Apps().__get__(None)
    assert all(isinstance(each["app"], FastAPI) for each in found)
    return [each["app"] for each in found]


def routes_of(routes: list[BaseRoute], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Each (method, path) below some routes, with a value for each parameter.

    A path that no method is known of is asked with GET, mounted files by the path they are at.
    """
    for route in routes:
        path = prefix + str(getattr(route, "path", ""))
        if isinstance(route, Mount) and not isinstance(route.app, StaticFiles):
            yield from routes_of(route.routes, path)
            continue
        methods = route.methods if isinstance(route, Route) else None
        for method in sorted(methods or {"GET"}):
            yield method, re.sub(r"\{[^}]*\}", "merge__flights", path)


def status(app: FastAPI, method: str, path: str) -> int:
    """Return the status of the answer to somebody without a login."""

    async def ask() -> int:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://airflow") as client:
            return (await client.request(method, path)).status_code

    return asyncio.run(ask())


@pytest.mark.long
def test_every_route_asks_who_calls_but_those_that_have_a_reason_not_to() -> None:
    found = [(app, *route) for app in apps() for route in routes_of(app.routes)]
    assert len([path for _, _, path in found if path.startswith("/api/")]) >= 3
    assert set(OPEN) <= {path for _, _, path in found}
    answers = {(m, path): status(app, m, path) for app, m, path in found if path not in OPEN}
    assert {key: code for key, code in answers.items() if code != 401} == {}


@pytest.mark.parametrize("path", ["/openapi.json", "/docs", "/docs/oauth2-redirect", "/redoc"])
def test_the_interface_describes_itself_to_nobody(path: str) -> None:
    assert {status(app, "GET", path) for app in apps()} == {404}


def test_what_answers_anybody_is_the_script_and_nothing_else() -> None:
    (app,) = apps()
    assert [file.name for file in page.STATIC.iterdir()] == ["firnline.js"]
    assert status(app, "GET", "/static/firnline.js") == 200
    assert status(app, "GET", "/static/../app.py") == 404


def test_the_plugin_mounts_no_application_besides() -> None:
    sources = [*(REPO / "plugins").rglob("*.py"), *(REPO / "include").rglob("*.py")]
    mounting = re.compile(r"^ *(?:fastapi_apps|fastapi_root_middlewares|flask_blueprints) *=", re.M)
    found = [hit[0].strip() for s in sources for hit in mounting.finditer(s.read_text())]
    assert found == ["fastapi_apps ="]
    assert "fastapi_apps = Apps()" in (REPO / "include/firnline/airflow/plugin.py").read_text(
        encoding="utf-8"
    )
