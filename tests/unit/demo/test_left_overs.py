"""A demo leaves no process behind; one that is ending when it looks is not left."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from demo.left_overs import still_left
from tools.processes import MARK


@pytest.mark.parametrize(("lives_s", "left"), [(0.3, False), (60, True)])
def test_a_process_of_the_demo_is_left_if_it_does_not_end_soon(
    tmp_path: Path, lives_s: float, left: bool
) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", f"import time; time.sleep({lives_s})"],
        env={**os.environ, MARK: f"{tmp_path}/airflow"},
    )
    try:
        found = still_left(tmp_path, seconds=0.5 if left else 3)  # this process may have children
        assert (process.pid in [each.pid for each in found]) == left
    finally:
        process.kill()
        process.wait()
