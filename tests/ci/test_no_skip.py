from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tools.bootstrap import REPO

SKIPPING = """
import pytest

def test_that_runs():
    assert True

@pytest.mark.skip(reason="no Go on this machine")
def test_that_is_skipped():
    assert False

@pytest.mark.xfail(reason="known")
def test_that_is_known_to_fail():
    assert False
"""
WHOLE_MODULE = """
import pytest
pytest.skip("no Java on this machine", allow_module_level=True)
"""


def run(folder: Path, no_skip: str) -> subprocess.CompletedProcess[str]:
    shutil.copy(REPO / "tests" / "support" / "plugin.py", folder / "conftest.py")
    (folder / "test_skipping.py").write_text(SKIPPING)
    (folder / "test_whole_module.py").write_text(WHOLE_MODULE)
    options = ["-q", "-ra", "-p", "no:cacheprovider", "--continue-on-collection-errors"]
    return subprocess.run(
        [sys.executable, "-m", "pytest", *options, str(folder)],
        check=False,
        capture_output=True,
        text=True,
        cwd=folder,
        env={
            **os.environ,
            "PYTEST_ADDOPTS": "",
            "FIRNLINE_NO_SKIP": no_skip,
            "PYTHONPATH": str(REPO),
        },
    )


def test_what_is_skipped_is_reported_with_its_reason(tmp_path: Path) -> None:
    done = run(tmp_path, "0")
    assert done.returncode == 0, done.stdout
    assert "1 passed, 2 skipped, 1 xfailed" in done.stdout
    assert "no Go on this machine" in done.stdout
    assert "no Java on this machine" in done.stdout


def test_where_skipping_is_forbidden_it_fails_and_says_why(tmp_path: Path) -> None:
    done = run(tmp_path, "1")
    assert done.returncode == 1, done.stdout
    assert "1 passed, 1 xfailed, 2 errors" in done.stdout
    assert "FIRNLINE_NO_SKIP=1 forbids: no Go on this machine" in done.stdout
    assert "FIRNLINE_NO_SKIP=1 forbids: no Java on this machine" in done.stdout
