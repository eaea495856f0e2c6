"""The page of the tables on a real API server: who sees what, and that nobody waits."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from firnline.settings.load import load_settings
from firnline.table import open_table
from tests.dags.filled import fill
from tools.airflow_api import NEARBY_SECONDS, wait_until
from tools.airflow_home import StackOptions
from tools.airflow_stack import AirflowStack
from tools.bootstrap import REPO

_USERS = {"root": "admin", "ana": "viewer", "bo": "viewer"}


@dataclass(frozen=True)
class Server:
    """An API server with the tables ``ana`` and ``bo``, and one whose store does not answer."""

    url: str

    def get(self, path: str, user: str | None = None) -> httpx.Response:
        headers = {} if user is None else {"Authorization": f"Bearer {self.token(user)}"}
        return httpx.get(f"{self.url}/firnline{path}", headers=headers, timeout=60)

    def token(self, user: str) -> str:
        asked = {"username": user, "password": user}
        answer = httpx.post(f"{self.url}/auth/token", json=asked, timeout=60)
        token: str = answer.json()["access_token"]
        return token

    def tables(self, user: str) -> dict[str, Mapping[str, Any]]:
        answer = self.get("/api/fleet", user)
        assert answer.status_code == 200, answer.text
        return {row["table"]: row for row in answer.json()["tables"]}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    home = tmp_path_factory.mktemp("page")
    settings, passwords = home / "tables.yaml", home / "passwords.json"
    roots = {name: f"file://{home}/{name}" for name in ("ana", "bo")}
    # It accepts connections, and never says a word.
    silent = socket.create_server(("127.0.0.1", 0))
    roots["silent"] = "s3://silent/t"
    lines = [f"  {name}: {{root: '{root}'}}" for name, root in roots.items()]
    settings.write_text("\n".join(["tables:", *lines]), encoding="utf-8")
    passwords.write_text(json.dumps({user: user for user in _USERS}), encoding="utf-8")
    for name in ("ana", "bo"):
        fill(open_table(load_settings(settings).tables[name]), 5)
    options = StackOptions(
        only=("api-server",),
        env={
            "FIRNLINE_TABLES": str(settings),
            "PYTHONPATH": f"{REPO}:{REPO / 'include'}",
            "AWS_ACCESS_KEY_ID": "a",
            "AWS_SECRET_ACCESS_KEY": "b",
            "AWS_ENDPOINT_URL_S3": "http://127.0.0.1:%d" % silent.getsockname()[1],
            "AWS_REGION": "x",
        },
        config={
            "core": {
                "auth_manager": "tests.dags.page_auth.OwnTables",
                "simple_auth_manager_all_admins": False,
                "simple_auth_manager_users": ",".join(map(":".join, _USERS.items())),
                "simple_auth_manager_passwords_file": passwords,
            }
        },
    )
    with silent, AirflowStack(home / "airflow", options) as stack:
        yield Server(stack.url)


@pytest.mark.parametrize(
    "path", ["/api/fleet", "/api/tables/merge__ana", "/api/tables/merge__ana/detail"]
)
def test_nobody_is_told_anything_without_saying_who_asks(server: Server, path: str) -> None:
    assert server.get(path).status_code == 401


def test_the_page_s_own_files_are_for_everybody(server: Server) -> None:
    answer = server.get("/static/firnline.js")
    assert answer.status_code == 200
    assert "javascript" in answer.headers["content-type"]


def test_a_user_sees_the_tables_whose_dags_the_user_may_read(server: Server) -> None:
    assert list(server.tables("ana")) == ["ana"]
    assert set(server.tables("root")) == {"ana", "bo", "silent"}


@pytest.mark.parametrize("path", ["/api/tables/merge__bo", "/api/tables/merge__bo/detail"])
def test_the_table_of_another_user_is_forbidden(server: Server, path: str) -> None:
    assert server.get(path, "ana").status_code == 403
    assert server.get(path, "bo").status_code == 200


def test_a_table_that_is_not_in_the_settings_is_not_found(server: Server) -> None:
    answer = server.get("/api/tables/merge__root", "root")
    assert answer.status_code == 404
    assert "no table 'root'" in answer.text


def test_a_store_that_does_not_answer_holds_up_nobody(server: Server) -> None:
    """A request to it is under way; the answer is there, with the other tables' figures."""

    def known() -> bool:
        return server.tables("root")["ana"]["figures"] is not None

    assert wait_until(known, 60, NEARBY_SECONDS)
    rows = server.tables("root")
    assert (rows["ana"]["figures"]["parts"], rows["ana"]["figures"]["partitions"]) == (10, 2)
    assert (rows["silent"]["figures"], rows["silent"]["score"]) == (None, None)
    assert server.get("/api/fleet", "root").json()["refreshing"]


def test_details_come_after_a_moment(server: Server) -> None:
    def detail() -> Any:
        return server.get("/api/tables/merge__bo/detail", "bo").json()["detail"]

    assert wait_until(lambda: detail() is not None, 60, NEARBY_SECONDS)
    found = detail()
    assert [one["partition"] for one in found["partitions"]] == ["day=a", "day=b"]
    assert found["next"]["merge"]["parts_in"] == 10
