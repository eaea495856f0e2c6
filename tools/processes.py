"""Programs that start further programs, ended without leaving any of them behind.

`airflow standalone` orphans its children when it is ended, a task supervisor that is killed leaves
its Spark driver running, and tasks make process groups of their own: so every component gets a
session of its own, and everything that is in one of these sessions, or carries the mark in its
environment, is ours to end.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import psutil

MARK = "FIRNLINE_DEV_STACK"
"""Environment variable that children inherit, even after they are reparented."""
_GONE_SECONDS = 60.0
"""Until a killed process counts as one that cannot be killed."""
_LOOK_SECONDS = 0.1


class Programs:
    """Long-running programs with one log file each.

    Args:
        mark: a text no other set of programs has.
        logs: folder for their output, ``<name>.log``.
    """

    def __init__(self, mark: str, logs: Path) -> None:
        self.mark = mark
        self.logs = logs
        self._started: dict[str, subprocess.Popen[bytes]] = {}
        self._known: dict[str, int] = {}
        self._seen: set[psutil.Process] = set()

    def start(self, name: str, command: Sequence[str], env: Mapping[str, str]) -> None:
        """Start one program in a session of its own."""
        self.logs.mkdir(parents=True, exist_ok=True)
        with (self.logs / f"{name}.log").open("ab") as log:
            self._started[name] = subprocess.Popen(
                command,
                env={**env, MARK: self.mark},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def dead(self) -> str | None:
        """The name of a program that has ended by itself, if any has."""
        for name, process in self._started.items():
            if process.poll() is not None:
                return name
        return None

    def pid(self, name: str) -> int:
        """Process id of one program."""
        return self.pids[name]

    @property
    def pids(self) -> dict[str, int]:
        """Process ids of all programs, by name."""
        return {**self._known, **{name: each.pid for name, each in self._started.items()}}

    def know(self, pids: Mapping[str, int]) -> None:
        """Take programs of the same mark for ours that another process has started, and ends."""
        self._known = dict(pids)

    def alive(self) -> list[psutil.Process]:
        """Every living process that belongs to these programs, however far down."""
        sessions = set(self.pids.values())
        for pid in sessions:
            with contextlib.suppress(psutil.Error):
                self._seen.update(psutil.Process(pid).children(recursive=True))
        for process in psutil.process_iter():
            if process.pid != os.getpid() and _belongs(process, sessions, self.mark):
                self._seen.add(process)
        self._seen = {process for process in self._seen if _runs(process)}
        return sorted(self._seen, key=lambda process: process.pid)

    def stop(self, seconds: float = 5.0) -> list[int]:
        """End them all, politely first; returns the process ids that outlived even SIGKILL.

        Args:
            seconds: how long they may take after SIGTERM.
        """
        self.alive()
        for component in self._started.values():
            _signal(component.pid, signal.SIGTERM)
        deadline = time.monotonic() + seconds
        for component in self._started.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                component.wait(max(0.0, deadline - time.monotonic()))
        # What is left now has nobody to end it: drivers of killed supervisors, say.
        left = self._kill_all()
        self._started.clear()
        return left

    def _kill_all(self) -> list[int]:
        """Kill what is there until nothing is; returns what is there still when the time is up."""
        deadline = time.monotonic() + _GONE_SECONDS
        while True:
            # Reaped here: a child that nobody waited for stays as a zombie.
            for child in self._started.values():
                child.poll()
            left = [process.pid for process in self.alive()]
            if not left or time.monotonic() >= deadline:
                return left
            # Again and again: one of them may just have started another.
            for pid in left:
                _signal(pid, signal.SIGKILL)
            time.sleep(_LOOK_SECONDS)


def _belongs(process: psutil.Process, sessions: Iterable[int], mark: str) -> bool:
    try:
        if os.getsid(process.pid) in sessions:
            return True
        return bool(process.environ().get(MARK) == mark)
    except (psutil.Error, OSError):
        # Gone meanwhile, or somebody else's: not ours either way.
        return False


def _runs(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
