"""Drivers whose supervisor is killed, drivers that outlive it; two schedulers on one database.

A driver notices that its supervisor is gone, and ends. One that does not, as on another machine,
lives on beside its retry, or past it. One Airflow for all: whatever the retry's scheduler is, the
zombie must do no harm.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Any

import psycopg
import pytest

from firnline.log.txn_file import RunIdentity
from firnline.operations.cleanup.run import run_cleanup
from firnline.operations.operation import Work
from firnline.operations.options import CleanupOptions
from firnline.state.history import history
from firnline.state.snapshot import read_snapshot
from firnline.table import Table
from tests.dags.maintained import Maintained, Run
from tests.dags.shared_stack import is_running
from tests.dags.zombies import (
    LONG,
    PARTITIONS,
    Driver,
    Hold,
    check_nothing_is_left,
    check_rows,
    drivers_of,
    endless,
    fates,
    filled,
    hold,
    mortal_airflow,
    outputs,
)
from tools.airflow_api import wait_until

TABLES = """
defaults:
  merge: {{schedule: null, kernel_memory: 256MiB}}
  cleanup: {{schedule: null, grace: 1s}}
  ttl: null
  sort_by: [k]
  partition_by: [day(ts)]
  spark: {{conf: {{spark.ui.enabled: false, spark.driver.memory: 600m}}}}
tables:
  noticed: {{root: 'file://{folder}/noticed', operations: [merge]}}
  merged: {{root: 'file://{folder}/merged', operations: [merge]}}
  queried: {{root: 'file://{folder}/queried', operations: [rewrite_partitions]}}
  stopped: {{root: 'file://{folder}/stopped', operations: [merge]}}
  starved: {{root: 'file://{folder}/starved', operations: [rewrite_partitions]}}
  crowded: {{root: 'file://{folder}/crowded', operations: [merge]}}
  shared: {{root: 'file://{folder}/shared', operations: [merge]}}
  left: {{root: 'file://{folder}/left', operations: [merge]}}
  right: {{root: 'file://{folder}/right', operations: [merge]}}
"""
# The retry comes at once, and nothing but its pool keeps the runs of a table apart.
POLICY = """
from datetime import timedelta


def task_policy(task):
    task.retry_delay = timedelta(seconds=1)


def dag_policy(dag):
    dag.max_active_runs = 8
"""
# A supervisor that is silent is dead after seconds, not minutes.
CONFIG: dict[str, dict[str, object]] = {
    "scheduler": {
        "task_instance_heartbeat_timeout": 20,
        "task_instance_heartbeat_timeout_detection_interval": 2,
        "task_instance_heartbeat_sec": 2,
    }
}
ROWS = 60_000
FEW = 2_000
RUNS = {"shared": 3, "left": 1, "right": 1}
"""Merges by table, all at once."""
SHIFT = 1_000_000
"""What the query of a rewrite adds to each key, once."""
QUERY = f"select * replace (k + {SHIFT} as k) from _rows"
OPTIONS: dict[str, dict[str, Any]] = {
    "merge": {},
    "rewrite_partitions": {"partitions": ["*"], "sql": QUERY, "dry_run": False},
}
MERGES = ("merged", "stopped")
UNWATCHED = ("merged", "queried", "stopped", "starved")
"""Tables whose drivers do not notice that their supervisor is gone."""


pytestmark = pytest.mark.full("kills supervisors and starts 20 drivers in an Airflow of its own")


@pytest.fixture(scope="module")
def mortal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Maintained]:
    """Two schedulers that notice a dead supervisor within seconds."""
    home = tmp_path_factory.mktemp("zombies")
    with mortal_airflow(home, TABLES, POLICY, CONFIG, 2, UNWATCHED) as found:
        yield found


def test_a_driver_whose_supervisor_is_killed_ends_and_its_retry_does_the_work(
    mortal: Maintained,
) -> None:
    table = filled(mortal.table("noticed"), 5, ROWS)
    inputs = outputs(table)
    with endless(mortal, "noticed"):
        run = mortal.start("merge", "noticed")
        (driver,) = hold(mortal, Hold(table, "works", orphan=True))
        error = driver.ended()["error"]
    assert (error["type"], error["retryable"]) == ("SupervisorGoneError", True)
    assert "the Airflow task that started this application is gone" in error["message"]
    assert (outputs(table), history(table)) == (inputs, [])
    assert run.ended().state == "success", run.log("merge")
    assert run.task("merge")["try_number"] == 2
    assert fates(table) == PARTITIONS
    check_rows(table, 5 * ROWS)
    check_nothing_is_left(table)


@dataclass
class Outlived:
    """A run whose first try was given up while its driver stood still."""

    table: Table
    run: Run
    task: str
    first: Driver

    def done(self) -> None:
        """Its retry has ended well, and done all there was to do."""
        assert self.run.ended().state == "success", self.run.log(self.task)
        assert self.run.task(self.task)["try_number"] == 2
        assert fates(self.table) == PARTITIONS
        assert {header.run.run_id for header in history(self.table)} == {self.run.run_id}


@pytest.fixture(scope="module")
def outlived(mortal: Maintained) -> dict[str, Outlived]:
    """By table. All at once, for their supervisors are missed only after a while."""
    holds = {
        "merged": Hold(filled(mortal.table("merged"), 5, ROWS), orphan=True),
        "queried": Hold(filled(mortal.table("queried"), 1, 4 * ROWS), orphan=True),
        "stopped": Hold(filled(mortal.table("stopped"), 5, ROWS), orphan=True),
        "starved": Hold(filled(mortal.table("starved"), 1, ROWS), "reads", orphan=True),
    }
    tasks = {name: "merge" if name in MERGES else "rewrite_partitions" for name in holds}
    runs = {name: mortal.start(tasks[name], name, OPTIONS[tasks[name]]) for name in holds}
    firsts = dict(zip(holds, hold(mortal, *holds.values()), strict=True))
    # These two meet their retry before it has committed; the other retries go on to their ends.
    both = {name: Hold(holds[name].table, besides=[firsts[name]]) for name in ("merged", "queried")}
    retries = hold(mortal, *both.values())
    for name in both:
        assert runs[name].task(tasks[name])["try_number"] == 2
        assert is_running(firsts[name].program), "there is no zombie"
    for driver in (*(firsts[name] for name in both), *retries):
        driver.signal(signal.SIGCONT)
    return {
        name: Outlived(holds[name].table, runs[name], tasks[name], firsts[name]) for name in holds
    }


def test_a_merge_beside_its_own_zombie_doubles_and_loses_no_row(
    outlived: dict[str, Outlived],
) -> None:
    case = outlived["merged"]
    case.first.ended()
    case.done()
    assert len(read_snapshot(case.table.store, case.table.paths).live) == len(PARTITIONS)
    assert case.run.xcom("report")["partitions"] == PARTITIONS
    check_rows(case.table, 5 * ROWS)
    check_nothing_is_left(case.table)


def test_a_rewrite_beside_its_own_zombie_applies_its_query_once(
    outlived: dict[str, Outlived],
) -> None:
    case = outlived["queried"]
    case.first.ended()
    case.done()
    check_rows(case.table, 4 * ROWS, SHIFT)
    check_nothing_is_left(case.table)


def test_a_driver_that_wakes_after_its_retry_takes_its_own_parts_back(
    outlived: dict[str, Outlived],
) -> None:
    case = outlived["stopped"]
    case.done()
    assert case.run.xcom("report")["partitions"] == PARTITIONS
    before, log = outputs(case.table), history(case.table)
    case.first.signal(signal.SIGCONT)
    # It lost each of its groups to the retry, planned again, and found nothing left to do.
    said = case.first.ended()
    assert (said["groups_done"], said["transactions"], said["replans"]) == (0, [], 1)
    assert history(case.table) == log
    assert outputs(case.table) < before
    check_rows(case.table, 5 * ROWS)
    check_nothing_is_left(case.table)


def test_a_driver_whose_inputs_are_gone_when_it_wakes_says_so(
    outlived: dict[str, Outlived],
) -> None:
    case = outlived["starved"]
    table = case.table
    case.done()
    assert wait_until(lambda: cleaned_up(table), LONG), "its inputs are still there"
    left, log = outputs(table), history(table)
    case.first.signal(signal.SIGCONT)
    error = case.first.ended()["error"]
    assert error["type"] == "RewriteFailedError"
    assert "3 of 3 partitions" in error["message"]
    assert "has no object" in error["message"]
    assert (outputs(table), history(table)) == (left, log)
    check_rows(table, ROWS, SHIFT)
    check_nothing_is_left(table)


def cleaned_up(table: Table) -> bool:
    """Delete what the grace is over of; True when no dead part is left."""
    run_cleanup(Work(table, RunIdentity(user="test")), CleanupOptions())
    return outputs(table) == set(read_snapshot(table.store, table.paths).live)


def test_four_merges_of_one_table_at_once_commit_each_group_once(mortal: Maintained) -> None:
    table = filled(mortal.table("crowded"), 5, ROWS)
    pool = {"pool": "crowded.merge", "slots": 4, "include_deferred": True}
    mortal.stack.api.call("PATCH", "/pools/crowded.merge", pool)
    started = [mortal.start("merge", "crowded") for _ in range(4)]
    # All have planned the same work.
    drivers = hold(mortal, *(Hold(table, "reads") for _ in started))
    for driver in drivers:
        driver.signal(signal.SIGCONT)
    reports = [driver.ended() for driver in drivers]
    assert [run.ended().state for run in started] == ["success"] * 4
    assert all("the pool crowded.merge has 4 slots instead of 1" in run.note for run in started)
    assert fates(table) == PARTITIONS
    assert sum(report["groups_done"] for report in reports) == len(PARTITIONS)
    assert sum(report["replans"] for report in reports) >= len(started) - len(PARTITIONS)
    check_rows(table, 5 * ROWS)
    check_nothing_is_left(table)


def asked(address: str, query: str) -> list[tuple[Any, ...]]:
    """Rows of Airflow's own tables."""
    with psycopg.connect(f"postgresql://{address}") as connection:
        return connection.execute(query.encode()).fetchall()


def test_two_schedulers_share_pools_and_each_group_is_committed_once(mortal: Maintained) -> None:
    tables = {name: filled(mortal.table(name), 5, FEW) for name in RUNS}
    runs = [
        mortal.start("merge", name)
        for number in range(max(RUNS.values()))
        for name in RUNS
        if number < RUNS[name]
    ]
    # Held until all the others are planned too, so that every run has something to wait for.
    drivers = hold(mortal, *(Hold(table, "reads") for table in tables.values()))
    assert wait_until(lambda: all(run.tasks["plan"] == "success" for run in runs), LONG)
    for name in RUNS:
        assert mortal.stack.api.pools()[f"{name}.merge"]["occupied_slots"] == 1
        assert len(drivers_of(mortal, name)) == 1
    for driver in drivers:
        driver.signal(signal.SIGCONT)
    states = [run.ended().state for run in runs]
    assert states == ["success"] * len(runs)
    for name, table in tables.items():
        spans = sorted(span(run) for run in runs if run.dag_id == f"merge__{name}")
        assert len(spans) == RUNS[name], "each was to merge"
        for before, after in pairwise(spans):
            assert before[1] <= after[0], f"merges of {name} overlapped: {spans}"
        assert fates(table) == PARTITIONS
        check_rows(table, 5 * FEW)
        check_nothing_is_left(table)
    address = mortal.stack.options.database
    assert address is not None
    assert alive_schedulers(address) == 2
    # Their loops took turns at the locks for all that time.
    query = "select count(distinct queued_by_job_id) from task_instance"
    assert asked(address, query) == [(2,)]


def alive_schedulers(address: str) -> int:
    query = "select count(*) from job where job_type = 'SchedulerJob' and state = 'running'"
    return int(asked(address, query)[0][0])


def span(run: Run) -> tuple[datetime, datetime]:
    """From when to when its merge held the slot."""
    task = run.task("merge")
    assert (task["state"], task["try_number"], task["pool_slots"]) == ("success", 1, 1)
    return datetime.fromisoformat(task["start_date"]), datetime.fromisoformat(task["end_date"])
