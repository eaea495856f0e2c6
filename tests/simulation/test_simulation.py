"""What the simulation says, and that it can fail. The worlds themselves: `make simulate`."""

from __future__ import annotations

import subprocess
import sys

import pytest

from firnline_dev.simulate.run import play_seeds


def test_a_violation_is_told_in_as_few_events_as_it_needs() -> None:
    """In a process of its own: what a mutation replaces stays replaced."""
    command = [sys.executable, "-m", "firnline_dev.simulate", "--jobs", "1", "--seeds", "100"]
    told = subprocess.run(
        [*command, "--break", "no append.ttl"], capture_output=True, text=True, check=False
    )
    assert told.returncode == 1, told.stderr
    first, *trace, last = told.stdout.splitlines()
    assert first.startswith("VIOLATION in seed ")
    assert last.startswith("VIOLATION: ")
    assert len(trace) < 100
    assert any("appended parts become visible" in line for line in trace)


@pytest.mark.parametrize(
    "rule",
    [
        "no conflict check",
        "append reads its sequence from the log",
        "a fold copies markers as they stand",
    ],
)
def test_a_rule_that_is_switched_off_is_found(rule: str) -> None:
    command = [sys.executable, "-m", "firnline_dev.simulate", "--trace", "--jobs", "1"]
    told = subprocess.run(
        [*command, "--seeds", "100", "--break", rule], capture_output=True, text=True, check=False
    )
    assert told.returncode == 1, told.stderr
    assert told.stdout.startswith("VIOLATION in seed "), (
        "a mutation that itself fails proves nothing"
    )


def test_a_log_that_is_lost_is_rebuilt_in_some_worlds() -> None:
    found = play_seeds(40, 60)
    assert not hasattr(found, "what"), found
    assert found["rebuild"] > 0
