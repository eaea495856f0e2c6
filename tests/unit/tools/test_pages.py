"""What the build of the site adds to pages, so that they can be read on a phone and searched."""

from __future__ import annotations

import re
from itertools import pairwise
from types import SimpleNamespace

import pytest

from tools import pages
from tools.bootstrap import REPO

LONG = "Size up to which parts are merged. Parts below three quarters of it count as small."


def shown(*rows: tuple[str, ...]) -> str:
    """A table as mkdocs writes it."""
    lines = "\n".join(
        "<tr>" + "".join(f"<{tag}>{cell}</{tag}>" for cell in row) + "</tr>"
        for row, tag in zip(rows, ["th", *["td"] * len(rows)], strict=False)
    )
    return f"<table>\n{lines}\n</table>"


def built(content: str, path: str = "settings.md") -> str:
    page = SimpleNamespace(file=SimpleNamespace(src_uri=path), meta={})
    return pages.on_page_content(content, page=page, config=None, files=None)


def test_a_row_with_a_long_cell_is_stacked_with_what_each_cell_is() -> None:
    found = built(shown(("setting", "type", "meaning"), ("a", "size", LONG), ("b", "", "short")))
    assert found.startswith("<table data-stacks>")
    assert '<td data-label="type">size</td>' in found
    assert f'<td data-label="meaning">{LONG}</td>' in found
    assert "<th>type</th>" in found


@pytest.mark.parametrize(
    "table",
    [
        shown(("contender", "median", "fastest"), (LONG, "5.07 s", "4.78 s")),
        shown(("to", "do"), ("leave", LONG)),
        shown(("line", "type", "content"), ("1", "m", "short")),
    ],
    ids=["figures of what is said at length", "two columns", "short cells"],
)
def test_other_tables_keep_their_rows(table: str) -> None:
    assert built(table) == table


def test_a_head_without_words_labels_nothing() -> None:
    found = built(shown(("", "<code>a &amp; b</code>", "x"), ("1", LONG, "y")))
    assert "<td>1</td>" in found
    assert f'<td data-label="a &amp; b">{LONG}</td>' in found


def test_a_long_name_breaks_at_its_joints_and_a_short_one_nowhere() -> None:
    assert built("<code>merge.target_size</code>") == "<code data-whole>merge.target_size</code>"
    assert (
        built("<code>tests/unit/test_x.py::test_that_it_holds</code>")
        == "<code>tests/<wbr>unit/<wbr>test_<wbr>x.<wbr>py::<wbr>test_<wbr>that_<wbr>it_<wbr>holds"
        "</code>"
    )
    assert built("<pre><code>word</code></pre>") == "<pre><code>word</code></pre>"
    assert built("<code>firnline merge</code>") == "<code>firnline merge</code>"


def test_figures_are_not_searched_and_count_least() -> None:
    figures = built(shown(("contender", "s"), ("firnline", "1")), "benchmarks.md")
    assert figures.startswith("<table data-search-exclude>")
    heading_over_text = 1_000
    ordered = ["operations.md", "rfcs/0001-sealed-log-files.md", "benchmarks.md"]
    weights = [pages.weight(path) for path in ordered]
    assert [a / b for a, b in pairwise(weights)] == [heading_over_text] * 2
    page = SimpleNamespace(file=SimpleNamespace(src_uri="benchmarks.md"), meta={"title": "T"})
    assert pages.on_page_markdown("text", page=page, config=None, files=None) == "text"
    assert page.meta == {"title": "T", "search": {"boost": 1}}


def test_every_weight_is_of_a_page_that_is_there() -> None:
    assert [path for path in pages.WEIGHTS if not (REPO / "docs" / path).exists()] == []


def test_what_the_style_sheet_and_the_build_speak_of_is_the_same() -> None:
    style = (REPO / "docs" / "stylesheets" / "tables.css").read_text(encoding="utf-8")
    table = shown(("setting", "type", "meaning"), ("<code>a</code>", "size", LONG))
    marked = set(re.findall(r"data-[a-z]+", built(table)))
    assert set(re.findall(r"data-[a-z]+", style)) == marked
