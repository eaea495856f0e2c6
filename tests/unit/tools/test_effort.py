"""Samples of what is exhaustive, and how tests are spread over processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import effort
from tests.support.effort import sample
from tests.support.side_by_side import FIRST, SCATTERED, TOGETHER, room

REPO = Path(__file__).resolve().parents[3]
POINTS = list(range(100))


@pytest.fixture
def at_commit(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setattr(effort, "FULL", False)
    monkeypatch.setattr(effort, "sample_name", lambda: "a commit")
    return monkeypatch


def test_a_commit_has_one_sample_in_order_and_without_repeats(
    at_commit: pytest.MonkeyPatch,
) -> None:
    found = sample(POINTS, 7, "sweep")
    assert found == sample(POINTS, 7, "sweep")
    assert found == sorted(set(found))
    assert len(found) == 7


def test_each_point_has_its_turn_within_some_commits(at_commit: pytest.MonkeyPatch) -> None:
    seen: set[int] = set()
    for number in range(100):
        at_commit.setattr(effort, "sample_name", lambda number=number: f"commit {number}")
        seen |= set(sample(POINTS, 7, "sweep"))
    assert seen == set(POINTS)


def test_samples_of_one_commit_differ_from_each_other(at_commit: pytest.MonkeyPatch) -> None:
    assert len({tuple(sample(POINTS, 7, name)) for name in "abcdefgh"}) > 4


@pytest.mark.parametrize("count", [100, 101])
def test_a_sample_of_all_is_all(at_commit: pytest.MonkeyPatch, count: int) -> None:
    assert sample(POINTS, count) == POINTS


def test_everything_is_tried_in_full(at_commit: pytest.MonkeyPatch) -> None:
    at_commit.setattr(effort, "FULL", True)
    assert sample(POINTS, 1) == POINTS


def test_what_shares_a_session_of_spark_stays_in_one_process() -> None:
    assert room("tests/spark/test_run.py::test_a") == room("tests/e2e/test_cli_spark.py::test_b")
    assert room("tests/dags/test_a.py::test_b[x::y]") == "tests/dags/test_a.py"


@pytest.mark.parametrize("path", [*TOGETHER, *SCATTERED, *FIRST])
def test_a_path_that_is_treated_in_its_own_way_exists(path: str) -> None:
    assert (REPO / path).exists()
