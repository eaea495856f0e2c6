"""A merge elsewhere that a trigger waits for, on a real Airflow: its pool, its worker, its end.

The platform is a stand-in whose jobs wait until the test ends them.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

import firnline
from firnline.launch.desk import Desk, Outcome
from firnline.operations.pools import pools_json
from firnline.settings.load import load_settings
from tests.dags.maintained import SPARK, Maintained, Run
from tests.support.launching import published
from tests.support.platform_server import Job, Jobs, platform_server
from tools.airflow_api import wait_until
from tools.airflow_home import StackOptions, component_env
from tools.airflow_stack import AirflowStack

pytestmark = pytest.mark.full("kills a triggerer of an Airflow of its own")
ROLE = "arn:aws:iam::123456789012:role/firnline"
TABLES = """
defaults:
  merge: {{schedule: null, min_inputs: 2}}
  cleanup: {{schedule: null}}
  verify: {{schedule: null}}
  own_dags: all
  operations: [merge]
  spark:
    conn_id: account
    deferrable: true
    package: {package}
    emr_serverless: {{application: a, role: '{role}'}}
tables:
  done: {{root: 'file://{folder}/done'}}
  failed: {{root: 'file://{folder}/failed'}}
  cleared: {{root: 'file://{folder}/cleared'}}
  uncounted: {{root: 'file://{folder}/uncounted'}}
"""


class Waiting(Jobs):
    """Jobs that do nothing until the test ends them."""

    def start(self, name: str, entry: str, words: list[str], conf: dict[str, str], *,
              token: str = "", wheel: str = "", **more: Any) -> Job:  # fmt: skip
        place = self.folder / name
        place.mkdir()
        script = "while [ ! -e done ]; do sleep 0.1; done"
        process = subprocess.Popen(["sh", "-c", script], cwd=place, start_new_session=True)
        self.started.append(Job(f"j-{len(self.started):08d}", name, process, token))
        return self.started[-1]

    def finish(self, job: Job, desk: Desk) -> None:
        """Have a job end well."""
        desk.tell(job.name, Outcome(report={"seconds": 1.0}))
        (self.folder / job.name / "done").touch()


@dataclass
class World:
    """An Airflow, its platform, and what is published for it."""

    airflow: Maintained
    jobs: Waiting
    desk: Desk

    def put_off(self, table: str) -> Run:
        """A merge whose trigger has begun to wait: before, nobody would tell it of an end."""
        run, before = self.airflow.merge(table), len(self.jobs.started)
        assert wait_until(lambda: run.tasks.get("merge") == "deferred"), run.tasks
        job = self.jobs.started[before]
        assert wait_until(lambda: job.id in self.jobs.looked_at), "no trigger looks at it"
        return run

    def slots(self, table: str) -> tuple[int, int]:
        """Deferred and open slots of the pool of a table's merges."""
        pool = self.airflow.stack.api.pools()[f"{table}.merge"]
        return pool["deferred_slots"], pool["open_slots"]

    def set_state(self, run: Run, state: str) -> None:
        path = f"/dags/{run.dag_id}/dagRuns/{run.run_id}/taskInstances/merge"
        self.airflow.stack.api.call("PATCH", path, {"new_state": state})


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    home = tmp_path_factory.mktemp("deferred")
    for name in ("tables", "jobs"):
        (home / name).mkdir()
    desk = published(home)
    jobs = Waiting(home / "jobs", {})
    settings = home / "tables.yaml"
    settings.write_text(TABLES.format(folder=home / "tables", package=desk.url, role=ROLE))
    tables = load_settings(settings, strict=True)
    pools = pools_json(tables)
    pools["uncounted.merge"]["include_deferred"] = False
    (home / "pools.json").write_text(json.dumps(pools))
    for name in tables.tables:
        for number in range(4):
            firnline.append(f"file://{home}/tables/{name}", [{"x": number}])
    with platform_server(home / "jobs", {}, jobs) as (address, _):
        extra = {"endpoint_url": address, "region_name": "eu-central-1"}
        account = {"conn_type": "aws", "login": "a", "password": "b", "extra": extra}
        options = StackOptions(
            env={"FIRNLINE_TABLES": str(settings)},
            connections={"spark_default": SPARK, "account": account},
            pools=home / "pools.json",
            triggerer=True,
        )
        with AirflowStack(home / "home", options) as stack:
            yield World(Maintained(stack, settings), jobs, desk)


def test_the_pool_is_held_without_a_worker_also_while_there_is_no_triggerer(world: World) -> None:
    run = world.put_off("done")
    assert world.slots("done") == (1, 0)
    stack = world.airflow.stack
    assert not [each for each in stack.programs.alive() if "task_runner" in " ".join(_words(each))]
    psutil.Process(stack.programs.pid("triggerer")).kill()
    stack.programs.dead()
    assert world.slots("done") == (1, 0)
    env = {**component_env(stack.home, stack.options, "triggerer"), **stack.env()}
    stack.programs.start("triggerer", [_airflow(), "triggerer"], env)
    (job,) = (each for each in world.jobs.started if each.process.poll() is None)
    world.jobs.finish(job, world.desk)
    ended = run.ended()
    assert ended.tasks["merge"] == "success", ended.log("merge")
    assert len(world.jobs.started) == 1
    assert world.slots("done") == (0, 1)


@pytest.mark.parametrize(("table", "state"), [("failed", "failed"), ("cleared", "cleared")])
def test_whoever_ends_the_task_ends_its_job(world: World, table: str, state: str) -> None:
    run = world.put_off(table)
    job = world.jobs.started[-1]
    if state == "cleared":
        body = {
            "dry_run": False,
            "only_failed": False,
            "dag_run_id": run.run_id,
            "task_ids": ["merge"],
        }
        world.airflow.stack.api.call("POST", f"/dags/{run.dag_id}/clearTaskInstances", body)
    else:
        world.set_state(run, state)
    assert wait_until(lambda: job.process.poll() is not None), "the job works on"
    assert job.cancelled
    if state == "cleared":  # which starts it again
        assert wait_until(lambda: len(world.jobs.left) == 1)
        world.jobs.finish(world.jobs.left[0], world.desk)
        assert run.ended().tasks["merge"] == "success"


def test_a_run_whose_pool_does_not_count_deferred_tasks_fails_at_its_start(world: World) -> None:
    before = len(world.jobs.started)
    run = world.airflow.merge("uncounted").ended()
    assert run.state == "failed"
    assert "does not count deferred tasks" in run.note
    assert len(world.jobs.started) == before


def _airflow() -> str:
    import sys

    return str(Path(sys.executable).with_name("airflow"))


def _words(process: psutil.Process) -> list[str]:
    try:
        words: list[str] = process.cmdline()
    except psutil.Error:
        return []
    return words
