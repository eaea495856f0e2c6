"""How far a run is: a bar on a terminal, lines elsewhere, nothing with --json."""

from __future__ import annotations

import io
import json
import logging
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec import structs

from firnline.cli import shown
from firnline.cli.failures import when_stopped
from firnline.cli.progress import importing, merging, mirroring, sharing, working
from firnline.cli.shown import Mode, chosen
from firnline.errors import StoppedError
from firnline.mirror.progress import MirrorProgress
from firnline.operations.import_files.progress import ImportProgress
from firnline.operations.runner import Progress
from tests.support.cli import Outcome
from tests.support.programs import HUNG_SECONDS
from tests.support.world import SetClock

Firnline = Callable[..., Outcome]
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


def test_an_import_says_how_long_its_tasks_take_and_not_its_copies_at_their_speed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    clock = SetClock()
    with importing("events", clock, silent=False) as tell:
        clock.advance(5_000)
        tell(ImportProgress(footers=3_004, footers_done=1_502))
        for done in (1, 2):
            clock.advance(5_000)
            tell(ImportProgress(files=3_000, tasks=4, tasks_done=done))
        clock.advance(5_000)
        tell(ImportProgress(files=3_000, files_done=1_000, tasks=4, tasks_done=4))
    told, half = "importing into events", "2 of 4 tasks done, 0 of 3,000 files copied"
    assert capsys.readouterr().err.splitlines() == [
        f"{told}: 1,502 of 3,004 files looked at; 300 footers a second, about 5 seconds left",
        f"{told}: 1 of 4 tasks done, 0 of 3,000 files copied",
        f"{told}: {half}; 12 tasks a minute, about 10 seconds left",
        f"{told}: 4 of 4 tasks done, 1,000 of 3,000 files copied",
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


def test_json_lines_have_the_state_the_speed_and_the_rest(
    capsys: pytest.CaptureFixture[str],
) -> None:
    clock = SetClock()
    with chosen(Mode.JSON), merging("events", clock, silent=True) as tell:
        for _ in range(9):
            tell(HALF)
            clock.advance(500)
        LOG.warning("partition d=1 was maintained by somebody else")
        tell(DONE)
    *told, warning, last = map(json.loads, capsys.readouterr().err.splitlines())
    assert [one["progress"]["elapsed_ms"] for one in told] == [0, 1_000, 2_000, 3_000, 4_000]
    assert told[2]["progress"] == {
        "action": "merging",
        "table": "events",
        "done": 1_000,
        "total": 2_000,
        "unit": "part",
        "detail": "1,000 of 2,000 parts, 2 of 4 groups committed",
        "elapsed_ms": 2_000,
        "per_second": 500.0,
        "remaining_ms": 2_000,
    }
    assert (told[0]["progress"]["per_second"], told[0]["progress"]["remaining_ms"]) == (None, None)
    assert warning == {"warning": "partition d=1 was maintained by somebody else"}
    assert (last["progress"]["done"], last["progress"]["remaining_ms"]) == (2_000, 0)


def test_a_mirror_of_many_files_shows_its_speed_and_the_rest_of_each_stage(
    capsys: pytest.CaptureFixture[str],
) -> None:
    clock = SetClock()
    with mirroring("events", clock, silent=False) as tell:
        for stage in ("look", "describe", "write"):
            for done in (0, 4_000, 8_000):
                tell(MirrorProgress(format="iceberg", stage=stage, done=done, total=8_000))
                clock.advance(5_000)
    speed = "; 800 {}s a second, about 5 seconds left"
    # A run that would end within five seconds shows nothing.
    first = "mirroring events: 0 of 8,000 parts looked through for deleted rows"
    assert [first, *capsys.readouterr().err.splitlines()] == [
        line
        for unit, words in (
            ("part", "parts looked through for deleted rows"),
            ("file", "files described for the Iceberg mirror"),
            ("file", "files written to the Iceberg mirror"),
        )
        for line in (
            f"mirroring events: 0 of 8,000 {words}",
            f"mirroring events: 4,000 of 8,000 {words}{speed.format(unit)}",
            f"mirroring events: 8,000 of 8,000 {words}; 800 {unit}s a second",
        )
    ]


def test_an_interrupt_says_how_far_the_run_was() -> None:
    def run() -> None:
        with (
            when_stopped("stopped; what is committed stays", next_step="run it again"),
            merging("events", SetClock(), silent=True) as tell,
        ):
            tell(HALF)
            raise KeyboardInterrupt

    with pytest.raises(StoppedError) as caught:
        run()
    assert str(caught.value) == (
        "stopped at 1,000 of 2,000 parts, 2 of 4 groups committed; what is committed stays; "
        "run it again"
    )


def test_a_run_that_tells_nothing_is_shown_to_be_alive(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, looked = SetClock(), threading.Semaphore(0)
    monkeypatch.setattr("firnline.cli.shown._LOOK_SECONDS", 0.001)

    def told(_milliseconds: int) -> str:
        looked.release()
        return "20s"

    monkeypatch.setattr("firnline.cli.shown.about_duration", told)
    with merging("events", clock, silent=False) as tell:
        tell(HALF)
        clock.advance(20_000)
        assert looked.acquire(timeout=HUNG_SECONDS)
    half = "merging events: 1,000 of 2,000 parts, 2 of 4 groups committed"
    assert capsys.readouterr().err.splitlines() == [half, f"{half}, after 20s"]


@pytest.fixture
def beats(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Waits until a display was asked twice to show that its run is alive."""
    monkeypatch.setattr("firnline.cli.shown._LOOK_SECONDS", 0.001)
    asked = threading.Semaphore(0)
    for display in (shown._Lines, shown._Json, shown._LateBar):
        beat = display.beat

        def counted(self: Any, state: Any, pace: Any, beat: Callable[..., None] = beat) -> None:
            beat(self, state, pace)
            asked.release()

        monkeypatch.setattr(display, "beat", counted)

    def wait() -> None:
        while asked.acquire(blocking=False):
            pass
        for _ in range(2):
            assert asked.acquire(timeout=HUNG_SECONDS)

    return wait


def test_a_read_that_is_over_at_once_shows_nothing(
    capsys: pytest.CaptureFixture[str], beats: Callable[[], None]
) -> None:
    clock = SetClock()
    with working("reading", "events", clock, silent=False):
        beats()
    with chosen(Mode.JSON), working("reading", "events", clock, silent=False):
        beats()
    assert capsys.readouterr().err == ""


def test_a_read_of_a_long_log_says_so_after_five_seconds_and_in_json_after_two(
    capsys: pytest.CaptureFixture[str], beats: Callable[[], None]
) -> None:
    clock = SetClock()
    with working("reading", "events", clock, silent=False):
        clock.advance(5_000)
        beats()
        clock.advance(10_000)
        beats()
    assert capsys.readouterr().err == "reading events: reading the log, after 5.0s\n"
    with chosen(Mode.JSON), working("reading", "events", clock, silent=True):
        clock.advance(2_000)
        beats()
    (line,) = capsys.readouterr().err.splitlines()
    told = json.loads(line)["progress"]
    assert (told["detail"], told["total"], told["elapsed_ms"]) == ("reading the log", None, 2_000)


def test_a_bar_of_a_read_is_drawn_after_two_seconds(
    monkeypatch: pytest.MonkeyPatch, beats: Callable[[], None]
) -> None:
    terminal, clock = Terminal(), SetClock()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with sharing("reading", "events", clock, silent=False) as tell:
        tell(0.25)
        beats()
        assert terminal.getvalue() == ""
        clock.advance(2_000)
        beats()
        tell(0.5)
    assert "reading events" in terminal.getvalue()
    assert "about 50 % of the rows read" in terminal.getvalue()


def test_a_share_has_a_time_that_is_left_and_no_speed(capsys: pytest.CaptureFixture[str]) -> None:
    clock = SetClock()
    with sharing("reading", "events", clock, silent=False) as tell:
        tell(0)
        clock.advance(6_000)
        tell(0.5)
    assert capsys.readouterr().err == (
        "reading events: about 50 % of the rows read; about 6 seconds left\n"
    )


def test_a_read_into_a_file_and_an_archive_of_packages_tell_of_their_progress(
    firnline: Firnline, tmp_path: Path
) -> None:
    rows = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"a": range(10)}), rows)
    root = f"file://{tmp_path}/t"
    assert firnline("append", root, rows).code == 0
    for command, last in (
        (["read", root, "--output", tmp_path / "out.csv"], (100, 100, "percent")),
        (["changes", root, "--to", tmp_path / "out.parquet"], (10, None, "row")),
    ):
        done = firnline(*command, "--progress", "json")
        assert done.code == 0, done.err
        told = json.loads(done.err.splitlines()[-1])["progress"]
        assert (told["done"], told["total"], told["unit"]) == last
    done = firnline("spark", "pack", tmp_path / "x.tar.gz", "--progress", "json")
    told = json.loads(done.err.splitlines()[-1])["progress"]
    assert (told["unit"], told["done"]) == ("file", told["total"])


def test_ctrl_c_during_a_read_into_a_file_says_that_there_is_none(
    firnline: Firnline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, out = tmp_path / "rows.parquet", tmp_path / "out.csv"
    pq.write_table(pa.table({"a": range(10)}), rows)
    root = f"file://{tmp_path}/t"
    firnline("append", root, rows)

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("firnline.read.duckdb.write_file", stop)
    done = firnline("read", root, "--output", out)
    assert (done.code, done.sentence) == (
        130,
        f"stopped; {out} was not written; run the same command again",
    )
    assert not out.exists()
