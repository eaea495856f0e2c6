"""The Airflow of a run of tests ends with the last test that may use it."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.dags.shared_stack import Ending
from tools.airflow_api import wait_until

TESTS = ["tests/ci/test_a.py::test_1", "tests/dags/test_b.py::test_2", "tests/dags/test_c.py::test"]


@pytest.fixture
def keeper(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that is called as the one that keeps the stack."""
    program = [sys.executable, "-c", "import signal; signal.pause()", "tests.dags.keeper"]
    with subprocess.Popen(program) as found:
        # A process is there a moment before its command line is.
        wait_until(lambda: program[-1] in psutil.Process(found.pid).cmdline())
        (tmp_path / "keeper.pid").write_text(str(found.pid))
        yield found
        found.kill()


def ended(nodeid: str, when: str = "teardown") -> pytest.TestReport:
    return pytest.TestReport(nodeid, (nodeid, 1, nodeid), {}, "passed", None, when)  # type: ignore[arg-type]  # texts


def test_it_ends_with_the_last_of_its_tests(
    tmp_path: Path, keeper: subprocess.Popen[bytes]
) -> None:
    ending = Ending(lambda: tmp_path)
    for _ in range(2):  # once for each process of the run
        ending.pytest_xdist_node_collection_finished(TESTS)
    ending.pytest_runtest_logreport(ended(TESTS[1]))
    ending.pytest_runtest_logreport(ended(TESTS[0]))
    ending.pytest_runtest_logreport(ended(TESTS[2], "call"))
    assert keeper.poll() is None
    ending.pytest_runtest_logreport(ended(TESTS[2]))
    assert keeper.wait() == -signal.SIGTERM


def test_where_none_was_started_nothing_ends(tmp_path: Path) -> None:
    ending = Ending(lambda: tmp_path)
    ending.pytest_xdist_node_collection_finished(TESTS[1:2])
    ending.pytest_runtest_logreport(ended(TESTS[1]))


def test_another_process_that_has_its_number_is_left_alone(
    tmp_path: Path, keeper: subprocess.Popen[bytes]
) -> None:
    with subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"]) as other:
        (tmp_path / "keeper.pid").write_text(str(other.pid))
        ending = Ending(lambda: tmp_path)
        ending.pytest_xdist_node_collection_finished(TESTS[1:2])
        ending.pytest_runtest_logreport(ended(TESTS[1]))
        assert other.poll() is None
        other.kill()
