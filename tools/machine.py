"""How much of its cores and its disk a machine gives: the host of a CI may share both.

``python -m tools.machine`` prints "sample" or "few": how much of the tests `make test` runs here.
``python -m tools.machine disk`` fails where the tests would fill the disk.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

SECONDS = 3.0
"""How long a core is watched: a host takes it away for up to a third of a second at a time."""
_GAP_SECONDS = 0.001
"""A process that only reads the clock was not running for as long as this, or longer."""
LEAST_FREE = 6 * 2**30
"""Bytes of disk that the tests need: 5 GB for environments and tables, and as much again for the
cache of uv, where pyspark is built. On a full disk every test fails, each in its own way."""
LEAST_SHARE = 0.6
"""Share of each core below which `make test` runs few tests: all of them would take hours."""


def share_of_cores(seconds: float = SECONDS) -> float:
    """Return the part of the time in which a busy process runs, where there is one for each core.

    Args:
        seconds: how long to watch.

    Returns:
        1.0 on a machine of one's own; of several cores the least.
    """
    cores = os.cpu_count() or 1
    with ProcessPoolExecutor(cores) as processes:
        return min(processes.map(_share, [seconds] * cores))


def without_room(folders: Sequence[Path]) -> str:
    """Return in one sentence which of some folders has too little free disk; empty for none."""
    for folder in folders:
        free = shutil.disk_usage(folder).free
        if free < LEAST_FREE:
            return (
                f"the tests need {LEAST_FREE / 2**30:.0f} GiB of free disk, and {folder} has "
                f"{free / 2**30:.1f}: make room (`uv cache prune`, old clones) and run it again"
            )
    return ""


def effort_for(share: float) -> str:
    """Return what ``FIRNLINE_TESTS`` is to be on a machine that gives that share of its cores."""
    return "few" if share < LEAST_SHARE else "sample"


def _share(seconds: float) -> float:
    began = last = time.perf_counter()
    lost = 0.0
    while last - began < seconds:
        now = time.perf_counter()
        lost += now - last if now - last > _GAP_SECONDS else 0.0
        last = now
    return 1 - lost / (last - began)


def main(words: Sequence[str] = ()) -> int:
    """Print how much of the tests runs here, and why; ``disk``: 1 where they have no room."""
    if words == ["disk"]:
        missing = without_room([Path.cwd(), Path(tempfile.gettempdir())])
        print(missing, end="\n" if missing else "", file=sys.stderr)
        return 1 if missing else 0
    share = share_of_cores()
    print(effort_for(share))
    print(f"this machine gives {share:.0%} of each core", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
