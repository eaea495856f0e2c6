"""The line a minute of a long run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from firnline_dev.bootstrap import REPO
from tests.support.progress import Progress, wanted


class Terminal:
    """Keeps what is written."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def write_line(self, line: str) -> None:
        self.lines.append(line)


def report(nodeid: str, when: str, outcome: str) -> pytest.TestReport:
    return pytest.TestReport(nodeid, (nodeid, 1, nodeid), {}, outcome, None, when)  # type: ignore[arg-type]  # texts


def test_the_line_says_what_has_ended_what_failed_and_what_runs() -> None:
    progress = Progress(Terminal())  # type: ignore[arg-type]  # a terminal of ours
    progress.pytest_xdist_node_collection_finished(["a", "b", "c", "d"])
    for nodeid in ("tests/a.py::test_1", "tests/a.py::test_2", "tests/b.py::test_3"):
        progress.pytest_runtest_logstart(nodeid)
    progress.pytest_runtest_logreport(report("tests/a.py::test_1", "call", "passed"))
    progress.pytest_runtest_logreport(report("tests/a.py::test_1", "teardown", "passed"))
    progress.pytest_runtest_logreport(report("tests/b.py::test_3", "call", "failed"))
    progress.pytest_runtest_logreport(report("tests/b.py::test_3", "teardown", "failed"))
    assert progress.line() == "[0:00] 1 of 4 tests passed, 1 failed; running: a.py::test_2 (0 s)"


@pytest.mark.parametrize(
    ("env", "expected"),
    [({}, False), ({"CI": "true"}, True), ({"FIRNLINE_PROGRESS": "1"}, True)],
    ids=["by hand", "in CI", "asked for"],
)
def test_lines_are_for_runs_that_nobody_watches(
    monkeypatch: pytest.MonkeyPatch, env: dict[str, str], expected: bool
) -> None:
    for name in ("CI", "FIRNLINE_PROGRESS"):
        monkeypatch.delenv(name, raising=False)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    assert wanted() is expected


SLOW = """
import threading

def test_that_goes_on(request):
    progress = request.config.pluginmanager.get_plugin("firnline-progress")
    asked = threading.Semaphore(0)
    real = progress.line
    progress.line = lambda: (asked.release(), real())[1]
    for _ in range(2):  # when the second is asked for, the first has been printed
        assert asked.acquire(timeout=600)
"""


def test_a_run_in_ci_prints_lines_while_a_test_goes_on(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(
        "from tests.support import progress\n"
        "progress.Progress.__init__.__defaults__ = (0.01,)\n"
        "from tests.conftest import pytest_configure\n"
    )
    (tmp_path / "test_slow.py").write_text(SLOW)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)],
        check=False,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "CI": "true", "PYTHONPATH": str(REPO)},
    )
    assert done.returncode == 0, done.stdout
    assert "0 of 1 tests passed, 0 failed; running: test_slow.py::test_that_goes_on" in done.stdout
