from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from firnline.cli import failures
from firnline.cli.app import app
from firnline.cli.failures import (
    TAKE_A_TABLE,
    TAKE_SETTINGS,
    Manner,
    nothing_begun,
    runnable,
    sentence,
    tell,
)
from firnline.errors import FirnlineError


@pytest.fixture(autouse=True)
def _one_command_line() -> Iterator[None]:
    nothing_begun()
    yield
    nothing_begun()


HOSTILE = "partition \x1b[31mred\u202e"


@pytest.mark.parametrize("message", [HOSTILE, f"several:\n  {HOSTILE}"])
def test_what_an_error_names_cannot_drive_the_terminal(message: str) -> None:
    """Not every message quotes the names that it takes from the table."""
    told = sentence(FirnlineError(message, next_step="look at it"))
    assert "\\x1b[31mred\\u202e" in told
    assert all(c.isprintable() or c == "\n" for c in told)


def test_neither_can_a_bug_nor_a_note(capsys: pytest.CaptureFixture[str]) -> None:
    error = ValueError(HOSTILE)
    error.add_note(HOSTILE)
    assert tell(error, Manner()) == 1
    assert capsys.readouterr().err.count("\\x1b[31mred\\u202e") == 2


@pytest.mark.parametrize(
    ("target", "settings", "typed"),
    [
        ("events", None, "events"),
        ("file:///my lake/events", None, "'file:///my lake/events'"),
        ("events", Path("my\\tables.yaml"), "events --settings 'my\\tables.yaml'"),
    ],
)
def test_commands_in_messages_name_the_table_as_the_command_line_did(
    target: str, settings: Path | None, typed: str
) -> None:
    assert runnable("see `firnline parts`") == "see `firnline parts`"
    failures.given("events", target, settings)
    assert runnable("run `firnline plan merge events` or `firnline parts`") == (
        f"run `firnline plan merge {typed}` or `firnline parts {typed}`"
    )
    assert runnable("`firnline append TABLE FILE`") == f"`firnline append {typed} FILE`"
    option = "" if settings is None else f" --settings '{settings}'"
    assert runnable("run `firnline settings check`") == f"run `firnline settings check{option}`"
    for other in ("see `firnline merge other`", "see `firnline merge --help`"):
        assert runnable(other) == other
    failures.given("other", "other", None)
    assert runnable("see `firnline parts`") == "see `firnline parts`"


def test_the_commands_that_take_a_table_or_a_settings_file_are_known() -> None:
    takes: dict[bool, set[str]] = {True: set(), False: set()}
    for name, command in commands_of(typer.main.get_command(app)):
        first = next((p.name for p in command.params if p.param_type_name == "argument"), "")
        if any(param.name == "settings" for param in command.params):
            takes[first == "table"].add(name)
    assert takes[True] == {*TAKE_A_TABLE} - {"schema", "properties"}
    assert takes[False] - {"clone"} == {*TAKE_SETTINGS}


def commands_of(command: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """The commands of a program, each with the words that call it."""
    for word, inner in getattr(command, "commands", {}).items():
        yield from commands_of(inner, f"{name} {word}".strip())
    if not hasattr(command, "commands"):
        yield name, command
