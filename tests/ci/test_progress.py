"""A run of several processes prints a line now and then while its tests go on."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tools.bootstrap import REPO

# Two processes: the one that reports counts its lines, and the test goes on until it has two.
COUNTING = """
from pathlib import Path

from tests.support.plugin import pytest_configure
from tests.support import progress

progress.Progress.__init__.__defaults__ = (0.01,)
real = progress.Progress.line

def line(self):
    if self._running:
        with (Path(__file__).parent / "lines").open("a") as file:
            file.write("one\\n")
    return real(self)

progress.Progress.line = line
"""
SLOW = """
import time
from pathlib import Path

def test_that_goes_on():
    lines = Path(__file__).parent / "lines"
    # When the second is asked for, the first has been printed.
    for _ in range(12_000):
        if lines.exists() and len(lines.read_text().splitlines()) >= 2:
            return
        time.sleep(0.05)
    raise TimeoutError("no line was printed")
"""


def test_a_run_in_ci_prints_lines_while_a_test_goes_on(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(COUNTING)
    (tmp_path / "test_slow.py").write_text(SLOW)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", "1", str(tmp_path)],
        check=False,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTEST_ADDOPTS": "", "CI": "true", "PYTHONPATH": str(REPO)},
    )
    assert done.returncode == 0, done.stdout
    assert "0 of 1 tests passed, 0 failed; running: test_slow.py::test_that_goes_on" in done.stdout
