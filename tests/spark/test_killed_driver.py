"""The driver of a Spark job, a process of its own, is killed with SIGKILL at its store calls.

`make test-full` hits every call, before and after it; `make test` few of them, and always the
commit. Then the operation runs again, and the table has to come right as in ``tests/crash``.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from firnline.clock import SystemClock
from firnline.store.client import open_store
from tests.support import operations
from tests.support.effort import sample
from tests.support.jobs import Jobs, run_job
from tests.support.places import NAME, FolderPlace
from tests.support.scenarios import Call, Scenario
from tests.support.sweeping import Start, come_right, days_later, half_way, lay_out
from tests.support.world import FaultyStore, SetClock
from tools.bootstrap import REPO

HOOKS = REPO / "tests" / "support" / "kill_hooks"


@dataclass
class Driver:
    """Runs a job of ``spark_jobs/`` on a scenario's table."""

    start: Start
    job: str
    options: dict[str, object]
    folder: Path
    settings: dict[str, object] = field(default_factory=dict)
    """Of the table, instead of the scenario's."""

    @property
    def calls(self) -> list[str]:
        """Store calls of the driver alone: those of its kernels are in other processes.

        It begins with a look whether there is a table (``Operation.require_table``).
        """
        look = next(call for call in self.start.calls if call.startswith("list "))
        assert "/_log/" in look
        return [look, *(call for call in self.start.calls if "/_data/" not in call)]

    def killed(self, call: Call, kill: str, *, submit: bool = False) -> tuple[int, list[str]]:
        """Exit code and store calls of a process that is killed."""
        calls = self.folder / "calls"
        calls.write_text("")
        done = run_job(
            self.job,
            *self.arguments(call),
            "--master=local[1]",
            env={
                "PYTHONPATH": str(HOOKS),
                "FIRNLINE_TEST_CALLS": str(calls),
                "FIRNLINE_TEST_KILL_AT": kill,
            },
            submit="local[1]" if submit else None,
        )
        self.present(call)
        return done.code, calls.read_text().splitlines()

    def clean(self, call: Call, jobs: Jobs) -> list[str]:
        """Store calls of a driver that comes to its end, in this process."""
        stores: list[FaultyStore] = []

        def noting(*arguments: Any, **named: Any) -> FaultyStore:
            stores.append(FaultyStore(open_store(*arguments, **named)))
            return stores[-1]

        done = jobs.run(self.job, *self.arguments(call), open_store=noting)
        assert done.code == 0, done.err
        self.present(call)
        (store,) = stores
        return store.calls

    def arguments(self, call: Call) -> list[str]:
        """Arguments of the job, whose settings are written down."""
        settings = self.folder / "tables.yaml"
        table = call.table.settings.model_dump(exclude_defaults=True, exclude={"name"}, mode="json")
        settings.write_text(json.dumps({"tables": {NAME: {**table, **self.settings}}}))
        return [
            *(NAME, f"--settings={settings}", f"--options={json.dumps(self.options)}"),
            *(f"--scratch={self.folder / 'spark'}", f"--dag-id={call.run.dag_id}"),
            *(f"--run-id={call.run.run_id}", "--try-number=1"),
        ]

    @staticmethod
    def environment(hooks: Path, **variables: str) -> dict[str, str]:
        """Environment of a driver that has hooks, and is given variables."""
        kept = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        paths = os.pathsep.join(filter(None, [str(hooks), kept.get("PYTHONPATH")]))
        return {**kept, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": paths, **variables}

    @staticmethod
    def present(call: Call) -> None:
        """Set the clock of a scenario after a driver that had the machine's."""
        assert isinstance(call.table.clock, SetClock)
        call.table.clock.now = SystemClock().now_ms()

    def dies(self, kill: str, *, submit: bool = False) -> None:
        """Kill a run; the next comes to the right end, and days later nothing dangles."""
        call = self.start.fresh()
        code, calls = self.killed(call, kill, submit=submit)
        assert code in (-signal.SIGKILL, 128 + signal.SIGKILL), (code, kill, calls)
        assert len(calls) == int(kill.split(maxsplit=1)[0]) + 1
        self.comes_right(call)

    def comes_right(self, call: Call) -> None:
        """No row is lost or doubled, now and when the next run has done the rest."""
        done = half_way(self.start, call.table, came_through=False)
        come_right(self.start, call, done=done, came_through=False)
        days_later(self.start, call)


@pytest.fixture
def place(tmp_path: Path) -> FolderPlace:
    folder = tmp_path / "store"
    return FolderPlace("file", f"file://{folder}", folder, tmp_path / "copies")


def driver(
    place: FolderPlace, name: str, job: str, options: dict[str, object], tmp_path: Path
) -> Driver:
    scenario: Scenario = next(s for s in operations.SCENARIOS if s.name == name)
    (tmp_path / "scratch").mkdir()
    return Driver(lay_out(place, scenario, tmp_path / "scratch"), job, options, tmp_path)


def kills(calls: Sequence[str], first: int = 0) -> list[str]:
    """Every call from the first on, in both ways."""
    return [f"{at} {when}" for at in range(first, len(calls)) for when in ("before", "after")]


def first_commit(calls: Sequence[str]) -> int:
    """The first call whose effect others see."""
    return next(n for n, call in enumerate(calls) if _creates(call))


def _creates(call: str) -> bool:
    return call.startswith("put") and ("/_txn/" in call or "/_log/" in call)


@pytest.mark.turn("a driver that is killed")
def test_a_merge_whose_driver_is_killed_at_any_store_call_comes_right(
    jobs: Jobs, place: FolderPlace, tmp_path: Path
) -> None:
    found = driver(place, "merge", "merge", {}, tmp_path)
    call = found.start.fresh()
    calls = found.clean(call, jobs)
    assert half_way(found.start, call.table, came_through=True)
    assert len(calls) == len(found.calls)
    commit = f"{first_commit(calls)} after"
    others = [kill for kill in kills(calls) if kill != commit]
    for kill in [commit, *sample(others, 1, "killed merge")]:
        found.dies(kill)


@pytest.mark.turn("a driver that is killed")
def test_a_rewrite_whose_driver_is_killed_at_any_of_its_commits_comes_right(
    place: FolderPlace, tmp_path: Path
) -> None:
    options: dict[str, object] = {"where": operations.FILTER, "force": True}
    found = driver(place, "rewrite, filter", "rewrite", options, tmp_path)
    # Before its first commit it does what a merge does.
    for kill in sample(kills(found.calls, first_commit(found.calls)), 1, "killed rewrite"):
        found.dies(kill)


@pytest.mark.full("the same kill as of a driver by itself; this one ends spark-submit, too")
def test_a_submitted_driver_that_is_killed_after_its_commit_comes_right(
    place: FolderPlace, tmp_path: Path
) -> None:
    found = driver(place, "merge", "merge", {}, tmp_path)
    found.dies(f"{first_commit(found.calls)} after", submit=True)
