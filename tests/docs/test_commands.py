"""Every command line in README, docs/ and messages is one: its command and options exist."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.exceptions import TyperException

from firnline.cli.app import root_command
from firnline.cli.failures import TAKE_A_TABLE, TAKE_SETTINGS, given, nothing_begun, runnable
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
    command = root_command()
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
        found, *_ = command.make_parser(context).parse_args([*words, *["VALUE"] * line.mention])
    except TyperException as error:
        return f"{where}: {error}"
    lacking = [
        param.name for param in command.params if param.required and not found.get(param.name)
    ]
    if lacking and not line.mention and "..." not in line.text and "--help" not in words:
        return f"{where}: without {', '.join(lacking)}"
    return None


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


def texts(module: Path) -> Iterator[tuple[int, str]]:
    """Yield the texts of a module but docstrings and examples of commands, each with its line.

    What a text takes from variables is the name of the table.
    """
    tree = ast.parse(module.read_text(encoding="utf-8"))
    documented = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    examples = {
        id(piece)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "command"
        for piece in ast.walk(node)
    }
    inner = {
        id(piece)
        for node in ast.walk(tree)
        if isinstance(node, ast.JoinedStr)
        for piece in ast.walk(node)
        if piece is not node
    }
    passed_over = documented | examples | inner
    for node in ast.walk(tree):
        if id(node) in passed_over:
            continue
        if isinstance(node, ast.JoinedStr):
            pieces = (p.value if isinstance(p, ast.Constant) else "events" for p in node.values)
            yield node.lineno, "".join(map(str, pieces))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


def hints(module: Path) -> Iterator[Called]:
    """Yield the command lines in a module's texts, as a command line with a table shows them."""
    for line, text in texts(module):
        for shown in re.finditer(r"`(firnline [a-z][^`]*)`", runnable(text)):
            yield Called(str(module.relative_to(REPO)), line, shown[1])


ALONE = re.compile(r"firnline [a-z]")
"""The beginning of a text that is a command line, which what prints it completes."""
COMMAND = re.compile(rf"\bfirnline (?:{'|'.join((*TAKE_A_TABLE, *TAKE_SETTINGS))})\b")


@pytest.fixture
def with_table() -> Iterator[None]:
    nothing_begun()  # by a test before it in this process
    given("events", "file:///my lake/events", Path("my tables.yaml"))
    yield
    nothing_begun()


@pytest.mark.usefixtures("with_table")
def test_every_command_line_of_a_message_runs_when_it_is_copied() -> None:
    found = [line for path in (REPO / "include/firnline").rglob("*.py") for line in hints(path)]
    assert len(found) > 100
    assert [said for line in found if (said := problem(line))] == []


def test_a_command_line_within_a_message_stands_in_backticks() -> None:
    """Only those are completed by the table and the settings file of the command line."""
    assert [
        f"{path.relative_to(REPO)}:{line}: {text}"
        for path in (REPO / "include/firnline").rglob("*.py")
        for line, text in texts(path)
        if "\nExamples:\n" not in text
        and not ALONE.match(text)
        and COMMAND.search(re.sub(r"`[^`]*`", "", text))
    ] == []


@pytest.mark.usefixtures("with_table")
def test_a_hint_without_its_table_or_an_option_that_it_needs_is_found() -> None:
    assert "without files" in (problem(Called("page", 1, "firnline append events")) or "")
    assert "without table" in (problem(Called("page", 1, "firnline read")) or "")
    assert runnable("`firnline schema fix --all-parts`") == (
        "`firnline schema fix 'file:///my lake/events' --settings 'my tables.yaml' --all-parts "
        "--column COLUMN --type TYPE`"
    )
