"""Markdown pages of the repository: their links, the anchors of their headings, their commands."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tools.bootstrap import REPO

_FENCED = re.compile(r"^( *)```.*?^\1```", re.MULTILINE | re.DOTALL)
_INDENTED = re.compile(r"(?:(?<=\n\n)|\A)(?: {4}.*\n|\n(?= {4}))+", re.MULTILINE)
_SPAN = re.compile(r"`[^`]+`")
_LINK = re.compile(r"(?<!\\)\]\(([^()\s]+)\)|(?:src|srcset|href)=\"([^\"]+)\"")
_HEADING = re.compile(r"^#{1,6} +(.+?) *#*$", re.MULTILINE)


@dataclass(frozen=True)
class Called:
    """A command line of firnline in a page."""

    page: str
    line: int
    text: str
    mention: bool = False
    """True in the text, where a line may end after a group of commands or an option."""

    @property
    def words(self) -> list[str]:
        """Its words after the name of the program, up to what the shell does with it."""
        lexer = shlex.shlex(self.text, posix=True, punctuation_chars="|&;<>")
        lexer.whitespace_split = True
        words: list[str] = []
        for word in lexer:
            if set(word) <= set("|&;<>") or word.startswith("#"):
                break
            words.append(word)
        return words[1:]


def pages() -> list[Path]:
    """Return all Markdown files of the repository."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "*.md"],
        cwd=REPO,
        check=True,
        capture_output=True,
        text=True,
    )
    return [REPO / name for name in sorted(listed.stdout.split("\0")) if name]


def without_code(text: str) -> str:
    """Return a page without its code, line for line."""
    for pattern in (_FENCED, _INDENTED, _SPAN):
        text = pattern.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)
    return text


def _code(text: str) -> str:
    """Return the blocks of code of a page, line for line."""
    prose = without_code(text)
    lines = zip(text.split("\n"), prose.split("\n"), strict=True)
    return "\n".join("" if said.strip() else line for line, said in lines)


def links(text: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the target of every link and picture that is not an address."""
    for found in _LINK.finditer(without_code(text)):
        target = found[1] or found[2]
        if not re.match(r"[a-z]+:", target):
            yield text.count("\n", 0, found.start()) + 1, target


def anchors(text: str) -> set[str]:
    """Return the anchors of a page's headings, as GitHub and the site make them."""
    found: set[str] = set()
    fenced = _FENCED.sub(lambda code: re.sub(r"[^\n]", " ", code[0]), text)
    for heading in _HEADING.findall(fenced):
        plain = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", plain.lower()).strip().replace(" ", "-")
        number = 0
        while (name := f"{slug}-{number}" if number else slug) in found:
            number += 1
        found.add(name)
    return found


def called(page: Path) -> Iterator[Called]:
    """Yield the command lines of firnline in a page: in blocks of code and in the text."""
    text = page.read_text(encoding="utf-8").replace("\\\n", "  ")
    name = str(page.relative_to(REPO))
    starts = r"(?:^ *(?:\$ )?|&& *|-c, \")"
    for found in re.finditer(rf"{starts}(firnline [a-z][^\n]*)", _code(text), re.MULTILINE):
        yield Called(name, text.count("\n", 0, found.start(1)) + 1, found[1].split('"]')[0])
    for span in re.finditer(r"`(firnline [a-z][^`]*)`", text):
        said = re.sub(r"\s+", " ", span[1])
        yield Called(name, text.count("\n", 0, span.start()) + 1, said, mention=True)
