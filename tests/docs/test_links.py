"""Every relative link of every page leads somewhere, and its anchor is a heading there."""

from __future__ import annotations

import functools
import re
from pathlib import Path

import pytest

from tests.support.markdown import anchors, links, pages
from tools.bootstrap import REPO

PAGES = pages()


@functools.cache
def headings(page: Path) -> frozenset[str]:
    return frozenset(anchors(page.read_text(encoding="utf-8")))


def broken(page: Path, text: str) -> list[str]:
    found = []
    for line, target in links(text):
        path, _, anchor = target.partition("#")
        there = page.parent / path
        if path and not there.exists():
            found.append(f"{page.relative_to(REPO)}:{line}: {target}: no such file")
        elif anchor and anchor not in (headings(there) if path else anchors(text)):
            found.append(f"{page.relative_to(REPO)}:{line}: {target}: no such heading")
    return found


def test_there_are_as_many_links_as_the_page_of_tests_says() -> None:
    assert len(PAGES) > 30
    page = (REPO / "docs" / "testing.md").read_text(encoding="utf-8")
    (said,) = re.findall(r"at least (\d+) links", page)
    found = sum(1 for page in PAGES for _ in links(page.read_text(encoding="utf-8")))
    assert 0 <= found - int(said) < 100, "correct the page"


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(REPO)) for page in PAGES])
def test_no_link_is_broken(page: Path) -> None:
    assert broken(page, page.read_text(encoding="utf-8")) == []


def test_a_broken_link_is_found() -> None:
    said = broken(
        REPO / "docs" / "page.md",
        "# One\n[a](#one) [b](#two) [c](no.md) ![d](img/no.png) `[e](no.md)`\n\n    [f](no.md)\n",
    )
    assert [line.split(": ", 1)[1] for line in said] == [
        "#two: no such heading",
        "no.md: no such file",
        "img/no.png: no such file",
    ]
