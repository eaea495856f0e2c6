"""Each hazard of docs/guarantees.md has tests of its number, and each test of a hazard its row."""

from __future__ import annotations

import re

from tools.bootstrap import REPO

PAGE = (REPO / "docs" / "guarantees.md").read_text(encoding="utf-8")
SECTION = PAGE.partition("\n## Hazards\n")[2].partition("\n## ")[0]
ROWS = re.findall(r"^\| (\d+) \| (.+?) \| (.+?) \| (.+?) \|$", SECTION, re.MULTILINE)


def numbers() -> set[int]:
    """The numbers of the hazards that have tests."""
    found: set[int] = set()
    for path in (REPO / "tests" / "hazards").glob("test_*.py"):
        for test in re.findall(r"^def (test_\w+)", path.read_text(encoding="utf-8"), re.MULTILINE):
            number = re.match(r"test_hazard_(\d\d)_", test)
            assert number, f"{path.name}: {test} has no number of a hazard"
            found.add(int(number[1]))
    return found


def test_the_hazards_are_numbered_in_order_and_each_row_says_what_holds() -> None:
    assert [int(number) for number, *_ in ROWS] == list(range(1, 26))
    assert all("](" in holds for _, _, holds, _ in ROWS), "each rule links to the format"


def test_each_hazard_has_a_test_of_its_number_and_no_other_number_has() -> None:
    assert numbers() == {int(number) for number, *_ in ROWS}
