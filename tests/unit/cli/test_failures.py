from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from firnline.cli import failures
from firnline.cli.app import app
from firnline.cli.failures import TAKE_A_TABLE, Manner, nothing_begun, runnable, sentence, tell
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
    # Another command needs more than a table, and this one is of another table.
    other = "rename it with `firnline evolve`, see `firnline merge other`"
    assert runnable(other) == other
    failures.given("other", "other", None)
    assert runnable("see `firnline parts`") == "see `firnline parts`"


def test_a_table_is_all_that_commands_named_alone_need() -> None:
    every: Any = typer.main.get_command(app)
    for name in TAKE_A_TABLE:
        needed = [param.name for param in every.commands[name].params if param.required]
        assert needed == ["table"], name
