"""Runs what is to catch a mutation, and says what did."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from tests.mutations.copy import Copy, MutationError, program
from tests.mutations.model import SIMULATION, Mutation, Rule

Part = Literal["named", "whole", "unit"]
SEEDS = 500
"""Of `make test`."""
_SIMULATE = ["-m", "simulation", "--seeds", str(SEEDS), "--corpus"]
_UNIT = ["-n", "2", "tests/unit", "--deselect=tests/unit/tools/test_mutations.py"]
"""What `make check` runs, but for the tests that compare the list of mutations with the sources."""
_FAILED = (1, 2)
"""Exit codes of pytest when a test failed: without other processes and, with -x, with them."""


@dataclass(frozen=True)
class Caught:
    """What came of a mutation."""

    by: str
    """The first failing test, or the seed; empty: nothing noticed it."""
    seconds: float
    problem: str = ""
    """Why it could not be tried."""


def try_it(copy: Copy, mutation: Mutation | Rule, part: Part = "named") -> Caught:
    """Make a mutation and run the tests that are to catch it.

    Args:
        copy: where.
        mutation: what; of a rule the simulation is always what runs.
        part: of `make test`: what the mutation names, all of it, or only tests/unit.
    """
    if isinstance(mutation, Rule):
        return _try_rule(copy, mutation)
    return _try_mutation(copy, mutation, part)


def _try_rule(copy: Copy, rule: Rule) -> Caught:
    """Switch a rule off and play what `make test` plays, the rule's own seed first."""
    began = time.monotonic()
    by, problem = _simulated(copy, ["--break", rule.name])
    return Caught(by, time.monotonic() - began, problem)


def _try_mutation(copy: Copy, mutation: Mutation, part: Part) -> Caught:
    began = time.monotonic()
    try:
        with copy.mutated(mutation):
            by, problem = _run(copy, mutation, part)
    except MutationError as error:
        by, problem = "", str(error)
    return Caught(by, time.monotonic() - began, problem)


def _run(copy: Copy, mutation: Mutation, part: Part) -> tuple[str, str]:
    """Run tests: what failed first, and why they did not run. Both are empty when all pass."""
    if part != "named":
        return _whole(copy) if part == "whole" else _tested(copy, _UNIT)
    tests = [catcher for catcher in mutation.caught_by if catcher != SIMULATION]
    by, problem = _tested(copy, tests, full=bool(mutation.full)) if tests else ("", "")
    if by or problem or SIMULATION not in mutation.caught_by:
        return by, problem
    return _simulated(copy, [])


def _tested(copy: Copy, tests: Sequence[str], *, full: bool = False) -> tuple[str, str]:
    done = copy.run([program("pytest"), "-x", "-q", *tests], full=full)
    if done.returncode == 0:
        return "", ""
    # Of a file that cannot even be imported there is no name of a test.
    failed = re.search(r"^(?:FAILED|ERROR) (\S+::.+?)(?: - |$)", done.stdout, re.MULTILINE)
    if done.returncode not in _FAILED or failed is None:
        lines = (done.stdout + done.stderr).strip().splitlines() or ["nothing said why"]
        return "", f"the tests did not run ({done.returncode}): {lines[-1]}"
    return failed[1], ""


def _simulated(copy: Copy, more: Sequence[str]) -> tuple[str, str]:
    done = copy.run([sys.executable, *_SIMULATE, "--trace", "--jobs", "1", *more])
    if done.returncode == 0:
        return "", ""
    found = re.match(r"VIOLATION in (seed \d+), step \d+: (.*)", done.stdout)
    if found is None:
        lines = done.stderr.strip().splitlines() or ["nothing said why"]
        return "", f"the simulation did not run ({done.returncode}): {lines[-1]}"
    return f"{found[1]}: {found[2]}", ""


def _whole(copy: Copy) -> tuple[str, str]:
    """All of `make test`, but for lint and types, the quick parts first."""
    for tests in (_UNIT, [], ["-n", "3", "--ignore=tests/unit", "tests"]):
        by, problem = _tested(copy, tests) if tests else _simulated(copy, [])
        if by or problem:
            return by, problem
    return "", ""


def control(copy: Copy, chosen: Sequence[Mutation | Rule], part: Part = "named") -> str:
    """Return what fails of the same parts without a mutation; empty: all pass."""
    if part != "named":
        return "; ".join(filter(None, _whole(copy) if part == "whole" else _tested(copy, _UNIT)))
    sources = [each for each in chosen if isinstance(each, Mutation)]
    wanted = {catcher for each in sources for catcher in each.caught_by}
    only_full = {catcher for each in sources if each.full for catcher in each.caught_by}
    failed: list[str] = []
    for tests, full in ((wanted - only_full - {SIMULATION}, False), (only_full, True)):
        if tests:
            failed += _tested(copy, sorted(tests), full=full)
    if SIMULATION in wanted or any(isinstance(each, Rule) for each in chosen):
        failed += _simulated(copy, [])
    return "; ".join(filter(None, failed))
