"""The one Airflow of a test run: whichever process needs it first has it started.

A plugin of pytest: the process that the run began with ends the stack, after the last test that may
use it. Should it be killed, the keeper sees that and ends the stack by itself.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from firnline.errors import EnvironmentFaultError
from tools.airflow_api import NEARBY_SECONDS, wait_until
from tools.bootstrap import REPO
from tools.processes import Programs

if TYPE_CHECKING:
    from tests.dags.maintained import Maintained

_NAME = "airflow-of-the-run"
_TESTS = "tests/dags/"
"""How the names of the tests begin that may use it."""


def shared(factory: pytest.TempPathFactory) -> Maintained:
    """Return the stack of this run; start it if nobody has.

    Raises:
        EnvironmentFaultError: it did not start, for this process or another one of the run.
    """
    base = factory.getbasetemp()
    # Processes of pytest-xdist have folders in the one of the process that has started them.
    worker = "PYTEST_XDIST_WORKER" in os.environ
    folder = (base.parent if worker else base) / _NAME
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "keeper.pid").exists():
            _start(folder, os.getppid() if worker else os.getpid())
    return _attach(folder)


def _start(folder: Path, run: int) -> None:
    """Have it started, and wait until it is ready or has failed."""
    with (folder / "keeper.log").open("wb") as log:
        keeper = subprocess.Popen(
            [sys.executable, "-m", "tests.dags.keeper", str(folder), str(run)],
            cwd=REPO,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            # Ctrl-C ends the tests first.
            start_new_session=True,
        )
    (folder / "keeper.pid").write_text(str(keeper.pid))
    ready = folder / "state.json"
    wait_until(lambda: ready.exists() or keeper.poll() is not None, every=NEARBY_SECONDS)


def _attach(folder: Path) -> Maintained:
    # It imports much, and is not needed before.
    from tests.dags.keeper import attached

    state = folder / "state.json"
    if not state.exists():
        said = (folder / "keeper.log").read_text(encoding="utf-8", errors="replace")
        raise EnvironmentFaultError(
            f"the Airflow of the tests did not start: {said[-3000:]}",
            next_step=f"read the logs in {folder}",
        )
    return attached(folder, json.loads(state.read_text()))


class Ending:
    """Has the stack end once none of its tests is left, in the process that reports.

    Its scheduler works on by itself, and a table has a merge every minute: beside the tests that
    come after its own, for minutes.

    Args:
        folder: tells the folder of the stack.
    """

    def __init__(self, folder: Callable[[], Path]) -> None:
        self._folder = folder
        self._left: set[str] | None = None

    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        if self._left is None:
            self._left = {nodeid for nodeid in ids if nodeid.startswith(_TESTS)}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when != "teardown" or not self._left:
            return
        self._left.discard(report.nodeid)
        if not self._left and (keeper := _keeper(self._folder())) is not None:
            # Nobody is to wait for it here: `pytest_unconfigure` does.
            keeper.send_signal(signal.SIGTERM)


@pytest.hookimpl(trylast=True)  # there is a run of several processes only then
def pytest_configure(config: pytest.Config) -> None:
    factory = getattr(config, "_tmp_path_factory", None)
    if factory is not None and config.pluginmanager.has_plugin("dsession"):
        ending = Ending(lambda: factory.getbasetemp() / _NAME)
        config.pluginmanager.register(ending, "firnline-airflow-ending")


def pytest_unconfigure(config: pytest.Config) -> None:
    """End the stack with the run, after its processes.

    Raises:
        RuntimeError: something of it was still there.
    """
    factory = getattr(config, "_tmp_path_factory", None)
    if factory is None or hasattr(config, "workerinput"):
        return
    folder = factory.getbasetemp() / _NAME
    if (keeper := _keeper(folder)) is not None:
        _end(keeper)
    if (folder / "state.json").exists():
        programs = Programs(json.loads((folder / "state.json").read_text())["mark"], folder)
        if left := [process.pid for process in programs.alive()]:
            programs.stop()
            raise RuntimeError(f"processes of the Airflow of the tests were still there: {left}")


def _keeper(folder: Path) -> psutil.Process | None:
    """Return the process that keeps the stack, or None if there is none, or no longer."""
    file = folder / "keeper.pid"
    with contextlib.suppress(FileNotFoundError, psutil.NoSuchProcess):
        process = psutil.Process(int(file.read_text()))
        if "tests.dags.keeper" in process.cmdline():
            return process
    return None


def _end(keeper: psutil.Process) -> None:
    """Have the keeper end its stack, and wait until it has."""
    with contextlib.suppress(psutil.NoSuchProcess):
        keeper.send_signal(signal.SIGTERM)
        wait_until(lambda: not is_running(keeper), every=NEARBY_SECONDS)


def is_running(process: psutil.Process) -> bool:
    """Also False for one that has ended and whose parent has not looked."""
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
