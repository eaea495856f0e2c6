"""The cells of the matrix, and what a run of `make test` takes of those that take turns."""

from __future__ import annotations

import pytest

from tools.bootstrap import REPO
from tools.matrix import CELLS, SLICES, Turn, chosen


def test_every_cell_has_tests_and_a_name_of_its_own() -> None:
    assert len({cell.name for cell in CELLS}) == len(CELLS)
    for cell in CELLS:
        folder = REPO if cell.units else REPO / "tests" / "matrix"
        assert (folder / cell.test).exists(), cell.name


def test_each_change_runs_the_cells_that_are_not_of_the_night() -> None:
    names = {cell.name for cell in chosen([], all_of_them=False)}
    assert {"airflow-3.1", "airflow-3.2", "airflow-3.4", "spark-3.5", "lowest"} <= names
    assert not {cell.name for cell in CELLS if cell.nightly} & names


@pytest.mark.parametrize("what", ["merges", "units"])
def test_every_airflow_has_its_turn(what: str) -> None:
    seen = {getattr(Turn.of(CELLS, f"{number:012x}"), what) for number in range(200)}
    kind = {"merges": "airflow", "units": "units"}[what]
    assert seen == {f"{kind}-{minor}" for minor in ("3.1", "3.2", "3.4")}


def test_every_slice_of_the_unit_tests_has_its_turn_on_every_airflow() -> None:
    turns = [Turn.of(CELLS, f"{number:012x}") for number in range(400)]
    assert len({(turn.units, turn.number % SLICES) for turn in turns}) == 3 * SLICES


def test_a_turn_is_that_of_its_commit() -> None:
    assert Turn.of(CELLS, "18f0e89b47da") == Turn.of(CELLS, "18f0e89b47da")
