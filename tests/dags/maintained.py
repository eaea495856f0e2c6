"""An Airflow and the tables that it maintains, as the tests see them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from firnline.log.txn_file import RunIdentity
from firnline.operations.cleanup.run import run_cleanup
from firnline.operations.dag_ids import ERASE_PERSON, FLEET, RunOf, run_of
from firnline.operations.operation import Work
from firnline.operations.options import CleanupOptions
from firnline.settings.load import load_settings
from firnline.store.access import StoreAccess
from firnline.table import Table, open_table
from tests.dags.databases import all_rows
from tools.airflow_api import ENDED, HUNG_SECONDS, NEARBY_SECONDS, wait_until
from tools.airflow_stack import AirflowStack
from tools.s3server import S3Server

SPARK = {"conn_type": "spark", "host": "local[1]", "extra": {"deploy-mode": "client"}}


@dataclass
class Run:
    """A run of a DAG."""

    stack: AirflowStack
    dag_id: str
    run_id: str

    def ended(self) -> Run:
        """Return itself, once it has ended."""
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


def files_in(folder: Path) -> Iterator[tuple[str, bytes]]:
    """All files that stay long enough to be read: others write meanwhile."""
    for path in folder.rglob("*"):
        with suppress(FileNotFoundError):
            if path.is_file():
                yield str(path), path.read_bytes()


@dataclass
class Maintained:
    """The stack and its tables."""

    stack: AirflowStack
    settings_file: Path
    server: S3Server | None = None
    """None on a machine that cannot build one: then all tables are files."""

    def table(self, name: str) -> Table:
        """The table, seen from this process."""
        settings = load_settings(self.settings_file).table(name)
        if self.server is None or not settings.root.startswith("s3:"):
            return open_table(settings)
        return open_table(settings, StoreAccess.from_env(self.server.env()))

    def start(
        self, operation: str, table: str, conf: Mapping[str, Any] | None = None, /, **params: Any
    ) -> Run:
        """Start a run by hand, with params from both."""
        run = self._run_of(operation, table)
        given = {**run.conf, **(conf or {}), **params}
        return Run(self.stack, run.dag_id, self.stack.api.trigger(run.dag_id, given))

    def plan_fleet(self, **params: Any) -> Run:
        """Start the planner by hand, and wait for its end."""
        return Run(self.stack, FLEET, self.stack.api.trigger(FLEET, params)).ended()

    def erase_people(self, **params: Any) -> Run:
        """Start a run for all requests of erasure by hand."""
        return Run(self.stack, ERASE_PERSON, self.stack.api.trigger(ERASE_PERSON, params))

    def _run_of(self, operation: Any, table: str) -> RunOf:
        return run_of(operation, load_settings(self.settings_file).table(table))

    def merge(self, table: str, conf: Mapping[str, Any] | None = None) -> Run:
        """Start a merge by hand."""
        return self.start("merge", table, conf)

    def runs(self, table: str, kind: str) -> list[Run]:
        """Merges of a kind (``scheduled``, ``asset_triggered``), oldest first."""
        of = self._run_of("merge", table)
        found = self.stack.api.runs(of.dag_id)
        return [
            Run(self.stack, of.dag_id, run["dag_run_id"])
            for run in found
            if run["run_type"] == kind and of.conf.items() <= run["conf"].items()
        ]

    def first_run(self, table: str, kind: str, seen: int = 0) -> Run:
        """Wait for a merge of a kind beyond those that were seen, and for its end."""
        assert wait_until(lambda: len(self.runs(table, kind)) > seen), f"no run is {kind}"
        return self.runs(table, kind)[seen].ended()

    def kept(self) -> dict[str, bytes]:
        """Return all that this Airflow has stored: files of its home, and rows of its database."""
        found = dict(files_in(self.stack.home))
        if (database := self.stack.options.database) is not None:
            rows = enumerate(all_rows(database))
            found |= {f"row {number} of {table}": row.encode() for number, (table, row) in rows}
        return found

    @contextmanager
    def held(self, table: str) -> Iterator[None]:
        """Have the drivers of a table wait meanwhile, before they do anything."""
        told = self.settings_file.parent / f"{table}.held"
        told.touch()
        try:
            yield
        finally:
            told.unlink()

    @property
    def told(self) -> list[dict[str, Any]]:
        """What the notifier was told, oldest first."""
        file = self.settings_file.parent / "tables" / "told"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    # --- people -----------------------------------------------------------------------------------

    def question(self, run: Run, task: str) -> dict[str, Any]:
        """What a person is asked by a task, once it waits."""
        # Airflow 3.3.2 takes a task for killed that goes on before its executor has heard that it
        # paused. No person is as quick as that.
        assert wait_until(lambda: self._is_paused(run, task), HUNG_SECONDS, NEARBY_SECONDS), (
            f"{task} does not wait: {run.tasks}"
        )
        asked: dict[str, Any] = self.stack.api.call("GET", _details(run, task))
        return asked

    def answer(self, run: Run, task: str, *options: str) -> None:
        """What the form under "Required actions" sends."""
        self.stack.api.call("PATCH", _details(run, task), {"chosen_options": list(options)})

    def _is_paused(self, run: Run, task: str) -> bool:
        """Whether the scheduler has written down that its executor is done with the task."""
        said = f"TaskInstance Finished: dag_id={run.dag_id}, task_id={task}, run_id={run.run_id},"
        logs = sorted(self.stack.programs.logs.glob("scheduler*.log"))
        lines = [line for log in logs for line in _lines(log) if said in line]
        assert not lines or "state=awaiting_input" in lines[-1], f"{task} does not wait: {lines}"
        return bool(lines)


def wait_due(table: Table, parts: int) -> None:
    """Wait until a clean-up would delete so many parts: their grace is over."""

    def due() -> bool:
        run = RunIdentity(dag_id="by hand")
        return run_cleanup(Work(table, run), CleanupOptions(dry_run=True)).parts == parts

    assert wait_until(due, every=NEARBY_SECONDS), f"{parts} parts are never due"


def _lines(file: Path) -> list[str]:
    return file.read_text(encoding="utf-8", errors="replace").splitlines()


def _details(run: Run, task: str) -> str:
    return f"/dags/{run.dag_id}/dagRuns/{run.run_id}/taskInstances/{task}/-1/hitlDetails"
