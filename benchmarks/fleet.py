"""CPU of an hour in which most tables have nothing to merge: one planner against a plan of each.

    python -m benchmarks.fleet [--idle 1000] [--busy 50] [--sample 40]

A real Airflow (LocalExecutor, one task at a time) with all these tables as files, and their merge
DAGs. Measured is all of it, API server and database too, while it works and while it rests: on a
machine that others use, what it takes at rest is a smaller part of longer times.

* before: ``--sample`` runs of merge DAGs that find nothing to do; an hour is extrapolated from them
  to all tables. They are started by the API instead of a clock.
* after: one run of ``fleet__merge``. The merges that it starts wait for the one slot, and are not
  measured.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from benchmarks.measure import load_average, tree
from firnline.appends.append import Appender
from firnline.errors import UsageError
from firnline.operations.pools import pools_json
from firnline.settings.load import load_settings
from firnline.table import open_table
from tools.airflow_api import ENDED, wait_until
from tools.airflow_home import StackOptions
from tools.airflow_stack import AirflowStack
from tools.bootstrap import REPO
from tools.databases import migrated_template
from tools.postgres import Postgres

CACHE = REPO / ".cache" / "bench" / "fleet"
BUSY_PARTS = 8
REST_S = 30.0
DAGS = ("all_tables.py", "own_dags.py")
NO_REPARSE = {"refresh_interval": 86_400, "min_file_process_interval": 86_400}


@dataclass(frozen=True)
class Fleet:
    """The tables, of which the first are idle."""

    folder: Path
    idle: int
    busy: int

    @property
    def settings(self) -> Path:
        return self.folder / "tables.yaml"

    @property
    def names(self) -> list[str]:
        return [f"t{number:04}" for number in range(self.idle + self.busy)]

    def make(self) -> None:
        """Write settings, DAG files, pools and tables."""
        shutil.rmtree(self.folder, ignore_errors=True)
        (self.folder / "dags").mkdir(parents=True)
        for name in DAGS:
            (self.folder / "dags" / name).symlink_to(REPO / "dags" / name)
        rows = [f"  {name}: {{root: 'file://{self.folder}/tables/{name}'}}" for name in self.names]
        given = "{operations: [merge], own_dags: [merge]}"
        head = ["fleet: {schedule: null}", f"defaults: {given}", "tables:"]
        self.settings.write_text("\n".join([*head, *rows, ""]))
        settings = load_settings(self.settings)
        (self.folder / "pools.json").write_text(json.dumps(pools_json(settings)))
        for number, table in enumerate(settings.tables.values()):
            appender = Appender(open_table(table))
            for row in range(1 if number < self.idle else BUSY_PARTS):
                appender.append(pa.table({"id": [row], "name": [f"row {row}"]}))

    def options(self, database: str) -> StackOptions:
        return StackOptions(
            dags=self.folder / "dags",
            env={"FIRNLINE_TABLES": str(self.settings)},
            pools=self.folder / "pools.json",
            database=database,
            config={
                "core": {"parallelism": 1, "dagbag_import_timeout": 300},
                "dag_processor": {**NO_REPARSE, "dag_file_processor_timeout": 300},
            },
        )


@dataclass(frozen=True)
class Cost:
    """Wall time, and CPU of all processes of the stack."""

    seconds: float
    cpu_seconds: float
    at_rest: float = 0.0
    """CPU seconds a second that the stack takes with nothing to do."""

    def times(self, factor: float) -> Cost:
        """What so many times as much would cost."""
        return Cost(self.seconds * factor, self.cpu_seconds * factor, self.at_rest)

    def __str__(self) -> str:
        beyond = self.cpu_seconds - self.at_rest * self.seconds
        cpu = f"{self.cpu_seconds:.1f} CPU s, {beyond:.1f} of them beyond rest"
        return f"{self.seconds:.1f} s of wall time, {cpu}"


def cpu_seconds() -> float:
    """CPU of all descendants of this process so far, those included that have ended."""
    ticks = 0
    for pid in tree(os.getpid())[1:]:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it ended meanwhile, and its parent has its time
        ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def cost(act: Callable[[], object], at_rest: float = 0.0) -> Cost:
    """What the stack takes until this has happened."""
    began, used = time.perf_counter(), cpu_seconds()
    act()
    seconds = time.perf_counter() - began
    return Cost(seconds, cpu_seconds() - used, at_rest)


class Measured:
    """A stack with the tables of a fleet."""

    def __init__(self, fleet: Fleet, stack: AirflowStack) -> None:
        self.fleet, self.api = fleet, stack.api

    def wait_parsed(self) -> None:
        def known() -> bool:
            try:
                for name in ("fleet__merge", f"merge__{self.fleet.names[-1]}"):
                    self.api.call("GET", f"/dags/{name}")
            except UsageError:
                return False
            return True

        if not wait_until(known, every=2.0):
            raise SystemExit(f"the DAGs are not known: {self.api.import_errors()}")

    def run(self, dag_id: str) -> str:
        body: dict[str, object] = {"logical_date": None, "conf": {}}
        run_id: str = self.api.call("POST", f"/dags/{dag_id}/dagRuns", body)["dag_run_id"]
        return run_id

    def plan_each(self, count: int) -> None:
        """Let merge DAGs of idle tables run until they have ended."""
        began = {f"merge__{name}": "" for name in self.fleet.names[:count]}
        for dag_id in began:
            began[dag_id] = self.run(dag_id)
        for dag_id, run_id in began.items():
            self.wait_ended(dag_id, run_id)

    def wait_ended(self, dag_id: str, run_id: str) -> None:
        # A question costs the API server 20 ms.
        wait_until(lambda: self.api.run_state(dag_id, run_id) in ENDED, every=1.0)

    def plan_all(self) -> dict[str, object]:
        """Let the planner run; its figures."""
        run_id = self.run("fleet__merge")
        self.wait_ended("fleet__merge", run_id)
        (task,) = self.api.tasks("fleet__merge", run_id)
        figures = self.api.xcom("fleet__merge", run_id, "plan")
        started = len(figures["started"]) if "started_in_all" not in figures else None
        return {
            "tables": figures["tables"],
            "idle": figures["idle"],
            "started": figures.get("started_in_all", started),
            "task seconds": task["duration"],
        }


def main() -> None:
    """See the module's docstring."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fleet")
    parser.add_argument("--idle", type=int, default=1_000)
    parser.add_argument("--busy", type=int, default=50)
    parser.add_argument("--sample", type=int, default=40)
    given = parser.parse_args()
    fleet = Fleet(CACHE, given.idle, given.busy)
    fleet.make()
    print(f"load {load_average():.1f}", flush=True)
    with Postgres(migrated_template()) as server:
        stack = AirflowStack(fleet.folder / "home", fleet.options(server.address))
        with stack:
            measure(fleet, stack, given.sample)
    print(f"load {load_average():.1f}")


def measure(fleet: Fleet, stack: AirflowStack, sample: int) -> None:
    """Print what each costs."""
    measured, figures = Measured(fleet, stack), {}
    measured.wait_parsed()
    print("all DAGs are known", flush=True)
    time.sleep(20)  # until the DAG processor has written down the last of them
    measured.plan_each(2)  # the first run of anything imports more than later ones
    at_rest = cost(lambda: time.sleep(REST_S)).cpu_seconds / REST_S
    print(f"at rest: {at_rest:.2f} CPU s a second", flush=True)
    before = cost(lambda: measured.plan_each(sample), at_rest)
    tables = fleet.idle + fleet.busy
    factor = tables / sample
    print(f"before, {sample} runs of merge DAGs with nothing to do: {before}", flush=True)
    print(f"before, {tables} of them, extrapolated: {before.times(factor)}", flush=True)
    after = cost(lambda: figures.update(measured.plan_all()), at_rest)
    print(f"after, one run of fleet__merge: {after}; {figures}", flush=True)


if __name__ == "__main__":
    main()
