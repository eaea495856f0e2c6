from __future__ import annotations

import pytest

from firnline.cli.failures import Manner, sentence, tell
from firnline.errors import FirnlineError

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
