"""What the samples of a run of tests are drawn from."""

from __future__ import annotations

import functools
import os
import subprocess

from tools.bootstrap import REPO


@functools.cache
def sample_name() -> str:
    """Return what the samples of this run are drawn from: the commit, unless told otherwise."""
    if given := os.environ.get("FIRNLINE_TEST_SAMPLE"):
        return given
    done = subprocess.run(
        ["git", "rev-parse", "--short=12", "HEAD"],
        cwd=REPO,
        check=False,
        capture_output=True,
        text=True,
    )
    return done.stdout.strip() if done.returncode == 0 else "no commit"
