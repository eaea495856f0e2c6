"""A task's supervisor dies, its Spark driver lives on, and the retry starts beside it."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass

import psutil
import pytest

from firnline.history import history
from firnline.snapshot import read_snapshot
from firnline.table import Table
from firnline_dev.airflow_api import wait_until
from tests.dags.conftest import Run
from tests.dags.operated import Operated, append_days, part_files, partition, rows_of, running

TABLES = """
defaults:
  merge: {{schedule: null, kernel_memory: 256MiB}}
  ttl: null
  sort_by: [k]
  partition_by: [day(ts)]
  spark: {{conf: {{spark.ui.enabled: false, spark.driver.memory: 600m}}}}
tables:
  merged: {{root: 'file://{folder}/merged', operations: [merge]}}
  queried: {{root: 'file://{folder}/queried', operations: [rewrite_partitions]}}
"""
# The retry comes at once, and a supervisor that is silent is dead after seconds, not minutes.
POLICY = """
from datetime import timedelta


def task_policy(task):
    task.retry_delay = timedelta(seconds=1)
"""
CONFIG = {
    "scheduler": {
        "task_instance_heartbeat_timeout": 20,
        "task_instance_heartbeat_timeout_detection_interval": 2,
        "task_instance_heartbeat_sec": 2,
    }
}
DAYS = ("2024-03-01", "2024-03-02", "2024-03-03")
ROWS = 60_000
_LONG = 300.0
"""Seconds: for a machine that does much else."""


@pytest.fixture(scope="module")
def mortal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operated]:
    """An Airflow that notices a dead supervisor within seconds."""
    home = tmp_path_factory.mktemp("zombies")
    local = home / "home" / "config" / "airflow_local_settings.py"
    local.parent.mkdir(parents=True)
    local.write_text(POLICY)
    with running(home, TABLES, CONFIG) as found:
        yield found


@dataclass(frozen=True)
class Driver:
    """A Spark application: its Python program, and the JVM that started it."""

    program: psutil.Process
    jvm: psutil.Process

    def signal(self, number: signal.Signals) -> None:
        """To all of it, first to the program, which is what commits."""
        for process in (self.program, self.jvm, *self.jvm.children(recursive=True)):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(number)


def driver_of(table: str, besides: set[int]) -> Driver | None:
    """The application that works on a table and whose program is none of ``besides``."""
    for process in psutil.process_iter(["cmdline"]):
        line = process.info["cmdline"] or []
        mine = table in line and any("spark_jobs/" in part for part in line)
        if mine and process.pid not in besides:
            with contextlib.suppress(psutil.Error):
                parent = process.parent()
                if process.name() != "java" and parent is not None and parent.name() == "java":
                    return Driver(process, parent)
    return None


def outputs(table: Table) -> set[str]:
    return {meta.key for meta in table.store.list(table.paths.data_dir)}


def held_before_its_commit(table: Table, besides: set[int], *, orphan: bool = False) -> Driver:
    """A driver that has written a part and not committed it, held right there.

    Args:
        table: what it works on.
        besides: programs that are not meant.
        orphan: kill its task's supervisor, too.
    """
    before = outputs(table)
    found: list[Driver] = []

    def starts() -> bool:
        found.extend(filter(None, [driver_of(table.settings.name, besides)]))
        return bool(found)

    assert wait_until(starts, _LONG), f"no driver works on {table.settings.name}"
    driver, deadline = found[0], time.monotonic() + _LONG
    killed = supervisor(driver.jvm) if orphan else None
    while outputs(table) == before:
        assert time.monotonic() < deadline, f"no part of {table.settings.name} was written"
        time.sleep(0.002)
    if killed is not None:
        # First, and until it is gone: what stands still while it is orphaned is sent a SIGHUP.
        killed.kill()
        while killed.is_running() and killed.status() != psutil.STATUS_ZOMBIE:
            time.sleep(0.001)
    driver.signal(signal.SIGSTOP)
    assert history(table) == [], "it was quicker than the signal"
    return driver


def supervisor(jvm: psutil.Process) -> psutil.Process:
    """The process that runs and watches the task which has started the application."""
    task = next(p for p in jvm.parents() if p.name() != "java" and "airflow" in _line(p))
    found = task.parent()
    assert found is not None
    assert "LocalExecutor" in _line(found)
    return found


def _line(process: psutil.Process) -> str:
    return " ".join(process.cmdline())


def two_at_once(operated: Operated, run: Run, task: str, table: Table) -> None:
    """Both drivers have parts written, none has committed; then both go on to their end."""
    first = held_before_its_commit(table, set(), orphan=True)
    assert wait_until(lambda: run.task(task)["try_number"] == 2, _LONG), run.tasks
    second = held_before_its_commit(table, {first.program.pid})
    assert first.program.is_running(), "there is no zombie"
    for driver in (first, second):
        driver.signal(signal.SIGCONT)
    _, alive = psutil.wait_procs([first.program, second.program], timeout=_LONG)
    assert not alive


def fates(table: Table) -> list[str]:
    """Partitions of all transactions, one by one: each of them once."""
    return sorted(p for header in history(table) for p in header.partitions)


def check_nothing_is_left(table: Table) -> None:
    """Every object is named by the log: the loser has taken its parts back."""
    snapshot = read_snapshot(table.store, table.paths, everything=True)
    assert outputs(table) - set(snapshot.parts) == set()
    assert all(path.exists() for path in part_files(table, snapshot.live))


def test_a_merge_beside_its_own_zombie_doubles_and_loses_no_row(mortal: Operated) -> None:
    table = mortal.table("merged")
    for number in range(5):
        append_days(table, DAYS, ROWS, number * ROWS)
    rows = rows_of(table)
    run = mortal.trigger("merge", "merged")
    two_at_once(mortal, run, "merge", table)
    assert run.ended(_LONG).state == "success", run.log("merge")
    assert rows_of(table) == rows
    assert fates(table) == [partition(day) for day in DAYS]
    assert len(read_snapshot(table.store, table.paths).live) == len(DAYS)
    assert run.xcom("report")["partitions"] == [partition(day) for day in DAYS]
    assert {header.run.run_id for header in history(table)} == {run.run_id}
    check_nothing_is_left(table)


def test_a_rewrite_beside_its_own_zombie_applies_its_query_once(mortal: Operated) -> None:
    table = mortal.table("queried")
    append_days(table, DAYS, 4 * ROWS)
    rows = rows_of(table)
    conf = {
        "partitions": ["*"],
        "sql": "select * replace (k + 1000000 as k) from _rows",
        "dry_run": False,
    }
    run = mortal.trigger("rewrite_partitions", "queried", conf)
    two_at_once(mortal, run, "rewrite_partitions", table)
    assert run.ended(_LONG).state == "success", run.log("rewrite_partitions")
    assert rows_of(table) == sorted((k + 1_000_000, day) for k, day in rows)
    assert fates(table) == [partition(day) for day in DAYS]
    check_nothing_is_left(table)
