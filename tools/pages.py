"""What the build of the site adds to pages: widths of tables, and what the search goes by.

mkdocs loads this file by its path (``hooks`` in mkdocs.yml). The pages stay plain Markdown, and
those that are generated need no front matter.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from typing import Any

EXPLAINS, LOOKED_UP, FIGURES = 1_000_000, 1_000, 1
"""What a hit of the search is worth. A word of a heading counts a thousand times as much as one of
the text, so that no heading of what is only looked up comes before the text of a page that
explains, and none over figures before anything. Whole numbers: the search rounds to a thousandth.
"""
WEIGHTS = {
    "benchmarks.md": FIGURES,
    "measured.md": FIGURES,
    "testing.md": LOOKED_UP,
    "rfcs/": LOOKED_UP,
    "api.md": LOOKED_UP,
}
"""By the beginning of a page's path; the other pages explain."""
LONG_NAME = 20
"""Characters of a name that may be broken, behind its dots, slashes and underscores. A shorter one,
such as that of an option, is not."""
LONG_CELL = 60
"""Characters of a cell that no phone shows beside two others."""

_TABLE = re.compile(r"<table>.*?</table>", re.DOTALL)
_ROW = re.compile(r"<tr>.*?</tr>", re.DOTALL)
_CELL = re.compile(r"<(t[hd])((?: [^>]*)?)>(.*?)</\1>", re.DOTALL)
_NAME = re.compile(r"(?<!<pre>)<code>([^<\s]+)</code>")
_TAG = re.compile(r"<[^>]+>")
_JOINT = re.compile(r"(?<=[\w\])}])(::|[./_:=])(?=[\w\[({*])")


def on_page_markdown(markdown: str, *, page: Any, **_: object) -> str:
    """Weigh a page for the search."""
    page.meta["search"] = {"boost": weight(page.file.src_uri)}
    return markdown


def on_page_content(content: str, *, page: Any, **_: object) -> str:
    """Return a page that can be read on a phone, and whose figures are not searched."""
    figures = weight(page.file.src_uri) == FIGURES
    content = _TABLE.sub(lambda found: table(found[0], searched=not figures), content)
    return _NAME.sub(lambda found: name(found[1]), content)


def weight(path: str) -> int:
    """Return what a hit on a page of ``docs/`` is worth."""
    return next((w for start, w in WEIGHTS.items() if path.startswith(start)), EXPLAINS)


def table(text: str, *, searched: bool = True) -> str:
    """Return a table, with its cells labelled if its rows are stacked on a phone."""
    head, *body = (list(cells(row)) for row in _ROW.findall(text))
    stacks = len(head) > 2 and any(len(cell) > LONG_CELL for row in body for cell in row[1:])
    if stacks:
        text = _ROW.sub(lambda row: _labelled(row[0], head), text)
    marks = " data-stacks" * stacks + " data-search-exclude" * (not searched)
    return text.replace("<table>", f"<table{marks}>", 1)


def cells(row: str) -> Iterator[str]:
    """Yield the text of each cell of a row."""
    for cell in _CELL.finditer(row):
        yield html.unescape(_TAG.sub("", cell[3])).strip()


def _labelled(row: str, head: list[str]) -> str:
    labels = iter(head)

    def label(cell: re.Match[str]) -> str:
        said = html.escape(next(labels, ""))
        mark = f' data-label="{said}"' if cell[1] == "td" and said else ""
        return f"<{cell[1]}{cell[2]}{mark}>{cell[3]}</{cell[1]}>"

    return _CELL.sub(label, row)


def name(text: str) -> str:
    """Return a name as code: whole, or with places to break it at if it is long."""
    if len(html.unescape(text)) <= LONG_NAME:
        return f"<code data-whole>{text}</code>"
    broken = _JOINT.sub(r"\1<wbr>", text)
    return f"<code>{broken}</code>"
