"""A real Airflow whose DAGs wait for people and are backfilled, with tables by day."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from firnline.append import Appender
from firnline.pools import pools_json
from firnline.settings import load_settings
from firnline.snapshot import read_snapshot
from firnline.table import Table, open_table
from firnline_dev.airflow_api import wait_until
from firnline_dev.airflow_home import Config, StackOptions
from firnline_dev.airflow_stack import AirflowStack
from firnline_dev.bootstrap import REPO
from tests.dags.conftest import SPARK, Run
from tests.dags.databases import metadata_database

_A_PERSON_S = 2.0
"""Seconds until the quickest of them answers."""
DAYS = tuple(f"2024-03-{day:02d}" for day in range(1, 8))
TABLES = """
defaults:
  merge: {{schedule: null, kernel_memory: 256MiB}}
  ttl: null
  sort_by: [k]
  partition_by: [day(ts)]
  spark: {{conf: {{spark.ui.enabled: false, spark.driver.memory: 600m}}}}
tables:
  removed: {{root: 'file://{folder}/removed', operations: [remove_partitions]}}
  rewritten: {{root: 'file://{folder}/rewritten', operations: [rewrite_partitions]}}
  erased: {{root: 'file://{folder}/erased', operations: [erase, delete_where]}}
  swept: {{root: 'file://{folder}/swept', operations: [orphan_sweep]}}
"""


@dataclass
class Operated:
    """The stack and its tables."""

    stack: AirflowStack
    settings_file: Path

    def table(self, name: str) -> Table:
        """The table, seen from this process."""
        return open_table(load_settings(self.settings_file).table(name))

    def trigger(self, operation: str, table: str, conf: dict[str, Any] | None = None) -> Run:
        """Start a run by hand."""
        dag_id = f"{operation}__{table}"
        return Run(self.stack, dag_id, self.stack.api.trigger(dag_id, conf))

    def question(self, run: Run, task: str, seconds: float = 60) -> dict[str, Any]:
        """What a person is asked by a task, once it waits."""
        waits = wait_until(lambda: run.tasks.get(task) in ("awaiting_input", "failed"), seconds)
        assert waits, f"{task} does not wait: {run.tasks}"
        # Airflow 3.3.2 takes a task for killed that goes on before its executor has noticed that
        # it paused. No person is as quick as that.
        time.sleep(_A_PERSON_S)
        asked: dict[str, Any] = self.stack.api.call("GET", _details(run, task))
        return asked

    def answer(self, run: Run, task: str, *options: str) -> None:
        """What the form under "Required actions" sends."""
        self.stack.api.call("PATCH", _details(run, task), {"chosen_options": list(options)})


def _details(run: Run, task: str) -> str:
    return f"/dags/{run.dag_id}/dagRuns/{run.run_id}/taskInstances/{task}/-1/hitlDetails"


def append_days(table: Table, days: Iterable[str], rows: int = 20, first: int = 0) -> None:
    """One append with ``rows`` rows (keys from ``first``) on every day: a part for each."""
    columns: dict[str, list[Any]] = {"k": [], "ts": []}
    for day in days:
        columns["k"] += range(first, first + rows)
        columns["ts"] += [datetime.fromisoformat(f"{day}T06:00").replace(tzinfo=UTC)] * rows
    kinds = {"k": pa.int64(), "ts": pa.timestamp("us", "UTC")}
    Appender(table).append(
        pa.table({name: pa.array(values, kinds[name]) for name, values in columns.items()})
    )


def rows_by_day(table: Table) -> dict[str, int]:
    """Rows of the live parts by day."""
    return dict(sorted(Counter(day for _, day in rows_of(table)).items()))


def rows_of(table: Table) -> list[tuple[int, str]]:
    """(k, day) of every row in live parts, read without the code under test."""
    found: list[tuple[int, str]] = []
    for path in part_files(table, read_snapshot(table.store, table.paths).live):
        read = pq.read_table(path, columns=["k", "ts"], partitioning=None)
        days = [value.date().isoformat() for value in read["ts"].to_pylist()]
        found += zip(read["k"].to_pylist(), days, strict=True)
    return sorted(found)


def part_files(table: Table, keys: Iterable[str]) -> list[Path]:
    """Files of parts of a table in a folder."""
    folder = Path(table.settings.root.removeprefix("file://"))
    return [folder.parent / key for key in keys]


def partition(day: str) -> str:
    """Its directory."""
    return f"ts_day={day}"


@contextmanager
def running(
    home: Path,
    tables: str = TABLES,
    config: Config | None = None,
    env: Mapping[str, str] | None = None,
    **more: Any,
) -> Iterator[Operated]:
    """The stack, with everything it writes below ``home``.

    Args:
        home: an empty folder, but for Airflow's own ``home/config``.
        tables: settings, with ``{folder}`` for where tables lie.
        config: further settings of Airflow.
        env: further variables of all its processes.
        more: as for StackOptions.
    """
    settings_file, folder = home / "tables.yaml", home / "tables"
    folder.mkdir()
    settings_file.write_text(tables.format(folder=folder))
    (home / "pools.json").write_text(json.dumps(pools_json(load_settings(settings_file))))
    with metadata_database(more.pop("database", None)) as database:
        options = StackOptions(
            dags=REPO / "dags",
            env={"FIRNLINE_TABLES": str(settings_file), **(env or {})},
            connections={"spark_default": SPARK},
            pools=home / "pools.json",
            schedules=True,
            config=config or {},
            database=database,
            **more,
        )
        with AirflowStack(home / "home", options) as stack:
            yield Operated(stack, settings_file)
