"""Tests of which `make test` runs one at each commit."""

from __future__ import annotations

import pytest

from tests.support import effort
from tests.support.effort import in_turn

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
