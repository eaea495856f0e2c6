"""CPU of an Airflow whose tables have nothing to do, by process, with Airflow's own intervals.

    python -m benchmarks.idle [--tables 300] [--minutes 10] [--setting 'own_dags: all']

A real Airflow (PostgreSQL, LocalExecutor) that keeps the schedules of the DAGs, with so many tables
as files, all operations, each table with a ``ttl``. It is watched from the moment at which all DAGs
are known: for a while that counts as the first deployment, then for the minutes that were asked
for, which are extrapolated to an hour. The hourly run of the planner is added: it is started by
hand and measured by itself.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from benchmarks.measure import load_average, tree
from firnline.appends.append import Appender
from firnline.operations.pools import pools_json
from firnline.settings.load import load_settings
from firnline.table import open_table
from tools.airflow_api import ENDED, wait_until
from tools.airflow_home import StackOptions
from tools.airflow_stack import AirflowStack
from tools.bootstrap import REPO
from tools.databases import migrated_template
from tools.postgres import Postgres

CACHE = REPO / ".cache" / "bench" / "idle"
SETTLE_S = 120.0
"""Seconds that count as the first deployment."""
PLANNER = "fleet__merge"
AIRFLOWS_OWN: dict[str, dict[str, object]] = {
    "core": {"parallelism": 32, "dags_are_paused_at_creation": True},
    "scheduler": {
        "scheduler_idle_sleep_time": 1,
        "scheduler_heartbeat_sec": 5,
        "job_heartbeat_sec": 5,
    },
    "dag_processor": {
        "refresh_interval": 300,
        "bundle_refresh_check_interval": 5,
        "min_file_process_interval": 30,
        "parsing_processes": 2,
    },
    "workers": {"min_heartbeat_interval": 5},
}
"""Airflow's defaults, where a stack of ours has others."""


@dataclass(frozen=True)
class Tables:
    """So many tables, each with one row."""

    folder: Path
    count: int
    setting: str

    @property
    def settings(self) -> Path:
        """The settings file."""
        return self.folder / "tables.yaml"

    def make(self) -> None:
        """Write settings, pools and tables."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        names = [f"t{number:04}" for number in range(self.count)]
        rows = [f"  {name}: {{root: 'file://{self.folder}/tables/{name}'}}" for name in names]
        head = ["defaults:", "  partition_by: [day(ts)]", "  ttl: {keep: 36500d}"]
        head += [f"  {self.setting}"] if self.setting else []
        self.settings.write_text("\n".join([*head, "tables:", *rows, ""]), encoding="utf-8")
        settings = load_settings(self.settings)
        pools = json.dumps(pools_json(settings))
        (self.folder / "pools.json").write_text(pools, encoding="utf-8")
        now = pa.array([time.time_ns() // 1000], pa.timestamp("us"))
        for table in settings.tables.values():
            Appender(open_table(table)).append(pa.table({"id": [1], "ts": now}))

    def options(self, database: str) -> StackOptions:
        """How the Airflow is started."""
        return StackOptions(
            env={"FIRNLINE_TABLES": str(self.settings)},
            pools=self.folder / "pools.json",
            database=database,
            schedules=True,
            triggerer=True,
            config=AIRFLOWS_OWN,
        )


def used(stack: AirflowStack) -> dict[str, float]:
    """CPU seconds of each component so far, with its processes that have ended."""
    of = {pid: name for name, pid in stack.programs.pids.items()}
    roots = {pid: name for root, name in of.items() for pid in tree(root)}
    found: dict[str, float] = defaultdict(float)
    for pid in tree(os.getpid())[1:]:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it ended meanwhile, and its parent has its time
        ticks = sum(map(int, fields[11:15]))
        found[roots.get(pid, "database")] += ticks / os.sysconf("SC_CLK_TCK")
    return dict(found)


def since(before: Mapping[str, float], now: Mapping[str, float]) -> dict[str, float]:
    """What was used in between."""
    return {name: seconds - before.get(name, 0.0) for name, seconds in now.items()}


def show(what: str, spent: Mapping[str, float], factor: float = 1.0) -> None:
    """Print a row of CPU seconds."""
    each = ", ".join(f"{name} {s * factor:.1f}" for name, s in sorted(spent.items()))
    print(f"{what}: {sum(spent.values()) * factor:.1f} CPU s ({each})", flush=True)


def runs(stack: AirflowStack) -> int:
    """How many runs there are."""
    return int(stack.api.call("GET", "/dags/~/dagRuns?limit=1")["total_entries"])


def dags(stack: AirflowStack) -> int:
    """How many DAGs Airflow knows."""
    return int(stack.api.call("GET", "/dags?limit=1")["total_entries"])


def wait_parsed(stack: AirflowStack) -> None:
    """Wait until no more DAGs come."""
    seen = -1
    while True:
        time.sleep(20)
        count = dags(stack)
        if count == seen and count > 0:
            return
        seen = count


def plan(stack: AirflowStack) -> None:
    """Let the planner run once."""
    body: dict[str, object] = {"logical_date": None, "conf": {}}
    run_id = stack.api.call("POST", f"/dags/{PLANNER}/dagRuns", body)["dag_run_id"]
    wait_until(lambda: stack.api.run_state(PLANNER, run_id) in ENDED, 600, every=1.0)
    print("planner:", json.dumps(stack.api.xcom(PLANNER, run_id, "plan"))[:300], flush=True)


def watch(stack: AirflowStack, minutes: float) -> None:
    """Print the figures."""
    wait_parsed(stack)
    show(f"until {dags(stack)} DAGs are known", used(stack))
    before = used(stack)
    time.sleep(SETTLE_S)
    show(f"first {SETTLE_S:.0f} s after that, {runs(stack)} runs", since(before, used(stack)))
    before, already = used(stack), runs(stack)
    time.sleep(minutes * 60)
    spent = since(before, used(stack))
    show(
        f"an hour, from {minutes:g} minutes with {runs(stack) - already} runs", spent, 60 / minutes
    )
    before, began = used(stack), time.perf_counter()
    plan(stack)
    seconds = time.perf_counter() - began
    show(f"while the planner runs, {seconds:.0f} s", since(before, used(stack)))


def main() -> None:
    """See the module's docstring."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.idle")
    parser.add_argument("--tables", type=int, default=300)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--setting", default="", help="a line of the defaults")
    given = parser.parse_args()
    tables = Tables(CACHE, given.tables, given.setting)
    tables.make()
    print(f"{given.tables} tables, load {load_average():.1f}", flush=True)
    with Postgres(migrated_template()) as server:
        stack = AirflowStack(tables.folder / "home", tables.options(server.address))
        with stack:
            watch(stack, given.minutes)
    print(f"load {load_average():.1f}")


if __name__ == "__main__":
    main()
