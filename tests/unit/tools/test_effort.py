"""Samples of what is exhaustive, and how tests are spread over processes."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support import effort
from tests.support.effort import sample
from tests.support.side_by_side import (
    FIRST,
    LONG,
    REST,
    SCATTERED,
    TOGETHER,
    Rooms,
    holds_none,
    room,
)

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


class Process:
    """A process of a run, which notes the tests that it is told to run."""

    def __init__(self) -> None:
        self.gateway = SimpleNamespace(id="gw0")
        self.shutting_down = False
        self.told: list[int] = []

    def send_runtest_some(self, tests: list[int]) -> None:
        self.told += tests

    def shutdown(self) -> None:
        self.shutting_down = True


def test_rooms_begin_in_the_order_of_the_tests_however_many_tests_they_have() -> None:
    # As a run's options are unless told otherwise: those of many tests would begin first.
    option = SimpleNamespace(loadscopereorder=True, debug=None)
    config: Any = SimpleNamespace(option=option, getvalue=lambda name: ["popen"])
    rooms, process = Rooms(config, None), Process()
    rooms.add_node(process)
    tests = ["tests/long.py::test_a", *(f"tests/many.py::test_{n}" for n in range(3))]
    rooms.add_node_collection(process, tests)
    rooms.schedule()
    assert process.told[0] == 0


def test_of_unit_tests_the_rest_reads_only_files_that_hold_long_ones() -> None:
    unit = REPO / "tests" / "unit"
    assert holds_none(unit / "types" / "test_calendar.py", REST)
    assert not holds_none(unit / "types" / "test_calendar.py", "not long"), "another run"
    assert not holds_none(unit / "tools" / "test_mutations.py", REST), "it has long ones"
    assert not holds_none(unit / "conftest.py", REST)
    assert not holds_none(unit / "tools", REST)
    assert not holds_none(REPO / "tests" / "ci" / "test_turns.py", REST), "not a unit test"


def test_the_makefile_gives_the_marks_of_the_rest() -> None:
    assert f"-m '{REST}' tests\n" in (REPO / "Makefile").read_text(encoding="utf-8")


def test_long_tests_are_marked_in_their_own_file() -> None:
    others = [
        str(path)
        for path in (REPO / "tests").rglob("*.py")
        if not path.name.startswith("test_") and LONG in path.read_text("utf-8")
    ]
    assert others == [str(REPO / "tests" / "support" / "side_by_side.py")]
