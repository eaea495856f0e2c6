"""How much is tried: `make test` takes a sample of what `make test-full` tries exhaustively.

A sample is deterministic for a commit and differs between commits, so that every point has its
turn. The header of a run names it; ``FIRNLINE_TEST_SAMPLE`` plays that sample again, and
``FIRNLINE_TESTS=turns`` runs every test that takes turns with others, each on its sample.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import hypothesis
import pytest
from hypothesis import HealthCheck

from tools.samples import sample_name

FULL = os.environ.get("FIRNLINE_TESTS") == "full"
"""True in `make test-full`: everything is tried."""
_ALL_TURNS = FULL or os.environ.get("FIRNLINE_TESTS") == "turns"
T = TypeVar("T")
Test = TypeVar("Test", bound=Callable[..., object])


def sample(points: Sequence[T], count: int, *what: object) -> list[T]:
    """Return ``count`` of the points in their order, or all of them in `make test-full`.

    Args:
        points: all there are.
        count: how many of them in `make test`, spread evenly from a random first one: neighbours
            rarely differ in what they show.
        what: tells one sample of a run from another, such as the test's name and the store.
    """
    if FULL or count >= len(points):
        return list(points)
    rng = random.Random(f"{sample_name()} {what}")
    step = len(points) / count
    first = rng.random() * step
    return [points[int(first + number * step)] for number in range(count)]


def in_turn(groups: Mapping[str, str]) -> set[str]:
    """Return one test of each group, another one for other commits.

    All of them in `make test-full`, and with ``FIRNLINE_TESTS=turns``.

    Args:
        groups: test -> the name of its group.
    """
    if _ALL_TURNS:
        return set(groups)
    members: dict[str, list[str]] = {}
    for test, group in sorted(groups.items()):
        members.setdefault(group, []).append(test)
    return {test for group, tests in members.items() for test in sample(tests, 1, "in turn", group)}


def fetched_or_full(there: bool, reason: str) -> Callable[[Test], Test]:
    """Return a decorator of tests that need something large: run where it is already.

    Args:
        there: it need not be fetched.
        reason: why `make test` does not fetch it; `make test-full` does.
    """

    def marked(test: Test) -> Test:
        return test if there else pytest.mark.full(reason)(test)

    return marked


def examples(test: int, full: int, **settings: Any) -> hypothesis.settings:
    """Return hypothesis settings with ``test`` examples in `make test` and ``full`` in the other.

    Args:
        test: examples in `make test`.
        full: examples in `make test-full`.
        settings: further ones, as for ``hypothesis.settings``.
    """
    return hypothesis.settings(
        max_examples=full if FULL else test,
        deadline=None,
        **{"suppress_health_check": list(HealthCheck), **settings},
    )
