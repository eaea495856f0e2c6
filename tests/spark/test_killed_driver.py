"""The driver of a Spark job, a process of its own, is killed with SIGKILL at its store calls.

Every call is hit, before and after it in turn; with ``FIRNLINE_SWEEP=all`` in both ways. Then the
operation runs again, and the table has to come right as in ``tests/crash``.
"""

from __future__ import annotations

import json
import os
import signal
from dataclasses import dataclass
from pathlib import Path

import pytest

from firnline.clock import SystemClock
from firnline_dev.bootstrap import REPO
from tests.support import operations
from tests.support.jobs import run_job
from tests.support.places import NAME, FolderPlace
from tests.support.scenarios import Call, Scenario
from tests.support.sweeping import Start, come_right, days_later, half_way, lay_out
from tests.support.world import SetClock

EVERYTHING = os.environ.get("FIRNLINE_SWEEP") == "all"
HOOKS = REPO / "tests" / "support" / "kill_hooks"


@dataclass
class Driver:
    """Runs a job of ``spark_jobs/`` on a scenario's table."""

    start: Start
    job: str
    options: dict[str, object]
    folder: Path

    @property
    def calls(self) -> list[str]:
        """Store calls of the driver alone: those of its kernels are in other processes."""
        return [call for call in self.start.calls if "/_data/" not in call]

    def run(self, call: Call, kill: str = "", *, submit: bool = False) -> tuple[int, list[str]]:
        """Exit code, store calls."""
        calls, settings = self.folder / "calls", self.folder / "tables.yaml"
        calls.write_text("")
        table = call.table.settings.model_dump(exclude_defaults=True, exclude={"name"}, mode="json")
        table["spark"] = {"conf": {"spark.ui.enabled": "false"}}
        settings.write_text(json.dumps({"tables": {NAME: table}}))
        done = run_job(
            self.job, NAME, f"--settings={settings}", f"--options={json.dumps(self.options)}",
            "--master=local[1]", f"--scratch={self.folder / 'spark'}",
            f"--dag-id={call.run.dag_id}", f"--run-id={call.run.run_id}", "--try-number=1",
            env={
                "PYTHONPATH": str(HOOKS),
                "FIRNLINE_TEST_CALLS": str(calls),
                "FIRNLINE_TEST_KILL_AT": kill,
            },
            submit="local[1]" if submit else None,
        )  # fmt: skip
        assert isinstance(call.table.clock, SetClock)
        call.table.clock.now = SystemClock().now_ms()
        return done.code, calls.read_text().splitlines()

    def dies(self, kill: str, *, submit: bool = False) -> None:
        """Kill a run; the next comes to the right end, and days later nothing dangles."""
        call = self.start.fresh()
        code, calls = self.run(call, kill, submit=submit)
        assert code in (-signal.SIGKILL, 128 + signal.SIGKILL), (code, kill, calls)
        assert len(calls) == int(kill.split(maxsplit=1)[0]) + 1
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


def kills(calls: list[str], first: int = 0) -> list[str]:
    """Every call from the first on, in one of the ways."""
    return [
        f"{at} {when}"
        for at in range(first, len(calls))
        for number, when in enumerate(("before", "after"))
        if EVERYTHING or at % 2 == number
    ]


def found_out(call: str) -> bool:
    """Whether others see what a call does."""
    return call.startswith("put") and ("/_txn/" in call or "/_log/" in call)


def test_a_merge_whose_driver_is_killed_at_any_store_call_comes_right(
    place: FolderPlace, tmp_path: Path
) -> None:
    found = driver(place, "merge", "merge", {}, tmp_path)
    call = found.start.fresh()
    code, calls = found.run(call)
    assert code == 0
    assert half_way(found.start, call.table, came_through=True)
    assert len(calls) == len(found.calls)
    for kill in kills(calls):
        found.dies(kill)
    if not EVERYTHING:  # these two calls commit and publish: the other way, too
        for at in (len(calls) - 2, len(calls) - 1):
            found.dies(f"{at} {('after', 'before')[at % 2]}")


def test_a_rewrite_whose_driver_is_killed_at_any_of_its_commits_comes_right(
    place: FolderPlace, tmp_path: Path
) -> None:
    options: dict[str, object] = {"where": operations.FILTER, "force": True}
    found = driver(place, "rewrite, filter", "rewrite", options, tmp_path)
    # Before its first commit it does what a merge does.
    first = next(n for n, call in enumerate(found.calls) if found_out(call))
    for kill in kills(found.calls, first):
        found.dies(kill)


def test_a_submitted_driver_that_is_killed_after_its_commit_comes_right(
    place: FolderPlace, tmp_path: Path
) -> None:
    found = driver(place, "merge", "merge", {}, tmp_path)
    commit = next(n for n, call in enumerate(found.calls) if found_out(call))
    found.dies(f"{commit} after", submit=True)
