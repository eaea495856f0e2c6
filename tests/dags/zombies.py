"""Spark drivers that outlive their tasks: finding, holding and waking them, and what must hold."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import duckdb
import psutil
import pytest

from firnline.log.txn_file import RunIdentity
from firnline.operations.operation import Work
from firnline.operations.options import SweepOptions, VerifyOptions
from firnline.operations.pools import pools_json
from firnline.operations.sweep.run import run_sweep
from firnline.operations.verify.run import run_verify
from firnline.settings.load import load_settings
from firnline.state.history import history
from firnline.state.snapshot import read_snapshot
from firnline.table import Table
from tests.dags.days import append_days, part_files, partition
from tests.dags.keeper import HOOKS
from tests.dags.maintained import SPARK, Maintained
from tests.dags.shared_stack import is_running
from tests.support.world import SetClock
from tools.airflow_api import wait_until
from tools.airflow_home import Config, StackOptions
from tools.airflow_stack import AirflowStack
from tools.databases import temporary_server

LONG = 600.0
"""Seconds: for a machine that does much else."""
DAYS = ("2024-03-01", "2024-03-02", "2024-03-03")
PARTITIONS = [partition(day) for day in DAYS]
_LATER_MS = 3 * 24 * 3_600_000
"""Longer than the grace of orphans."""


@contextmanager
def mortal_airflow(
    home: Path,
    tables: str,
    policy: str,
    config: Config,
    schedulers: int = 1,
    unwatched: Sequence[str] = (),
) -> Iterator[Maintained]:
    """An Airflow with a cluster policy of its own, whose drivers have hooks (driver_hooks).

    Args:
        home: an empty folder.
        tables: settings, with ``{folder}`` for where tables lie.
        policy: Python, of ``airflow_local_settings``.
        config: further settings of Airflow.
        schedulers: how many; more than one want PostgreSQL.
        unwatched: tables whose drivers do not notice that their supervisor is gone.
    """
    settings_file, folder = home / "tables.yaml", home / "tables"
    local = home / "home" / "config" / "airflow_local_settings.py"
    for each in (folder, local.parent):
        each.mkdir(parents=True)
    local.write_text(policy)
    settings_file.write_text(tables.format(folder=folder))
    (home / "pools.json").write_text(json.dumps(pools_json(load_settings(settings_file))))
    for table in unwatched:
        (home / f"{table}.unwatched").touch()
    server = temporary_server()
    if server is None and schedulers > 1:
        pytest.skip("several schedulers need PostgreSQL")
    options = StackOptions(
        env={
            "FIRNLINE_TABLES": str(settings_file),
            "FIRNLINE_TEST_DRIVERS": str(home),
            "PYTHONPATH": os.pathsep.join(filter(None, [str(HOOKS), os.environ.get("PYTHONPATH")])),
        },
        connections={"spark_default": {**SPARK, "host": "local[2]"}},
        pools=home / "pools.json",
        schedules=True,
        config=config,
        schedulers=schedulers,
    )
    with AirflowStack(home / "home", options, server) as stack:
        yield Maintained(stack, settings_file)


# --- drivers --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Driver:
    """A Spark application: its Python program, and the JVM that started it."""

    program: psutil.Process
    jvm: psutil.Process
    home: Path
    """Where it keeps what it says."""

    def signal(self, number: signal.Signals) -> None:
        """To all of it, first to the program, which is what commits."""
        send(number, [self.program, self.jvm, *self.jvm.children(recursive=True)])

    def sleeps_for_hours(self) -> None:
        """Have its clocks stand as after a suspension, from now on."""
        (self.home / f"{self.program.pid}.slept").touch()

    def ended(self) -> dict[str, Any]:
        """What it says in the end: a report, or an error under ``error``."""
        both = (self.program, self.jvm)
        assert wait_until(lambda: not any(map(is_running, both)), LONG), f"{both} do not end"
        lines = (self.home / f"{self.program.pid}.said").read_text().splitlines()
        assert not any("Traceback" in line for line in lines), lines
        told = [json.loads(line) for line in lines if line.startswith("{")]
        assert told, lines
        last: dict[str, Any] = told[-1]
        return last


def send(number: signal.Signals, processes: Sequence[psutil.Process]) -> None:
    """A signal to all that are still there."""
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(number)


def drivers_of(maintained: Maintained, table: str) -> list[Driver]:
    """The applications that work on a table."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        line = process.info["cmdline"] or []
        if table in line and any("spark_jobs/" in part for part in line):
            with contextlib.suppress(psutil.Error):
                parent = process.parent()
                if process.name() != "java" and parent is not None and parent.name() == "java":
                    found.append(Driver(process, parent, maintained.settings_file.parent))
    return found


def supervisor(driver: Driver) -> psutil.Process:
    """The process that runs and watches the task which has started the application."""
    found = task_of(driver).parent()
    assert found is not None
    assert "LocalExecutor" in _line(found)
    return found


def task_of(driver: Driver) -> psutil.Process:
    """The process of the task."""
    return next(p for p in driver.jvm.parents() if p.name() != "java" and "airflow" in _line(p))


def _line(process: psutil.Process) -> str:
    return " ".join(process.cmdline())


def kill(process: psutil.Process) -> None:
    """Until it is gone: what stands still while it is orphaned is sent a SIGHUP."""
    process.kill()
    while is_running(process):
        time.sleep(0.001)


# --- holding them ---------------------------------------------------------------------------------


@dataclass
class Hold:
    """A driver to be stopped at a point of its work."""

    table: Table
    point: Literal["reads", "works", "commits"] = "commits"
    """reads: it has planned, and its Python workers are about to start. works: the same, and it is
    not stopped (see ``endless``). commits: it has written a part and not committed it."""
    orphan: bool = False
    """Kill its task's supervisor, too."""
    besides: Sequence[Driver] = ()
    """Drivers that are not meant."""
    driver: Driver | None = None
    held: bool = False
    before: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.before = outputs(self.table)

    def look(self) -> None:
        """Stop the driver if it is there."""
        if self.driver is None or not self._is_there(self.driver):
            return
        if self.orphan:
            kill(supervisor(self.driver))
        if self.point != "works":
            self.driver.signal(signal.SIGSTOP)
        self.held = True
        assert history(self.table) == [], "it was quicker than the signal"

    def _is_there(self, driver: Driver) -> bool:
        if self.point != "commits":
            # Spark starts them with its first job: the plan has been made by then.
            return _has_workers(driver)
        return outputs(self.table) != self.before


def hold(maintained: Maintained, *wanted: Hold) -> list[Driver]:
    """Stop drivers, each at its point, whichever comes there first."""
    deadline = time.monotonic() + LONG
    while not all(each.held for each in wanted):
        _find(maintained, wanted)
        # A commit soon follows the parts; between a worker's start and its reading lie imports.
        hurry = any(each.driver and each.point == "commits" and not each.held for each in wanted)
        for _ in range(50 if hurry else 1):
            for each in wanted:
                if not each.held:
                    each.look()
            time.sleep(0.002 if hurry else 0.1 if all(each.driver for each in wanted) else 0.3)
        missing = [each.table.settings.name for each in wanted if not each.held]
        assert time.monotonic() < deadline, f"no driver of {missing} came to its point"
    return [each.driver for each in wanted if each.driver is not None]


@contextmanager
def endless(maintained: Maintained, table: str) -> Iterator[None]:
    """Have no kernel of a table come to its end meanwhile."""
    told = maintained.settings_file.parent / f"{table}.endless"
    told.touch()
    try:
        yield
    finally:
        told.unlink()


def _find(maintained: Maintained, wanted: Sequence[Hold]) -> None:
    """Give each a driver of its table that no other has."""
    for each in wanted:
        if each.driver is None:
            taken = [*each.besides, *(other.driver for other in wanted)]
            found = [d for d in drivers_of(maintained, each.table.settings.name) if d not in taken]
            each.driver = found[0] if found else None


def _has_workers(driver: Driver) -> bool:
    return any("firnline.spark.daemon" in _line_of(p) for p in driver.jvm.children())


def _line_of(process: psutil.Process) -> str:
    try:
        return _line(process)
    except psutil.Error:
        return ""


# --- tables ---------------------------------------------------------------------------------------


def filled(table: Table, appends: int, rows: int) -> Table:
    """The table with keys from 0 on every day, in so many appends of so many rows."""
    for number in range(appends):
        append_days(table, DAYS, rows, number * rows)
    return table


def outputs(table: Table) -> set[str]:
    """Keys of all objects of parts."""
    return {meta.key for meta in table.store.list(table.paths.data_dir)}


def fates(table: Table) -> list[str]:
    """Partitions of all transactions, one by one: nothing was done twice where each stands once."""
    headers = history(table)
    # No gap, and nothing that another transaction has taken the place of.
    assert [header.seq for header in headers] == list(range(len(headers), 0, -1))
    return sorted(p for header in headers for p in header.partitions)


def check_rows(table: Table, rows: int, first: int = 0) -> None:
    """Every key from ``first`` on stands once on every day in the live parts, and none besides."""
    paths = [str(path) for path in part_files(table, read_snapshot(table.store, table.paths).live)]
    found = duckdb.execute(
        "select ts::date::varchar as day, min(k), max(k), count(*), count(distinct k) "
        "from read_parquet($paths, hive_partitioning = false) group by day order by day",
        {"paths": paths},
    ).fetchall()
    assert found == [(day, first, first + rows - 1, rows, rows) for day in DAYS]


def check_nothing_is_left(table: Table, orphans: int = 0) -> None:
    """A check finds nothing, and a sweep nothing but what died; the log names all the rest.

    Args:
        table: which.
        orphans: objects that dead runs have left.
    """
    report = run_verify(Work(table), VerifyOptions(deep=True))
    assert report.healthy, report.findings
    snapshot = read_snapshot(table.store, table.paths, everything=True)
    assert len(outputs(table) - set(snapshot.parts)) == orphans
    clock = SetClock(table.clock.now_ms() + _LATER_MS)
    later, deleted = replace(table, clock=clock), 0
    for _ in range(2):  # what came after the last transaction is only marked by the first one
        time.sleep(1.1)  # S3 states whole seconds
        swept = run_sweep(Work(later, RunIdentity(user="test")), SweepOptions())
        assert swept.failed == 0
        deleted += swept.deleted
        clock.advance(_LATER_MS)
    assert deleted == orphans
    snapshot = read_snapshot(table.store, table.paths, everything=True)
    assert outputs(table) <= set(snapshot.parts)
    assert all(path.exists() for path in part_files(table, snapshot.live))
