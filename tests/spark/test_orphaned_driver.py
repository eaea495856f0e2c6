"""The driver of a Spark job whose supervisor is killed, as processes: it ends by itself, and soon.

What supervises a driver in Airflow is a small program here, which starts it and waits for it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from firnline.settings.spark_conf import with_defaults
from firnline.state.history import history
from tests.spark.test_killed_driver import Driver, driver
from tests.support.jobs import SUBMIT
from tests.support.places import FolderPlace, keys_in
from tests.support.programs import HUNG_SECONDS
from tests.support.scenarios import Call
from tools.airflow_api import NEARBY_SECONDS, wait_until
from tools.bootstrap import REPO

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

HOOKS = REPO / "tests" / "support" / "held_hooks"
SUPERVISOR = """
import os, subprocess, sys
from firnline.processes import SUPERVISORS_VARIABLE, Supervisors
told = Supervisors.of([os.getpid()]).to_json()
sys.exit(subprocess.call(sys.argv[1:], env={**os.environ, SUPERVISORS_VARIABLE: told}))
"""


@dataclass
class Supervised:
    """An application, and the process that supervises it."""

    supervisor: subprocess.Popen[bytes]
    said: Path

    def orphaned(self) -> dict[str, Any]:
        """Kill the supervisor; what the driver says when it has ended, and its JVM with it."""
        application = psutil.Process(self.supervisor.pid).children(recursive=True)
        assert application
        self.supervisor.kill()
        self.supervisor.wait()
        # That the time which is promised is kept: see the tests of the watch.
        _, left = psutil.wait_procs(application, HUNG_SECONDS)
        assert left == [], self.said.read_text()
        lines = self.said.read_text().splitlines()
        assert not any("Traceback" in line for line in lines), lines
        (error,) = (json.loads(line)["error"] for line in lines if line.startswith('{"error"'))
        return dict(error)


@contextmanager
def held(made: Driver, call: Call, hold: str, program: list[str]) -> Iterator[Supervised]:
    """A driver with a supervisor, once it is held where the test wants it.

    Args:
        made: what it runs.
        call: on which table.
        hold: what is held, see ``held_hooks``.
        program: what runs the job's program.
    """
    folder, said = made.folder / "held", made.folder / "said"
    folder.mkdir()
    job = [*program, str(REPO / "spark_jobs" / f"{made.job}.py"), *made.arguments(call)]
    with said.open("wb") as output:
        supervisor = subprocess.Popen(
            [sys.executable, "-c", SUPERVISOR, *job],
            env=made.environment(HOOKS, FIRNLINE_TEST_HELD=str(folder), FIRNLINE_TEST_HOLD=hold),
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        begun = wait_until((folder / "held").exists, HUNG_SECONDS, NEARBY_SECONDS)
        assert begun, said.read_text()
        yield Supervised(supervisor, said)
    finally:
        _end(supervisor)


def _end(supervisor: subprocess.Popen[bytes]) -> None:
    """What a failed test leaves."""
    if supervisor.poll() is None:
        for process in psutil.Process(supervisor.pid).children(recursive=True):
            process.kill()
        supervisor.kill()
        supervisor.wait()


@pytest.fixture
def place(tmp_path: Path) -> FolderPlace:
    folder = tmp_path / "store"
    return FolderPlace("file", f"file://{folder}", folder, tmp_path / "copies")


@pytest.mark.turn("a driver that nobody supervises any more")
def test_a_merge_whose_supervisor_is_killed_drops_what_is_not_committed_and_ends(
    place: FolderPlace, tmp_path: Path
) -> None:
    made = driver(place, "merge", "merge", {}, tmp_path)
    call = made.start.fresh()
    before = keys_in(call.table, "_data")
    settings = [f"--conf={key}={value}" for key, value in with_defaults({}).items()]
    with held(made, call, "kernel", [str(SUBMIT), "--master=local[1]", *settings]) as driven:
        assert keys_in(call.table, "_data") > before, "one group is merged, and not committed"
        error = driven.orphaned()
    assert error["type"] == "SupervisorGoneError"
    assert f"is gone (pid {driven.supervisor.pid}); what it had committed" in error["message"]
    assert error["retryable"] is True
    assert history(call.table) == []
    assert keys_in(call.table, "_data") == before
    made.present(call)
    made.comes_right(call)


@pytest.mark.turn("a driver that nobody supervises any more")
def test_a_commit_that_is_under_way_is_completed_and_no_other_one_begins(
    place: FolderPlace, tmp_path: Path
) -> None:
    made = driver(place, "merge", "merge", {}, tmp_path)
    made.settings = {"merge": {"min_inputs": 2, "commit_every": "0s"}}
    call = made.start.fresh()
    with held(made, call, "commit", [sys.executable]) as driven:
        assert history(call.table) == []
        error = driven.orphaned()
    assert error["type"] == "SupervisorGoneError"
    (committed,) = history(call.table)
    assert (committed.seq, len(committed.partitions)) == (1, 1)
    made.present(call)
    made.comes_right(call)
