"""How much is tried: `make test` takes a sample of what `make test-full` tries exhaustively.

A sample is deterministic for a commit and differs between commits, so that every point has its
turn. The header of a run names it; ``FIRNLINE_TEST_SAMPLE`` plays that sample again, and
``FIRNLINE_TESTS=turns`` runs every test that takes turns with others, each on its sample.
``FIRNLINE_TESTS=few`` is for a machine on which all of `make test` would take hours.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import hypothesis
import pytest
from hypothesis import HealthCheck

from tools.samples import sample_name

FULL = os.environ.get("FIRNLINE_TESTS") == "full"
"""True in `make test-full`: everything is tried."""
_ALL_TURNS = FULL or os.environ.get("FIRNLINE_TESTS") == "turns"
FEW = os.environ.get("FIRNLINE_TESTS") == "few"
"""True where `make test` is given little of its machine (`tools/machine.py`)."""
_FEW_OF = 12
_FEW_OF_UNIT = 6
_FEW_TESTS = 10
_OF_SERVICES = ("dags", "matrix", "spark")
"""Folders of tests whose Airflow or Spark alone takes all that such a machine gives."""
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
    return set(groups) if _ALL_TURNS else _of_each(groups, lambda _: 1, "in turn")


def _of_each(groups: Mapping[T, str], count: Callable[[int], int], what: str) -> set[T]:
    """Return a sample of each group.

    Args:
        groups: member -> the name of its group.
        count: how many of so many members.
        what: as for ``sample``.
    """
    members: dict[str, list[T]] = {}
    for member in sorted(groups, key=str):
        members.setdefault(groups[member], []).append(member)
    return {
        member
        for group, all_of_it in members.items()
        for member in sample(all_of_it, count(len(all_of_it)), what, group)
    }


def few_of(files: Sequence[Path], tests: Path) -> set[Path]:
    """Return the files whose tests ``FIRNLINE_TESTS=few`` runs, other ones for other commits.

    One of six of the unit tests and one of twelve in each other folder, at least one; no other
    file is imported, which alone takes minutes there. None that need a scheduler or a session of
    Spark.

    Args:
        files: all there are.
        tests: the folder that they are in.
    """
    folders = {file: file.relative_to(tests).parts[0] for file in files}
    unit = {file: folder for file, folder in folders.items() if folder == "unit"}
    others = {
        file: folder for file, folder in folders.items() if folder not in ("unit", *_OF_SERVICES)
    }
    return {
        *_of_each(unit, lambda count: -(-count // _FEW_OF_UNIT), "few"),
        *_of_each(others, lambda count: -(-count // _FEW_OF), "few"),
    }


def some_of(tests: Collection[str]) -> set[str]:
    """Return the tests that ``FIRNLINE_TESTS=few`` runs of its files: at most ten of each.

    Args:
        tests: their ids, which begin with the path.
    """
    return _of_each({test: test.partition("::")[0] for test in tests}, lambda _: _FEW_TESTS, "few")


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
