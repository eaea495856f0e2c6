"""How far a deletion is: a bar on a terminal, lines of what takes long, nothing with --json."""

from __future__ import annotations

import io
import sys

import pytest

from firnline.cli.progress import deleting
from firnline.operations.deletion import DeleteProgress
from tests.support.world import SetClock

HALF = DeleteProgress(objects=2_000, deleted=999, failed=1)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_without_a_terminal_there_is_a_line_every_five_seconds(
    capsys: pytest.CaptureFixture[str],
) -> None:
    clock = SetClock()
    with deleting("cleaning up", "events", clock, silent=False) as tell:
        for _ in range(11):
            tell(HALF)
            clock.advance(1_000)
    line = "cleaning up events: 999 of 2,000 objects deleted, 1 not"
    assert capsys.readouterr().err.splitlines() == [
        f"{line}; 200 objects a second, about 5 seconds left",
        f"{line}; 100 objects a second, about 10 seconds left",
    ]


def test_on_a_terminal_there_is_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with deleting("sweeping", "[events]", SetClock(), silent=False) as tell:
        tell(HALF)
    assert "sweeping [events]" in terminal.getvalue()
    assert "999 of 2,000 objects deleted, 1 not" in terminal.getvalue()


def test_with_json_nothing_is_written(capsys: pytest.CaptureFixture[str]) -> None:
    with deleting("sweeping", "events", SetClock(), silent=True) as tell:
        tell(HALF)
    assert capsys.readouterr().err == ""
