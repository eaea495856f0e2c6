"""An API server alone, with users of different rights, for tests of the page."""

from __future__ import annotations

import json
import socket
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import httpx

from firnline.operations.pools import pools_json
from firnline.settings.load import Settings, load_settings
from firnline.table import open_table
from tests.dags.filled import fill
from tools.airflow_api import HUNG_SECONDS, wait_until
from tools.airflow_home import StackOptions
from tools.airflow_stack import AirflowStack
from tools.bootstrap import REPO
from tools.databases import temporary_server

SHARED = ("wide", "common")
"""Tables without DAGs of their own."""
_USERS = {"root": "admin", "ana": "viewer", "bo": "viewer"}


@dataclass(frozen=True)
class Server:
    """An API server with the tables ``ana`` and ``bo``, and one whose store does not answer."""

    url: str
    roots: Mapping[str, str]
    """Root of each table."""
    statsd: socket.socket
    """The StatsD server to which its Airflow sends metrics."""

    def get(self, path: str, user: str | None = None) -> httpx.Response:
        headers = {} if user is None else {"Authorization": f"Bearer {self.token(user)}"}
        return httpx.get(f"{self.url}/firnline{path}", headers=headers, timeout=HUNG_SECONDS)

    def token(self, user: str) -> str:
        asked = {"username": user, "password": user}
        answer = httpx.post(f"{self.url}/auth/token", json=asked, timeout=HUNG_SECONDS)
        token: str = answer.json()["access_token"]
        return token

    def has_dag(self, dag_id: str) -> bool:
        return self._api(f"/dags/{dag_id}").status_code == 200

    def runs(self, dag_id: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._api(f"/dags/{dag_id}/dagRuns").json()["dag_runs"]
        return found

    def pause(self, dag_id: str, *, paused: bool) -> None:
        answer = self._api(f"/dags/{dag_id}", "PATCH", {"is_paused": paused})
        assert answer.status_code == 200, answer.text

    def start(self, dag_id: str, conf: Mapping[str, Any]) -> tuple[str, str]:
        """Start a run; return the ids of DAG and run."""
        self.pause(dag_id, paused=False)
        asked = {"conf": dict(conf), "logical_date": None}
        answer = self._api(f"/dags/{dag_id}/dagRuns", "POST", asked)
        self._done(answer)
        return dag_id, answer.json()["dag_run_id"]

    def run(self, dag_id: str, run_id: str) -> dict[str, Any]:
        found: dict[str, Any] = self._api(f"/dags/{dag_id}/dagRuns/{run_id}").json()
        return found

    def run_state(self, dag_id: str, run_id: str) -> str:
        return str(self.run(dag_id, run_id)["state"])

    def ask_about_what_is_prepared(self, dag_id: str, run_id: str, query: str) -> None:
        """Start a run of a rewrite whose job is done already: this stack has no Spark."""
        conf = {"partitions": ["*"], "sql": query, "approve": True, "dry_run": False}
        run = {"dag_run_id": run_id, "conf": conf, "logical_date": None}
        self.pause(dag_id, paused=True)  # nothing of it begins before all is said
        self._done(self._api(f"/dags/{dag_id}/dagRuns", "POST", run))
        tasks = f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances"
        job = f"{tasks}/rewrite_partitions"
        self._done(self._api(job, "PATCH", {"new_state": "success"}))
        self.pause(dag_id, paused=False)
        waits = f"{tasks}/approve/-1/hitlDetails"
        assert wait_until(lambda: self._api(waits).status_code == 200), "nobody is asked"

    @staticmethod
    def _done(answer: httpx.Response) -> None:
        assert answer.status_code in {200, 201}, answer.text

    def make_pools(self, settings: Settings) -> None:
        """Make the pools of the tables, without which every run fails at its start."""
        for name, pool in pools_json(settings).items():
            answer = self._api("/pools", "POST", {"name": name, **pool})
            assert answer.status_code == 201, answer.text

    def _api(self, path: str, method: str = "GET", body: object = None) -> httpx.Response:
        headers = {"Authorization": f"Bearer {self.token('root')}"}
        url = f"{self.url}/api/v2{path}"
        return httpx.request(method, url, json=body, headers=headers, timeout=HUNG_SECONDS)

    def tables(self, user: str) -> dict[str, Mapping[str, Any]]:
        answer = self.get("/api/fleet", user)
        assert answer.status_code == 200, answer.text
        return {row["table"]: row for row in answer.json()["tables"]}


@contextmanager
def serving(
    home: Path,
    more: Mapping[str, str] = MappingProxyType({}),
    *,
    dags: bool = False,
    runs: bool = False,
    people: Collection[str] = (),
) -> Iterator[Server]:
    """An API server with the tables ``ana``, ``bo`` and ``silent``.

    Args:
        home: an empty folder.
        more: name -> root of further tables.
        dags: with a DAG processor, and the DAGs of each table: ``merge__TABLE``, and of those in
            ``more`` all. Those in ``SHARED`` have none of their own.
        runs: with a scheduler, and PostgreSQL where it is to be had: with SQLite, a request that
            writes while the scheduler does fails.
        people: tables with rows of people, by their column ``k``; the folder of requests of erasure
            is ``requests`` then.
    """
    settings, passwords = home / "tables.yaml", home / "passwords.json"
    roots = {name: f"file://{home}/{name}" for name in ("ana", "bo")}
    roots |= more
    # It accepts connections, and never says a word.
    silent = socket.create_server(("127.0.0.1", 0))
    roots["silent"] = "s3://silent/t"
    statsd = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    statsd.bind(("127.0.0.1", 0))
    few = ", operations: [merge]"
    lines = [
        f"  {name}: {{root: '{root}', own_dags: {'[]' if name in SHARED else 'all'}"
        f"{'' if dags and name in more else few}{', person: [k]' if name in people else ''}}}"
        for name, root in roots.items()
    ]
    folder = [f"erasure: {{requests: 'file://{home}/requests'}}"] if people else []
    settings.write_text("\n".join([*folder, "tables:", *lines]), encoding="utf-8")
    passwords.write_text(json.dumps({user: user for user in _USERS}), encoding="utf-8")
    for name in ("ana", "bo"):
        fill(open_table(load_settings(settings).tables[name]), 5)
    options = StackOptions(
        only=("api-server", *["dag-processor"] * dags, *["scheduler"] * runs),
        env={
            "FIRNLINE_TABLES": str(settings),
            "PYTHONPATH": f"{REPO}:{REPO / 'include'}",
            "AWS_ACCESS_KEY_ID": "a",
            "AWS_SECRET_ACCESS_KEY": "b",
            "AWS_ENDPOINT_URL_S3": f"http://127.0.0.1:{silent.getsockname()[1]}",
            "AWS_REGION": "x",
        },
        config={
            "core": {
                "auth_manager": "tests.dags.page_auth.OwnTables",
                "simple_auth_manager_all_admins": False,
                "simple_auth_manager_users": ",".join(map(":".join, _USERS.items())),
                "simple_auth_manager_passwords_file": passwords,
            },
            # DAG files do not change while the tests run.
            "dag_processor": {"refresh_interval": 86_400, "min_file_process_interval": 86_400},
            "metrics": {
                "statsd_on": True,
                "statsd_host": "127.0.0.1",
                "statsd_port": statsd.getsockname()[1],
            },
        },
    )
    server = temporary_server() if runs else None
    with silent, statsd, AirflowStack(home / "airflow", options, server) as stack:
        found = Server(stack.url, roots, statsd)
        if runs:
            found.make_pools(load_settings(settings))
        yield found
