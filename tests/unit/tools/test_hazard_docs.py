"""docs/hazards.md names twenty-five hazards, tests that exist, and all of them."""

from __future__ import annotations

import re

from tools.bootstrap import REPO

TEXT = (REPO / "docs" / "hazards.md").read_text(encoding="utf-8")
ROWS = {int(n): row for n, row in re.findall(r"^\| (\d+) (\|.+)$", TEXT, re.MULTILINE)}
FOLDERS = ("tests/hazards",)


def named(text: str) -> list[str]:
    """``path::test`` wherever the text says so."""
    return re.findall(r"`(tests/\S+\.py::test_\w+)`", text)


def there_are() -> set[str]:
    """``path::test`` of every test of a hazard."""
    return {
        f"{path.relative_to(REPO)}::{test}"
        for folder in FOLDERS
        for path in (REPO / folder).glob("test_*.py")
        for test in re.findall(r"^def (test_\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    }


def test_there_are_twenty_five_and_each_has_a_test_of_its_number() -> None:
    assert list(ROWS) == list(range(1, 26))
    for number, row in ROWS.items():
        tests = named(row)
        assert tests
        assert all(f"::test_hazard_{number:02}_" in test for test in tests)


def test_every_test_that_is_named_exists_and_none_is_left_out() -> None:
    found = named(TEXT)
    assert len(found) == len(set(found))
    assert set(found) == there_are()


def test_every_rule_that_is_linked_has_its_heading() -> None:
    for page, anchor in re.findall(r"\]\((\w+\.md)#?([\w-]*)\)", TEXT):
        text = (REPO / "docs" / page).read_text(encoding="utf-8")
        headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
        anchors = {re.sub(r"[^\w -]", "", h.lower()).replace(" ", "-") for h in headings}
        assert not anchor or anchor in anchors, (page, anchor)
