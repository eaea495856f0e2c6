"""Pages of the documentation as programs: their blocks run in order, what they print is compared.

A page is Markdown with fenced blocks:

* ``console``: lines that begin with ``$`` are commands; what follows each is what it prints.
  Known without a program are ``export``, ``python FILE`` and ``. FILE`` with lines of ``export``.
* ``python``: is run, all blocks of a page in one namespace; a ``text`` block right after it is what
  it prints.
* any block with ``title="NAME"``: is written to the file of that name.

What differs between two runs (times, ids, sizes, durations, users) is left out of the comparison;
``…`` stands for the rest of a line, and alone on a line for any lines.

With ``FIRNLINE_WRITE_PAGES=1`` a mismatch is no failure: the page is given what was printed.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.cli import Outcome

_FENCE = re.compile(r"^```(\w+)(?: title=\"([^\"]+)\")?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_VARIES = (
    (re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)"), "<time>"),
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"), "<id>"),
    (re.compile(r"\b\d{13}_"), "<ms>_"),
    (re.compile(r"\b\d+(\.\d+)?(ms|s)\b"), "<duration>"),
    (re.compile(r"\b\d[\d,]*(\.\d+)? (B|KiB|MiB|GiB)(?!\w)"), "<size>"),
    (re.compile(r"\bbytes_\w+ [\d,]+|\bseconds [\d.]+"), "<figure>"),
    (re.compile(r"\b[\w-]+@[\w.-]+"), "<who>"),
    # Columns of a table are as wide as what stands in them.
    (re.compile(r"─+"), "─"),
    (re.compile(r"[ \t]+"), " "),
)
ANY = "…"
WRITING = os.environ.get("FIRNLINE_WRITE_PAGES") == "1"


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    language: str
    title: str | None
    body: str
    section: str
    """The heading of second level that it stands below; empty before the first."""
    line: int
    """Number of its first line, the fence."""


@dataclass(frozen=True)
class Command:
    """A command line of a ``console`` block, and what the page says that it prints."""

    written: str
    """As it stands in the page, with its ``$`` and line breaks."""
    prints: str

    @property
    def line(self) -> str:
        """The command line in one line."""
        return re.sub(r"\s*\\\n\s*", " ", self.written.removeprefix("$ ")).rstrip()


def blocks(text: str, sections: Sequence[str] | None = None) -> Iterator[Block]:
    """Yield the fenced blocks of a page in order; with ``sections`` only those below them."""
    for found in _FENCE.finditer(text):
        headings = re.findall(r"^## (.+)$", text[: found.start()], re.MULTILINE)
        section = headings[-1] if headings else ""
        if sections is None or section in sections:
            line = text.count("\n", 0, found.start()) + 1
            yield Block(found[1], found[2], found[3], section, line)


def commands(body: str) -> Iterator[Command]:
    """Yield the command lines of a ``console`` block; a backslash continues a line."""
    for found in re.finditer(r"^(\$ (?:.*\\\n)*.*\n)((?:(?!\$ ).*\n)*)", body, re.MULTILINE):
        yield Command(found[1], found[2])


def comparable(text: str) -> list[str]:
    """Return the lines of an output without what differs between two runs."""
    for pattern, name in _VARIES:
        text = pattern.sub(name, text)
    return [line.strip() for line in text.splitlines() if line.strip()]


def differs(said: str, printed: str) -> str | None:
    """Return None if the page says what was printed, else the first thing in which it does not."""
    wanted, found = comparable(said), comparable(printed)
    pattern = "".join(
        r"(?:.*\n)*" if each == ANY else re.escape(each).replace(ANY, ".*") + "\n"
        for each in wanted
    )
    if re.fullmatch(pattern, "".join(f"{line}\n" for line in found)):
        return None
    return "\n".join(["the page says:", *wanted, "", "but this was printed:", *found])


Program = Callable[[Sequence[str]], Outcome]
"""Runs a command line, which is given without the name of its program."""


@dataclass
class Reader:
    """Follows a page in the working folder, as somebody would who copies block after block.

    A mismatch is an AssertionError that names the line of the page.
    """

    programs: Mapping[str, Program]
    """By the name of the program."""
    printed: Callable[[], str]
    """Returns what was printed to standard output since the last call."""
    env: Callable[[str, str], None]
    """Sets a variable of the environment."""
    instead: Mapping[str, str] = field(default_factory=dict)
    """Texts of the page that stand for something else here, such as the place of a bucket."""
    names: dict[str, Any] = field(default_factory=dict)
    """The namespace of the Python blocks."""
    outputs: dict[int, str] = field(default_factory=dict)
    """What blocks have to say, by their line."""

    def follow(self, found: Sequence[Block]) -> None:
        """Run blocks of the page, which follow each other."""
        for block, after in zip(found, [*found[1:], None], strict=True):
            if block.title is not None:
                Path(block.title).write_text(self._here(block.body), encoding="utf-8")
            elif block.language == "console":
                self.console(block)
            elif block.language == "python":
                printed = self.run_python(block.body)
                if after is not None and after.language == "text":
                    self.outputs[after.line] = self.check(after.line, after.body, printed)
                else:
                    assert printed == "", f"line {block.line}: the page does not say: {printed}"

    def console(self, block: Block) -> None:
        """Run the command lines of a block."""
        shown = ""
        for command in commands(block.body):
            printed = self.shell(command.line)
            said = self.check(f"{block.line}: {command.line}", command.prints, printed)
            shown += command.written + said
        self.outputs[block.line] = shown

    def check(self, where: int | str, said: str, printed: str) -> str:
        """Compare what the page says with what was printed; return what it has to say."""
        difference = differs(self._here(said), printed)
        if difference is None or WRITING:
            return said if difference is None else self._there(printed)
        raise AssertionError(f"line {where}: {difference}")

    def shell(self, line: str) -> str:
        """Run one command line; return what it prints."""
        line, _, file = self._here(line).partition(" > ")
        program, *arguments = shlex.split(os.path.expandvars(line), comments=True)
        if program == "export":
            for each in arguments:
                self.env(*each.split("=", 1))
            return ""
        if program == ".":
            (sourced,) = arguments
            return "".join(map(self.shell, Path(sourced).read_text(encoding="utf-8").splitlines()))
        if program == "python":
            (script,) = arguments
            return self.run_python(Path(script).read_text(encoding="utf-8"), {})
        done = self.programs[program](arguments)
        assert done.code == 0, f"{line}: exit code {done.code}: {done.err}"
        if file:
            Path(file).write_text(done.out, encoding="utf-8")
        return "" if file else done.out

    def run_python(self, code: str, names: dict[str, Any] | None = None) -> str:
        """Run a block; return what it prints."""
        self.printed()
        exec(self._here(code), self.names if names is None else names)  # noqa: S102 - our own page
        return self.printed()

    def write(self, page: Path) -> None:
        """Give the page what was printed."""
        text = page.read_text(encoding="utf-8")
        for found in reversed(list(_FENCE.finditer(text))):
            line = text.count("\n", 0, found.start()) + 1
            if line in self.outputs:
                text = text[: found.start(3)] + self.outputs[line] + text[found.end(3) :]
        page.write_text(text, encoding="utf-8")

    def _here(self, text: str) -> str:
        for said, meant in self.instead.items():
            text = text.replace(said, meant)
        return text

    def _there(self, text: str) -> str:
        for said, meant in self.instead.items():
            text = text.replace(meant, said)
        return text.rstrip("\n") + "\n"
