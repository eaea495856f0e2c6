"""One real Airflow for all tests of this folder, with tables in every state that matters."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from firnline.pools import pools_json
from firnline.settings import load_settings
from firnline.store.access import StoreAccess
from firnline.table import Table, open_table
from firnline_dev.airflow_api import ENDED
from firnline_dev.airflow_home import StackOptions
from firnline_dev.airflow_stack import AirflowStack
from firnline_dev.bootstrap import REPO
from firnline_dev.s3server import S3Server
from tests.dags.databases import metadata_database
from tests.dags.filled import fill

if TYPE_CHECKING:
    from tests.dags.operated import Operated

DAGS = REPO / "dags"
CONNECTION = "merge_store"
TABLES = """
defaults:
  merge: {{schedule: null, kernel_memory: 256MiB}}
  cleanup: {{schedule: null, grace: 1s}}
  verify: {{schedule: null}}
  operations: [merge]
  sort_by: [k]
  partition_by: [day]
  spark: {{conf: {{spark.ui.enabled: false, spark.driver.memory: 600m}}}}
tables:
  # Only the Airflow connection knows the keys of this store.
  secret: {{root: '{store}/secret', connection_id: {connection}}}
  idle: {{root: 'file://{folder}/idle', merge: {{schedule: '* * * * *'}}}}
  rivals: {{root: 'file://{folder}/rivals'}}
  bounded: {{root: 'file://{folder}/bounded'}}
  lost: {{root: 'file://{folder}/lost', operations: [merge, tombstone_cleanup], alerts: {told}}}
  wide: {{root: 'file://{folder}/wide', operations: [merge, tombstone_cleanup]}}
  unsafe: {{root: 'file://{folder}/unsafe', locking: pool-only}}
  unconnected: {{root: 'file://{folder}/unconnected', connection_id: nobody_made_it}}
  clusterless: {{root: 'file://{folder}/clusterless', spark: {{conn_id: no_cluster}}}}
  broken: {{root: 'file://{folder}/broken'}}
  aged:
    root: 'file://{folder}/aged'
    operations: [ttl]
    ttl: {{keep: 1h, partition: 'day=(?P<day>.*)', schedule: null}}
  cleaned: {{root: 'file://{folder}/cleaned', operations: [tombstone_cleanup]}}
  hourly:
    root: '{store}/hourly'
    connection_id: {connection}
    operations: [replace, restore]
    partition_by: [day(ts)]
  faded: {{root: 'file://{folder}/faded', operations: [restore]}}
  checked: {{root: 'file://{folder}/checked', operations: [verify, rebuild]}}
  busy:
    root: 'file://{folder}/busy'
    operations: [merge, tombstone_cleanup, ttl, verify]
    ttl: {{keep: 1h, partition: 'day=(?P<day>.*)', schedule: null}}
  late:
    root: 'file://{folder}/late'
    spark: {{conn_id: no_cluster}}
    alerts: {{notifier: told_by.Told, arguments: {{file: '{folder}/told'}}, merge_deadline: 1m}}
"""
TOLD = "{{notifier: told_by.Told, arguments: {{file: '{folder}/told', word: '{{{{ reason }}}}'}}}}"
# A cluster policy, as operators have them: runs of this table may overlap, so that its pool is all
# that keeps them apart.
POLICY = """
def dag_policy(dag):
    if dag.dag_id == "merge__rivals":
        dag.max_active_runs = 4
"""
SPARK = {"conn_type": "spark", "host": "local[2]", "extra": {"deploy-mode": "client"}}


@dataclass
class Maintained:
    """The stack and the tables it maintains."""

    stack: AirflowStack
    settings_file: Path
    server: S3Server | None
    """None on a machine that cannot build one: then all tables are files."""

    def table(self, name: str) -> Table:
        """The table, seen from this process."""
        settings = load_settings(self.settings_file).table(name)
        if self.server is None or not settings.root.startswith("s3:"):
            return open_table(settings)
        return open_table(settings, StoreAccess.from_env(self.server.env()))

    def trigger(self, table: str, conf: dict[str, Any] | None = None) -> Run:
        """Start a merge by hand."""
        return Run(self.stack, f"merge__{table}", self.stack.api.trigger(f"merge__{table}", conf))

    def run(self, table: str, conf: dict[str, Any] | None = None) -> Run:
        """Start a merge by hand and wait for its end."""
        return self.trigger(table, conf).ended()

    def start(self, operation: str, table: str, **conf: Any) -> Run:
        """Start another operation by hand."""
        dag_id = f"{operation}__{table}"
        return Run(self.stack, dag_id, self.stack.api.trigger(dag_id, conf))

    @property
    def told(self) -> list[dict[str, Any]]:
        """What the notifier was told, oldest first."""
        file = self.settings_file.parent / "tables" / "told"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    def runs(self, table: str, kind: str) -> list[Run]:
        """Runs of a kind (``scheduled``, ``asset_triggered``), oldest first."""
        dag_id = f"merge__{table}"
        found = self.stack.api.runs(dag_id)
        return [
            Run(self.stack, dag_id, run["dag_run_id"]) for run in found if run["run_type"] == kind
        ]


@dataclass
class Run:
    """A run of a DAG."""

    stack: AirflowStack
    dag_id: str
    run_id: str

    def ended(self) -> Run:
        """Itself, once it has ended."""
        state = self.stack.api.wait_run(self.dag_id, self.run_id)
        assert state in ENDED, f"{self.run_id} is {state} still: {self.tasks}"
        return self

    @property
    def state(self) -> str:
        return self.stack.api.run_state(self.dag_id, self.run_id)

    @property
    def tasks(self) -> dict[str, str | None]:
        """State by task."""
        return self.stack.api.task_states(self.dag_id, self.run_id)

    def task(self, task: str) -> dict[str, Any]:
        """All that Airflow says of a task."""
        found = self.stack.api.tasks(self.dag_id, self.run_id)
        return next(each for each in found if each["task_id"] == task)

    def error(self, task: str) -> str:
        """The exception that ended a task."""
        lines = [json.loads(line) for line in self.log(task).splitlines() if line.startswith("{")]
        details = [line["error_detail"] for line in lines if line.get("error_detail")]
        assert details, f"{task} tells no error"
        return str(details[-1][-1]["exc_value"])

    def log(self, task: str) -> str:
        return self.stack.task_log(self.dag_id, self.run_id, task)

    def xcom(self, task: str) -> Any:
        return self.stack.api.xcom(self.dag_id, self.run_id, task)

    @property
    def note(self) -> str:
        path = f"/dags/{self.dag_id}/dagRuns/{self.run_id}"
        return self.stack.api.call("GET", path)["note"] or ""


@pytest.fixture(scope="session")
def maintained(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Maintained]:
    try:
        server: S3Server | None = request.getfixturevalue("s3_server")
    except pytest.skip.Exception:
        server = None
    home = tmp_path_factory.mktemp("airflow")
    settings_file = home / "tables.yaml"
    folder = home / "tables"
    folder.mkdir()
    store = server.url("dags") if server else f"file://{folder}"
    settings_file.write_text(
        TABLES.format(
            folder=folder, store=store, connection=CONNECTION, told=TOLD.format(folder=folder)
        )
    )
    # Airflow has this folder on its path in every process.
    config = home / "home" / "config"
    config.mkdir(parents=True)
    (config / "airflow_local_settings.py").write_text(POLICY)
    shutil.copy(REPO / "tests" / "support" / "notifier.py", config / "told_by.py")
    pools = pools_json(load_settings(settings_file))
    for name in ("lost.merge", "lost.cleanup"):
        del pools[name]
    for name in ("wide.merge", "wide.cleanup", "unsafe.merge"):
        pools[name]["slots"] = 2
    (home / "pools.json").write_text(json.dumps(pools))
    with (
        metadata_database() as database,
        AirflowStack(home / "home", _options(settings_file, home, database)) as stack,
    ):
        found = Maintained(stack, settings_file, server)
        stack.api.call("POST", "/connections", store_connection(server))
        for name, appends in FILLED.items():
            fill(found.table(name), appends)
        yield found


def _options(settings_file: Path, home: Path, database: str | None) -> StackOptions:
    return StackOptions(
        dags=DAGS,
        env={"FIRNLINE_TABLES": str(settings_file)},
        connections={"spark_default": SPARK},
        pools=home / "pools.json",
        schedules=True,
        triggerer=True,
        database=database,
    )


@pytest.fixture(scope="session")
def operated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operated]:
    """Another Airflow, whose DAGs wait for people and are backfilled."""
    from tests.dags.operated import running

    with running(tmp_path_factory.mktemp("operated")) as found:
        yield found


FILLED = {"secret": 6, "idle": 1, "rivals": 5, "bounded": 5, "lost": 5, "wide": 1}
FILLED |= {"unsafe": 1, "unconnected": 5, "clusterless": 5, "broken": 5, "late": 5}


NO_SERVER_SECRET = "nothing-asks-for-this-one-with-files"


def store_connection(server: S3Server | None) -> dict[str, str]:
    """What an operator types into the form of a new connection."""
    where = {"endpoint_url": server.endpoint, "region_name": server.region} if server else {}
    return {
        "connection_id": CONNECTION,
        "conn_type": "aws",
        "login": server.access_key if server else "somebody",
        "password": server.secret_key if server else NO_SERVER_SECRET,
        "extra": json.dumps(where),
    }
