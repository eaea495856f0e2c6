"""Two commits compared from start to end: the working tree with its own commit, small."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.measure import environment
from tools.bootstrap import REPO


@pytest.mark.full("plays a section with two codes")
def test_the_working_tree_is_compared_with_a_commit(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks", "append", "--small", "--rounds=1"]
    done = subprocess.run(
        [*command, "--against=HEAD", f"--cache={tmp_path}"],
        cwd=REPO,
        env=environment({}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [re.split(" {2,}", line) for line in done.stdout.splitlines()]
    assert ["append, one round"] in rows
    found = {row[0]: row[3:] for row in rows if len(row) == 6}
    assert list(found) == ["contender", "firnline", "Polars", "DuckDB"]
    once = re.compile(r"(\d+\.\d\d) \(\1 to \1\)")
    for name in ("firnline", "Polars", "DuckDB"):
        time, _, peak = found[name]
        assert once.fullmatch(time), name
        assert once.fullmatch(peak), name
