"""What the simulation says, and that it can fail. The worlds themselves: `make simulate`."""

from __future__ import annotations

import subprocess
import sys

import pytest

from simulation.rules.catalogue import MUTATIONS
from simulation.run import play_seeds


def test_a_violation_is_told_in_as_few_events_as_it_needs() -> None:
    """In a process of its own: what a mutation replaces stays replaced."""
    rule = "no conflict check"
    first_seed = str(MUTATIONS[rule].seed)
    command = [sys.executable, "-m", "simulation", "--jobs", "1", "--seeds", "25"]
    told = subprocess.run(
        [*command, "--from", first_seed, "--break", rule],
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == 1, told.stderr
    first, *trace, last = told.stdout.splitlines()
    assert first.startswith("VIOLATION in seed ")
    assert last.startswith("VIOLATION: ")
    assert len(trace) < 100
    assert any("appended parts become visible" in line for line in trace)


BREAK = """
import os, sys
from simulation.rules.catalogue import MUTATIONS
from simulation.run import play_seed
for rule in sys.argv[1:]:
    if os.fork() == 0:  # what it replaces stays replaced
        MUTATIONS[rule].switch_off()
        print(play_seed(MUTATIONS[rule].seed).finding and rule, flush=True)
        os._exit(0)
    os.wait()
"""


@pytest.mark.parametrize("part", range(4))
def test_a_rule_that_is_switched_off_is_found_by_its_seed(part: int) -> None:
    """All of them: whatever changes what a seed plays may leave a rule that nothing looks after."""
    rules = list(MUTATIONS)[part::4]
    told = subprocess.run(
        [sys.executable, "-c", BREAK, *rules], capture_output=True, text=True, check=False
    )
    # A rule is missing where its mutation itself failed.
    assert told.stdout.splitlines() == rules, told.stderr


def test_a_log_that_is_lost_is_rebuilt_in_some_world() -> None:
    for seed in range(43, 103):  # the first of these does it as the code stands
        found = play_seeds(seed, 1)
        assert not hasattr(found, "what"), found
        if found["rebuild"] > 0:
            return
    pytest.fail("no log was rebuilt")
