"""Alerts of every kind as a server receives them, from a real Airflow with its own intervals.

It has an Airflow of its own, whose planner has a clock and whose settings get a mistake.
"""

from __future__ import annotations

import json
import shutil
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from firnline.operations.dag_ids import FLEET
from firnline.operations.pools import pools_json
from firnline.settings.load import load_settings
from tests.dags.filled import fill
from tests.dags.maintained import SPARK, Maintained, Run
from tools.airflow_api import wait_until
from tools.airflow_home import StackOptions
from tools.airflow_stack import AirflowStack
from tools.bootstrap import REPO
from tools.databases import temporary_server

# One run of merge fails at once and misses its deadline. Nothing starts Spark: what gets so far
# has no cluster.
TABLES = """
fleet:
  schedule: '* * * * *'
  alerts: &told {{notifier: told_by.Posted, arguments: {{conn_id: receiver}}}}
defaults:
  sort_by: [k]
  partition_by: [day]
  alerts: *told
  spark: {{conn_id: no_cluster}}
  ttl: null
  verify: {{schedule: null}}
  cleanup: {{schedule: null}}
tables:
  late:
    root: 'file://{folder}/late'
    operations: [merge]
    alerts: {{merge_deadline: 1m}}
  single: {{root: 'file://{folder}/single', operations: [verify], own_dags: [verify]}}
  lost: {{root: 'file://{folder}/lost', operations: [tombstone_cleanup]}}
  gone: {{root: 'file://{folder}/gone', operations: [merge], merge: {{schedule: null}}}}
  asked: {{root: 'file://{folder}/asked', operations: [remove_partitions]}}
  torn: {{root: 'file://{folder}/torn', operations: [merge]}}
  # With its mirror the DAG has a last task that runs of the others skip beforehand.
  shown: {{root: 'file://{folder}/shown', operations: [merge, verify], mirror: [delta]}}
"""
# How soon Airflow itself does what alerts wait for: as it comes.
CONFIG: dict[str, dict[str, object]] = {
    "core": {"parallelism": 4},
    "scheduler": {
        "scheduler_idle_sleep_time": 1,
        "scheduler_heartbeat_sec": 5,
        "job_heartbeat_sec": 5,
        "scheduler_health_check_threshold": 120,
    },
    "triggerer": {"triggerer_health_check_threshold": 120},
    "dag_processor": {
        "refresh_interval": 300,
        "bundle_refresh_check_interval": 5,
        "min_file_process_interval": 30,
        "parsing_processes": 2,
        "health_check_threshold": 120,
    },
}
_SECONDS = 300.0
"""For an alert to arrive: on a machine that does much else."""
MISTAKE = "no_such_section: {}\n"


@dataclass
class Receiver:
    """What has been posted, each with when it came."""

    alerts: list[tuple[float, dict[str, str]]] = field(default_factory=list)

    def all(self, says: str = "", **wanted: str) -> list[tuple[float, dict[str, str]]]:
        """Those that have these values, and these words in their sentence, oldest first."""
        return [
            (at, alert)
            for at, alert in list(self.alerts)
            if wanted.items() <= alert.items() and says in alert["sentence"]
        ]

    def first(self, says: str = "", **wanted: str) -> tuple[float, dict[str, str]]:
        """Wait for one that has these values."""
        arrived = wait_until(lambda: bool(self.all(says, **wanted)), _SECONDS)
        assert arrived, (says, wanted, self.alerts)
        return self.all(says, **wanted)[0]


@pytest.fixture(scope="module")
def receiver() -> Iterator[tuple[Receiver, int]]:
    """A server, and its port."""
    found = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            found.alerts.append((time.time(), json.loads(body)))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield found, server.server_port
        server.shutdown()


@pytest.fixture(scope="module")
def airflow(
    tmp_path_factory: pytest.TempPathFactory, receiver: tuple[Receiver, int]
) -> Iterator[Maintained]:
    """Airflow; the notifier finds its connection in Airflow's database alone."""
    home = tmp_path_factory.mktemp("alerts")
    settings_file, config = home / "tables.yaml", home / "home" / "config"
    config.mkdir(parents=True)
    settings_file.write_text(TABLES.format(folder=home / "tables"))
    shutil.copy(REPO / "tests" / "support" / "notifier.py", config / "told_by.py")
    pools = pools_json(load_settings(settings_file))
    del pools["lost.cleanup"]
    (home / "pools.json").write_text(json.dumps(pools))
    options = StackOptions(
        env={"FIRNLINE_TABLES": str(settings_file)},
        connections={"spark_default": SPARK},
        pools=home / "pools.json",
        schedules=True,
        triggerer=True,
        config=CONFIG,
    )
    stack = AirflowStack(home / "home", options, temporary_server())
    found = Maintained(stack, settings_file)
    for name, appends in {"late": 1, "gone": 5, "asked": 1, "torn": 1}.items():
        fill(found.table(name), appends)
    with stack:
        where = {"connection_id": "receiver", "conn_type": "http", "host": "127.0.0.1"}
        stack.api.call("POST", "/connections", {**where, "port": receiver[1]})
        yield found


@dataclass
class Story:
    """What has happened, and what has arrived."""

    airflow: Maintained
    receiver: Receiver
    delays: dict[str, float] = field(default_factory=dict)

    def arrives(self, kind: str, since: float, run: Run, /, **wanted: str) -> dict[str, str]:
        """Wait for an alert of a run, and keep how long it took."""
        at, alert = self.receiver.first(dag_id=run.dag_id, run_id=run.run_id, **wanted)
        self.delays[kind] = at - since
        path = f"/dags/{run.dag_id}/runs/{quote(run.run_id, safe='')}"
        assert alert["link"] == f"{self.airflow.stack.url}{path}"
        return alert


def sentence_of(what: str) -> str:
    return f"{what} failed (task_failure); the note of the run says why"


def moment(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def about(run: Run) -> dict[str, Any]:
    """All that Airflow says of a run."""
    found: dict[str, Any] = run.stack.api.call("GET", f"/dags/{run.dag_id}/dagRuns/{run.run_id}")
    return found


def log_of(airflow: Maintained, table: str) -> Path:
    """The only file of a table's log."""
    (found,) = Path(airflow.table(table).settings.root.removeprefix("file://"), "_log").iterdir()
    return found


def failed_planners(airflow: Maintained) -> list[Run]:
    """Runs of the planner's clock that failed, oldest first."""
    return [
        Run(airflow.stack, FLEET, each["dag_run_id"])
        for each in airflow.stack.api.runs(FLEET)
        if each["run_type"] == "scheduled" and each["state"] == "failed"
    ]


def test_alerts_of_every_kind_arrive_with_table_reason_sentence_and_link(
    airflow: Maintained, receiver: tuple[Receiver, int]
) -> None:
    story = Story(airflow, receiver[0])
    log = log_of(airflow, "torn")
    whole = log.read_bytes()
    log.write_bytes(whole[:-20])

    late = airflow.merge("late", {"dryrun": True})
    single = airflow.start("verify", "single", {"dryrun": True})
    lost = airflow.start("tombstone_cleanup", "lost", dry_run=False)
    gone = airflow.merge("gone")
    asked = airflow.start("remove_partitions", "asked", dry_run=False, answer_within="1h")
    assert (late.dag_id, single.dag_id, gone.dag_id) == ("merge", "verify__single", "merge__gone")

    # Its first task is waited for, so that the run was there before its pool was away.
    assert wait_until(lambda: gone.tasks.get("plan") in {"queued", "running", "success"})
    airflow.stack.api.call("DELETE", "/pools/gone.merge")
    deleted = time.time()

    task_of_all(story, late)
    task_of_one(story, single)
    pool_at_start(story, lost)
    question(story, asked)
    planner(story)
    pool_later(story, gone, deleted)
    good = airflow.settings_file.read_text()
    airflow.settings_file.write_text(MISTAKE + good)
    broken = time.time()
    deadline(story, late)
    settings_with_a_mistake(story, broken)
    airflow.settings_file.write_text(good)
    log.write_bytes(whole)
    all_is_well(story, time.time())
    for kind, delay in story.delays.items():
        print(f"alert: {kind}: {delay:.1f} s")


def task_of_all(story: Story, run: Run) -> None:
    ended = moment(about(run.ended())["end_date"])
    kind = "a run of a DAG for all tables fails"
    alert = story.arrives(kind, ended, run, reason="task_failure")
    assert (alert["table"], alert["sentence"]) == ("late", sentence_of("merge of table late"))


def task_of_one(story: Story, run: Run) -> None:
    ended = moment(about(run.ended())["end_date"])
    alert = story.arrives("a run of a table's own DAG fails", ended, run, reason="task_failure")
    assert (alert["table"], alert["sentence"]) == ("single", sentence_of("verify of table single"))


def pool_at_start(story: Story, run: Run) -> None:
    begun = moment(about(run.ended())["start_date"])
    alert = story.arrives("a pool is missing at the start", begun, run, reason="pool_wrong")
    assert alert["table"] == "lost"
    assert alert["sentence"].startswith("the pool lost.cleanup does not exist, so nothing")
    assert run.note == f"firnline: {alert['sentence']}."


def question(story: Story, run: Run) -> None:
    story.airflow.question(run, "pick")
    begun = moment(run.task("pick")["start_date"])
    alert = story.arrives("a question waits", begun, run, reason="answer_wanted")
    assert alert["table"] == "asked"
    assert "asked" in alert["sentence"]


def pool_later(story: Story, run: Run, deleted: float) -> None:
    alert = story.arrives("a pool is deleted later", deleted, run, reason="pool_wrong")
    assert alert["table"] == "gone"
    assert alert["sentence"].startswith("the pool gone.merge does not exist, so nothing")
    assert run.note == f"firnline: {alert['sentence']}."
    assert (run.state, run.tasks["merge"]) == ("running", "scheduled")
    pool = {"name": "gone.merge", "slots": 1, "include_deferred": True}
    story.airflow.stack.api.call("POST", "/pools", pool)
    assert wait_until(lambda: run.tasks["merge"] != "scheduled"), "it goes on with the pool"


def deadline(story: Story, run: Run) -> None:
    missed = moment(about(run)["queued_at"]) + 60
    alert = story.arrives("merge_deadline passes", missed, run, reason="deadline_missed")
    sentence = "a merge of table late has not succeeded within 1m of its start"
    assert (alert["table"], alert["sentence"]) == ("late", sentence)


def planner(story: Story) -> None:
    assert wait_until(lambda: bool(failed_planners(story.airflow)))
    failed = failed_planners(story.airflow)[0]
    ended = moment(about(failed)["end_date"])
    alert = story.arrives("the planner fails", ended, failed, reason="task_failure")
    assert (alert["table"], alert["sentence"]) == ("", sentence_of(f"the planner {FLEET}"))


def settings_with_a_mistake(story: Story, broken: float) -> None:
    at, alert = story.receiver.first(reason="silent", dag_id=FLEET, run_id="", table="")
    story.delays["the settings get a mistake"] = at - broken
    assert "are in force, because" in alert["sentence"]
    assert alert["link"] == f"{story.airflow.stack.url}/dags/{FLEET}"


def all_is_well(story: Story, repaired: float) -> None:
    well = {"reason": "recovered", "dag_id": FLEET, "table": ""}
    at, _ = story.receiver.first("the settings in tables.yaml can be read again", **well, run_id="")
    story.delays["the settings are right again"] = at - repaired
    at, alert = story.receiver.first("all is well again with", **well)
    story.delays["a table can be read again, with a planner each minute"] = at - repaired
    assert "table torn" in alert["sentence"]
    assert len(story.receiver.all(reason="silent")) == 1
    assert len(story.receiver.all(reason="pool_wrong")) == 2
