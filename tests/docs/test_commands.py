"""Every command line of firnline in README and docs/ is one: its command and options exist."""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.exceptions import TyperException

from firnline.cli.app import app
from tests.support.markdown import Called, called, pages
from tools.bootstrap import REPO

# The changelog speaks of what there was; the decisions of what there might have been.
PAGES = [page for page in pages() if page.name != "CHANGELOG.md" and page.parent.name != "rfcs"]


def problem(line: Called) -> str | None:
    """Return why a command line is none; None if it is one. Values are not looked at."""
    where = f"{line.page}:{line.line}: {line.text}"
    try:
        words = line.words
    except ValueError as error:
        return f"{where}: {error}"
    command = program()
    while inner := getattr(command, "commands", None):
        if not words and line.mention:
            return None
        name = words[0] if words else ""
        if name not in inner:
            # `firnline schema TABLE` is `firnline schema show TABLE`.
            if name and "show" in inner:
                break
            return f"{where}: no command {name!r}"
        command, words = inner[name], words[1:]
    try:
        context = command.context_class(command, info_name="firnline")
        command.make_parser(context).parse_args([*words, *["VALUE"] * line.mention])
    except TyperException as error:
        return f"{where}: {error}"
    return None


@functools.cache
def program() -> Any:
    """Return the command of commands; typer has its own copy of click, without types."""
    return typer.main.get_command(app)


def test_there_are_as_many_commands_as_the_page_of_tests_says() -> None:
    page = (REPO / "docs" / "testing.md").read_text(encoding="utf-8")
    (said,) = re.findall(r"at least\s+(\d+) command lines", page)
    found = sum(1 for page in PAGES for _ in called(page))
    assert 0 <= found - int(said) < 100, "correct the page"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("firnline marge events", "no command 'marge'"),
        ("firnline merge events --pertitions x", "No such option"),
        ("firnline merge events --partitions", "requires an argument"),
        ("firnline plan events", "no command 'events'"),
        ("firnline merge 'events", "No closing quotation"),
    ],
)
def test_what_is_no_command_line_is_found(text: str, said: str) -> None:
    assert said in (problem(Called("page", 1, text)) or "")


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(REPO)) for page in PAGES])
def test_every_command_line_is_one(page: Path) -> None:
    assert [found for line in called(page) if (found := problem(line))] == []
