"""How far a run is: a bar on a terminal, lines elsewhere, nothing with --json."""

from __future__ import annotations

import io
import logging
import sys

import pytest
from msgspec import structs

from firnline.cli.progress import merging
from firnline.operations.runner import Progress
from tests.support.world import SetClock

HALF = Progress(
    groups=4, groups_done=2, parts_in=2_000, parts_merged=1_000, parts_done=500, transactions=1
)
DONE = Progress(
    groups=4, groups_done=4, parts_in=2_000, parts_merged=2_000, parts_done=2_000, transactions=2
)
LOG = logging.getLogger("firnline.operations.merge.run")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_without_a_terminal_there_is_a_line_every_five_seconds_and_at_the_end(
    capsys: pytest.CaptureFixture[str],
) -> None:
    clock = SetClock()
    with merging("events", clock, silent=False) as tell:
        for _ in range(11):
            tell(HALF)
            clock.advance(1_000)
        tell(DONE)
    lines = capsys.readouterr().err.splitlines()
    half = "merging events: 1,000 of 2,000 parts, 2 of 4 groups committed"
    speeds = (
        "",
        "; 200 parts a second, about 5 seconds left",
        "; 100 parts a second, about 10 seconds left",
    )
    assert lines == [
        *(half + speed for speed in speeds),
        "merging events: 2,000 of 2,000 parts, 4 of 4 groups committed",
    ]


def test_tasks_are_named_where_a_group_has_several(capsys: pytest.CaptureFixture[str]) -> None:
    with merging("events", SetClock(), silent=False) as tell:
        tell(structs.replace(HALF, tasks=9, tasks_done=6))
    line = capsys.readouterr().err.strip()
    assert line.endswith("2 of 4 groups committed, 6 of 9 tasks done")


def test_on_a_terminal_there_is_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with merging("[events]", SetClock(), silent=False) as tell:
        tell(HALF)
        LOG.warning("partition d=%s was \x1b[31m maintained by somebody else", 1)
        tell(DONE)
    shown = terminal.getvalue()
    assert "merging [events]" in shown
    assert "2,000 of 2,000 parts, 4 of 4 groups committed" in shown
    assert "firnline: partition d=1 was \\x1b[31m maintained by somebody else" in shown


def test_warnings_of_a_run_are_lines_too(capsys: pytest.CaptureFixture[str]) -> None:
    with merging("events", SetClock(), silent=False):
        LOG.warning("partition d=1 was maintained by somebody else")
    assert capsys.readouterr().err == "firnline: partition d=1 was maintained by somebody else\n"


def test_with_json_nothing_is_written(capsys: pytest.CaptureFixture[str]) -> None:
    with merging("events", SetClock(), silent=True) as tell:
        tell(HALF)
        LOG.error("a group failed, and the report says so")
    assert capsys.readouterr().err == ""
    assert not logging.getLogger("firnline").handlers
