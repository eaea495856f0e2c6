from __future__ import annotations

import subprocess
import sys

import pytest

ASKED = "from firnline.clock import SystemClock; print(SystemClock().elapsed_ms())"
SLEPT_S = 100_000


def elapsed_ms(*namespace: str) -> int:
    """Asked in a process whose clocks the kernel shifts."""
    done = subprocess.run(
        [*namespace, sys.executable, "-c", ASKED], capture_output=True, text=True, check=False
    )
    if namespace and "unshare" in done.stderr:
        pytest.skip(f"this machine makes no time namespace: {done.stderr.strip()}")
    return int(done.stdout)


@pytest.mark.long
def test_the_time_that_a_machine_slept_counts_and_only_that_clock_tells() -> None:
    # A suspension moves CLOCK_BOOTTIME on and leaves CLOCK_MONOTONIC where it was.
    unshare = ("unshare", "--user", "--map-root-user", "--time")
    before = elapsed_ms()
    slept = elapsed_ms(*unshare, "--boottime", str(SLEPT_S))
    other = elapsed_ms(*unshare, "--monotonic", str(SLEPT_S))
    after = elapsed_ms()
    assert before <= slept - SLEPT_S * 1000 <= other <= after
