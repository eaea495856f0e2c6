"""The one Airflow of a test run: whichever process needs it first has it started.

A plugin of pytest: the process that the run began with ends the stack in the end. Should it be
killed, the keeper sees that and ends the stack by itself.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import subprocess
import sys
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


def pytest_unconfigure(config: pytest.Config) -> None:
    """End the stack with the run, after its processes.

    Raises:
        RuntimeError: something of it was still there.
    """
    factory = getattr(config, "_tmp_path_factory", None)
    if factory is None or hasattr(config, "workerinput"):
        return
    folder = factory.getbasetemp() / _NAME
    if (folder / "keeper.pid").exists():
        _end(int((folder / "keeper.pid").read_text()))
    if (folder / "state.json").exists():
        programs = Programs(json.loads((folder / "state.json").read_text())["mark"], folder)
        if left := [process.pid for process in programs.alive()]:
            programs.stop()
            raise RuntimeError(f"processes of the Airflow of the tests were still there: {left}")


def _end(keeper: int) -> None:
    """Have the keeper end its stack, and wait until it has."""
    with contextlib.suppress(psutil.NoSuchProcess):
        process = psutil.Process(keeper)
        if "tests.dags.keeper" in process.cmdline():
            process.send_signal(signal.SIGTERM)
            wait_until(lambda: not is_running(process), every=NEARBY_SECONDS)


def is_running(process: psutil.Process) -> bool:
    """Also False for one that has ended and whose parent has not looked."""
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
