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
    line = "cleaning up events: 999 of 2,000 objects deleted, 1 not, 1,000 left"
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


def test_a_store_that_asks_to_slow_down_is_said_in_words(
    capsys: pytest.CaptureFixture[str],
) -> None:
    clock = SetClock()
    slow = DeleteProgress(objects=2_000, deleted=1_000, failed=0, per_second=800, slowed=True)
    with deleting("cleaning up", "events", clock, silent=False) as tell:
        clock.advance(5_000)
        tell(slow)
    (line,) = capsys.readouterr().err.splitlines()
    assert line == (
        "cleaning up events: 1,000 of 2,000 objects deleted, 1,000 left, the store asks to slow "
        "down: 800 keys a second; 200 objects a second, about 5 seconds left"
    )


def test_a_log_line_says_how_many_are_left_how_fast_and_how_long() -> None:
    state = DeleteProgress(objects=9_000, deleted=3_000, failed=0, elapsed_ms=2_000)
    assert str(state) == (
        "3,000 of 9,000 objects deleted, 6,000 left; 1,500 objects a second, about 4.0s left"
    )
    over = DeleteProgress(objects=2, deleted=2, failed=0, elapsed_ms=5, per_second=1, slowed=True)
    assert str(over) == "2 of 2 objects deleted"
