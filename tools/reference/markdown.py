"""Tables in GitHub's Markdown, and the marked blocks of a page that hold generated text.

A block begins with ``<!-- generated: NAME -->`` and ends with ``<!-- end -->``, each on a line of
its own. Everything outside of the blocks is written by hand and never changed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

_BLOCK = re.compile(
    r"^<!-- generated: (?P<name>[^\n]+?) -->\n(?P<body>.*?)^<!-- end -->$", re.MULTILINE | re.DOTALL
)
_MARK = re.compile(r"^<!-- (?:generated: .*|end) -->$", re.MULTILINE)
_CODE = re.compile(r"(`[^`]*`)")
_NAME = re.compile(
    r"(?<![\w/:'*.$-])("
    r"--[a-z][a-z-]*"  # an option
    r"|\$[A-Z_]{3,}"  # an environment variable
    r"|[a-z]+(?:[._][a-z]+)+"  # a setting
    r"|_rows"
    r"|null(?=:)"
    r")(?![\w/'*=(-]|:/)"
)


class PageError(Exception):
    """A page lacks a block, or has one that nothing is generated for."""


def block(name: str, body: str) -> str:
    """Return a whole block: the markers, and the text between them."""
    return f"<!-- generated: {name} -->\n\n{body.strip()}\n\n<!-- end -->"


def fill(text: str, blocks: Mapping[str, str]) -> str:
    """Return a page with the bodies of all its blocks replaced.

    Raises:
        PageError: a block is missing, unknown, there twice, or not closed.
    """
    found = [match["name"] for match in _BLOCK.finditer(text)]
    if 2 * len(found) != len(_MARK.findall(text)):
        raise PageError("a block is not closed: each needs one line <!-- end -->")
    twice = {name for name in found if found.count(name) > 1}
    if twice:
        raise PageError(f"the block {min(twice)!r} occurs twice; keep one")
    for name in blocks:
        if name not in found:
            raise PageError(
                f"the block {name!r} is missing; write the lines <!-- generated: {name} --> and "
                "<!-- end --> where it belongs"
            )
    for name in found:
        if name not in blocks:
            raise PageError(f"nothing is generated for the block {name!r}; remove it")
    return _BLOCK.sub(lambda match: block(match["name"], blocks[match["name"]]), text)


def stale(text: str, blocks: Mapping[str, str]) -> list[str]:
    """Return the names of the blocks whose text on the page is not the generated one.

    Raises:
        PageError: as ``fill``.
    """
    fill(text, blocks)
    return [m["name"] for m in _BLOCK.finditer(text) if m[0] != block(m["name"], blocks[m["name"]])]


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table. Cells hold Markdown; a bar in one is escaped."""
    lines = [list(header), ["---"] * len(header), *rows]
    return "\n".join(_line(line) for line in lines)


def _line(cells: Sequence[str]) -> str:
    inner = " | ".join(" ".join(cell.split()).replace("|", r"\|") for cell in cells)
    return f"| {inner} |".replace("|  |", "| |").replace("|  |", "| |")


def code(text: object) -> str:
    """Return text as code."""
    return f"`{text}`"


def prose(text: str) -> str:
    """Return plain text as Markdown: names of options, variables and settings become code.

    What stands between backticks stays as it is.
    """
    parts = _CODE.split(text)
    return "".join(part if i % 2 else _plain(part) for i, part in enumerate(parts))


def _plain(text: str) -> str:
    escaped = text.replace("*", r"\*").replace("<", "&lt;")
    return _NAME.sub(lambda match: code(match[0]), escaped)
