from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from firnline.processes import SUPERVISORS_VARIABLE, ProcessId, Supervisors

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

WAITS = "import sys; print(flush=True); sys.stdin.read()"


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    """A process that waits."""
    command = [sys.executable, "-c", WAITS]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        process.kill()


def identity(pid: int) -> ProcessId:
    found = ProcessId.of(pid)
    assert found is not None
    return found


@pytest.mark.long
def test_a_process_is_alive_until_it_ends_and_before_its_parent_has_looked(
    child: subprocess.Popen[bytes],
) -> None:
    process = identity(child.pid)
    assert process.is_alive()
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # it has ended, and is not reaped
    assert not process.is_alive()
    child.wait()
    assert not process.is_alive()
    assert ProcessId.of(child.pid) is None


def test_another_process_with_the_same_number_is_not_it(child: subprocess.Popen[bytes]) -> None:
    process = identity(child.pid)
    assert not replace(process, started=process.started - 1).is_alive()


def test_the_name_of_a_program_may_hold_anything(tmp_path: Path) -> None:
    program = tmp_path / "a) Z 1 2 (b"
    program.symlink_to(sys.executable)
    with subprocess.Popen([program, "-c", WAITS], stdin=-1, stdout=-1) as child:
        assert child.stdout is not None
        child.stdout.readline()
        assert identity(child.pid).is_alive()
        child.kill()


def test_a_process_that_the_system_hides_counts_as_alive_while_its_number_is_taken(
    child: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    process = identity(child.pid)
    monkeypatch.setattr("firnline.processes._PROC", tmp_path)
    assert process.is_alive()
    child.kill()
    child.wait()
    assert not process.is_alive()


def test_supervisors_are_told_by_the_environment() -> None:
    told = Supervisors.of([os.getpid(), os.getppid()])
    assert told is not None
    assert told.processes == (identity(os.getpid()), identity(os.getppid()))
    assert Supervisors.told({SUPERVISORS_VARIABLE: told.to_json()}) == told
    assert Supervisors.told({}) is None


def test_numbers_of_another_container_mean_nothing() -> None:
    told = json.dumps({"namespace": "pid:[1]", "processes": [[1, 1]]})
    assert Supervisors.told({SUPERVISORS_VARIABLE: told}) is None


def test_a_system_without_proc_names_no_supervisors(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("firnline.processes._PROC", tmp_path)
    assert Supervisors.of([os.getpid()]) is None
