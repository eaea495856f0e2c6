"""The processes by which Airflow supervises a task, for the driver that the task starts."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Mapping

from firnline.airflow.settings import environment
from firnline.processes import SUPERVISORS_VARIABLE, Supervisors

_CREDENTIALS = struct.Struct("3i")
"""pid, user and group: Linux's ``struct ucred``."""


def job_environment(private: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a job that is a child of this task.

    Args:
        private: its own variables, secrets among them; they come first.
    """
    return {**os.environ, **environment(), **supervisors_environment(), **private}


def supervisors_environment() -> dict[str, str]:
    """Return the environment variable that names a driver's supervisors; empty except on Linux.

    They are the task, which is this process, and the process that Airflow has watch it: when that
    one dies, the task works on and Airflow hears no more of it.
    """
    pids = [os.getpid(), *_supervisor()]
    found = Supervisors.of(pids)
    return {} if found is None else {SUPERVISORS_VARIABLE: found.to_json()}


def _supervisor() -> list[int]:
    """Return the process at the other end of the task's socket; none in ``airflow dags test``.

    Not the parent: with ``run_as_user`` that is sudo, which survives it.
    """
    from airflow.sdk.execution_time import task_runner

    link = getattr(getattr(task_runner, "SUPERVISOR_COMMS", None), "socket", None)
    if not isinstance(link, socket.socket) or not hasattr(socket, "SO_PEERCRED"):
        return []
    told = link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid: int = _CREDENTIALS.unpack(told)[0]
    return [pid]
