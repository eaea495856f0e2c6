"""Two schedulers on one metadata database: the pools hold, and each group is committed once."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from datetime import datetime
from itertools import pairwise
from typing import Any

import psycopg
import pytest

from firnline.errors import EnvironmentFaultError
from firnline_dev.airflow_api import wait_until
from firnline_dev.postgres import Postgres
from tests.dags.conftest import Run
from tests.dags.operated import Operated
from tests.dags.zombies import (
    LONG,
    PARTITIONS,
    Hold,
    check_nothing_is_left,
    check_rows,
    drivers_of,
    fates,
    filled,
    hold,
    mortal_airflow,
)

TABLES = """
defaults:
  merge: {{schedule: null, kernel_memory: 256MiB}}
  ttl: null
  sort_by: [k]
  partition_by: [day(ts)]
  operations: [merge]
  spark: {{conf: {{spark.ui.enabled: false, spark.driver.memory: 600m}}}}
tables:
  shared: {{root: 'file://{folder}/shared'}}
  left: {{root: 'file://{folder}/left'}}
  right: {{root: 'file://{folder}/right'}}
"""
# Nothing but its pool keeps the runs of a table apart.
POLICY = """
def dag_policy(dag):
    dag.max_active_runs = 8
"""
ROWS = 2_000
RUNS = {"shared": 3, "left": 1, "right": 1}


@pytest.fixture(scope="module")
def database() -> Iterator[Postgres]:
    try:
        server = Postgres().__enter__()
    except EnvironmentFaultError as error:
        pytest.skip(str(error))
    yield server
    server.stop()


@pytest.fixture(scope="module")
def twins(tmp_path_factory: pytest.TempPathFactory, database: Postgres) -> Iterator[Operated]:
    home = tmp_path_factory.mktemp("twins")
    more = {"schedulers": 2, "database": database.address}
    with mortal_airflow(home, TABLES, POLICY, {}, **more) as found:
        yield found


def asked(database: Postgres, query: str) -> list[tuple[Any, ...]]:
    """Rows of Airflow's own tables."""
    with psycopg.connect(f"postgresql://{database.address}") as connection:
        return connection.execute(query.encode()).fetchall()


def test_two_schedulers_share_pools_and_each_group_is_committed_once(
    twins: Operated, database: Postgres
) -> None:
    tables = {name: filled(twins.table(name), 5, ROWS) for name in RUNS}
    runs = [
        twins.trigger("merge", name)
        for number in range(max(RUNS.values()))
        for name in RUNS
        if number < RUNS[name]
    ]
    # Held until all the others are planned too, so that every run has something to wait for.
    drivers = hold(twins, *(Hold(table, "reads") for table in tables.values()))
    assert wait_until(lambda: all(run.tasks["plan"] == "success" for run in runs), LONG)
    for name in RUNS:
        assert twins.stack.api.pools()[f"{name}.merge"]["occupied_slots"] == 1
        assert len(drivers_of(twins, name)) == 1
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
        check_rows(table, 5 * ROWS)
        check_nothing_is_left(table)
    assert alive_schedulers(database) == 2
    # Their loops took turns at the locks for all that time.
    query = "select count(distinct queued_by_job_id) from task_instance"
    assert asked(database, query) == [(2,)]


def alive_schedulers(database: Postgres) -> int:
    query = "select count(*) from job where job_type = 'SchedulerJob' and state = 'running'"
    return int(asked(database, query)[0][0])


def span(run: Run) -> tuple[datetime, datetime]:
    """From when to when its merge held the slot."""
    task = run.task("merge")
    assert (task["state"], task["try_number"], task["pool_slots"]) == ("success", 1, 1)
    return datetime.fromisoformat(task["start_date"]), datetime.fromisoformat(task["end_date"])
