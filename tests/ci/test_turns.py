"""Tests of which `make test` runs one at each commit."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.support import effort
from tests.support.effort import few_of, in_turn, some_of

GROUPS = {"a": "letters", "b": "letters", "c": "letters", "1": "digits", "2": "digits"}


@pytest.fixture
def at_commit(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setattr(effort, "FULL", False)
    monkeypatch.setattr(effort, "sample_name", lambda: "a commit")
    return monkeypatch


def test_one_test_of_each_group_has_its_turn_whatever_their_order(
    at_commit: pytest.MonkeyPatch,
) -> None:
    chosen = in_turn(GROUPS)
    assert sorted(GROUPS[test] for test in chosen) == ["digits", "letters"]
    assert in_turn(dict(reversed(GROUPS.items()))) == chosen


def test_each_test_has_its_turn_within_some_commits(at_commit: pytest.MonkeyPatch) -> None:
    seen: set[str] = set()
    for number in range(50):
        at_commit.setattr(effort, "sample_name", lambda number=number: f"commit {number}")
        seen |= in_turn(GROUPS)
    assert seen == GROUPS.keys()


def test_in_full_all_of_them_run(at_commit: pytest.MonkeyPatch) -> None:
    at_commit.setattr(effort, "FULL", True)
    assert in_turn(GROUPS) == GROUPS.keys()


def test_the_only_one_that_is_asked_for_runs(at_commit: pytest.MonkeyPatch) -> None:
    assert in_turn({"b": "letters"}) == {"b"}


# --- FIRNLINE_TESTS=few ---------------------------------------------------------------------------

TESTS = Path("tests")
FILES = [
    TESTS / folder / f"test_{number}.py"
    for folder, count in (("kernel", 25), ("unit", 25), ("docs", 2), ("dags", 9), ("spark", 9))
    for number in range(count)
]


def test_few_are_a_sixth_of_unit_tests_a_twelfth_of_others_and_none_with_a_service(
    at_commit: pytest.MonkeyPatch,
) -> None:
    few = few_of(FILES, TESTS)
    assert Counter(file.parent.name for file in few) == {"docs": 1, "kernel": 3, "unit": 5}
    assert few_of(FILES[::-1], TESTS) == few


def test_each_file_without_a_service_is_among_the_few_within_some_commits(
    at_commit: pytest.MonkeyPatch,
) -> None:
    seen: set[Path] = set()
    for number in range(100):
        at_commit.setattr(effort, "sample_name", lambda number=number: f"commit {number}")
        seen |= few_of(FILES, TESTS)
    assert seen == {file for file in FILES if file.parent.name not in ("dags", "spark")}


def test_few_are_at_most_ten_tests_of_a_file(at_commit: pytest.MonkeyPatch) -> None:
    tests = [f"tests/doors/test_a.py::test[{n}]" for n in range(50)] + ["tests/ci/test_b.py::test"]
    some = some_of(tests)
    assert len(some) == 11
    assert "tests/ci/test_b.py::test" in some
    assert some_of(tests[::-1]) == some
