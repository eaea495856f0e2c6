from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import attrs
import pytest
from airflow.sdk.execution_time import task_runner
from airflow.sdk.execution_time.comms import CommsDecoder
from airflow.sdk.execution_time.supervisor import InProcessSupervisorComms

from firnline.airflow.supervisors import supervisors_environment
from firnline.processes import SUPERVISORS_VARIABLE

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


MAKES_BOTH = """
import socket, sys
mine, other = socket.socketpair()
socket.send_fds(socket.socket(fileno=int(sys.argv[1])), [b"-"], [other.fileno()])
sys.stdin.read()
"""


@dataclass(frozen=True)
class Supervisor:
    """A process that is connected with this one as Airflow's supervisor is with its task."""

    pid: int
    link: socket.socket
    """This process's end."""


@pytest.fixture
def supervisor() -> Iterator[Supervisor]:
    near, far = socket.socketpair()
    command = [sys.executable, "-c", MAKES_BOTH, str(far.fileno())]
    with (
        near,
        far,
        subprocess.Popen(command, stdin=subprocess.PIPE, pass_fds=[far.fileno()]) as process,
    ):
        _, (link, *_), _, _ = socket.recv_fds(near, 1, 1)
        with socket.socket(fileno=link) as found:
            yield Supervisor(process.pid, found)


def pids() -> list[int]:
    fields = json.loads(supervisors_environment()[SUPERVISORS_VARIABLE])
    return [pid for pid, _ in fields["processes"]]


def connect(monkeypatch: pytest.MonkeyPatch, comms: object) -> None:
    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", comms, raising=False)


def test_a_task_names_itself_and_whoever_is_at_the_other_end_of_its_socket(
    supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect(monkeypatch, CommsDecoder(socket=supervisor.link))
    assert pids() == [os.getpid(), supervisor.pid]


def test_a_task_that_runs_in_the_process_of_who_started_it_names_that_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert "socket" not in {field.name for field in attrs.fields(InProcessSupervisorComms)}
    connect(monkeypatch, object())
    assert pids() == [os.getpid()]
    monkeypatch.delattr(task_runner, "SUPERVISOR_COMMS")
    assert pids() == [os.getpid()]
