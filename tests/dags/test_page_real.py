"""The page of the tables on a real API server: who sees what, and that nobody waits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.dags.page_server import Server, serving
from tools.airflow_api import HUNG_SECONDS, NEARBY_SECONDS, wait_until


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    home = tmp_path_factory.mktemp("page")
    with serving(home, {"common": f"file://{home}/common"}) as found:
        yield found


def test_figures_are_sent_as_metrics_without_anybody_looking(server: Server) -> None:
    """The first test: nobody has asked for the page yet."""
    server.statsd.settimeout(HUNG_SECONDS)
    name, value = b"airflow.firnline.parts.bo", b""
    while not value:
        value = server.statsd.recv(4096).partition(name)[2]
    assert value == b":10|g"


@pytest.mark.parametrize(
    "path",
    ["/api/fleet", "/api/erasures", "/api/tables/merge__ana", "/api/tables/merge__ana/detail"],
)
def test_nobody_is_told_anything_without_saying_who_asks(server: Server, path: str) -> None:
    assert server.get(path).status_code == 401


def test_the_page_s_own_files_are_for_everybody(server: Server) -> None:
    answer = server.get("/static/firnline.js")
    assert answer.status_code == 200
    assert "javascript" in answer.headers["content-type"]


def test_a_user_sees_the_tables_whose_dags_the_user_may_read(server: Server) -> None:
    assert list(server.tables("ana")) == ["ana"]
    assert set(server.tables("root")) == {"ana", "bo", "common", "silent"}


@pytest.mark.parametrize("path", ["/api/tables/merge__bo", "/api/tables/merge__bo/detail"])
def test_the_table_of_another_user_is_forbidden(server: Server, path: str) -> None:
    assert server.get(path, "ana").status_code == 403
    assert server.get(path, "bo").status_code == 200


def test_requests_of_erasure_are_for_those_who_may_read_the_dag_that_erases_people(
    server: Server,
) -> None:
    assert server.get("/api/erasures", "ana").status_code == 403
    assert server.get("/api/erasures", "root").json() == {"set": False}
    bundle = "/api/erasures/01a1fde9-c84a-773c-a413-b1d33b39382f/bundle"
    assert [server.get(bundle, user).status_code for user in (None, "ana")] == [401, 403]
    none = server.get(bundle, "root")
    assert none.status_code == 400
    assert "name no folder for requests" in none.json()["message"]
    for user in ("ana", "root"):
        assert server.get("/api/fleet", user).json()["erasures"] is None


def test_a_certificate_of_another_user_s_table_is_forbidden(server: Server) -> None:
    path = "/api/tables/merge__bo/certificates/01a1fde9-c84a-773c-a413-b1d33b39382f"
    assert server.get(path).status_code == 401
    assert server.get(path, "ana").status_code == 403
    missing = server.get(path, "bo")
    assert missing.status_code == 400
    assert missing.json()["message"].startswith("there is no certificate 01a1fde9")


@pytest.mark.parametrize("path", ["merge?table=common", "merge/detail?table=common"])
def test_a_table_without_a_dag_is_for_those_who_may_read_the_dag_for_all_tables(
    server: Server, path: str
) -> None:
    assert server.get(f"/api/tables/{path}", "ana").status_code == 403
    assert server.get(f"/api/tables/{path}", "root").status_code == 200
    dags = {name: row["dag"] for name, row in server.tables("root").items()}
    assert (dags["common"], dags["ana"]) == ("merge", "merge__ana")
    assert server.get("/api/tables/merge?table=common", "root").json()["own"] == []


def test_a_dag_for_all_tables_whose_address_names_none_is_that_of_no_table(server: Server) -> None:
    assert server.get("/api/tables/merge", "root").status_code == 404


def test_a_table_that_is_not_in_the_settings_is_not_found(server: Server) -> None:
    answer = server.get("/api/tables/merge__root", "root")
    assert answer.status_code == 404
    assert "no table 'root'" in answer.text


def test_a_dag_of_all_tables_is_that_of_no_table(server: Server) -> None:
    assert server.get("/api/tables/fleet__ana", "root").status_code == 404


def test_a_store_that_does_not_answer_holds_up_nobody(server: Server) -> None:
    """A request to it is under way; the answer is there, with the other tables' figures."""

    def known() -> bool:
        return server.tables("root")["ana"]["figures"] is not None

    assert wait_until(known, every=NEARBY_SECONDS)
    rows = server.tables("root")
    assert (rows["ana"]["figures"]["parts"], rows["ana"]["figures"]["partitions"]) == (10, 2)
    assert (rows["silent"]["figures"], rows["silent"]["score"]) == (None, None)
    assert server.get("/api/fleet", "root").json()["refreshing"]


def test_details_come_after_a_moment(server: Server) -> None:
    def detail() -> Any:
        return server.get("/api/tables/merge__bo/detail", "bo").json()["detail"]

    assert wait_until(lambda: detail() is not None, every=NEARBY_SECONDS)
    found = server.get("/api/tables/merge__bo/detail", "bo").json()
    known = f"/api/tables/merge__bo/detail?version={found['version']}"
    assert "detail" not in server.get(known, "bo").json()
    found = found["detail"]
    assert [one["partition"] for one in found["partitions"]] == ["day=a", "day=b"]
    assert found["next"]["merge"]["parts_in"] == 10
