"""How much of its cores a machine gives, and how much is tested on it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from tools import machine
from tools.machine import LEAST_SHARE, effort_for, main, share_of_cores


def clock(monkeypatch: pytest.MonkeyPatch, steps: list[float]) -> None:
    """What a busy process reads of the clock, again and again."""
    times = iter([sum(steps[:number]) for number in range(len(steps) + 1)])
    monkeypatch.setattr("tools.machine.time.perf_counter", lambda: next(times))


def test_time_in_which_a_busy_process_stood_still_is_not_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock(monkeypatch, [0.0005] * 1000 + [0.25, 0.25])
    assert machine._share(0.8) == pytest.approx(0.5, abs=0.01)


def test_steps_of_the_clock_are_no_gaps(monkeypatch: pytest.MonkeyPatch) -> None:
    clock(monkeypatch, [0.0005] * 2000)
    assert machine._share(0.9) == 1


@pytest.mark.long
def test_a_share_is_a_part_of_the_time() -> None:
    assert 0 < share_of_cores(0.05) <= 1


def test_little_of_a_machine_means_few_tests() -> None:
    assert effort_for(LEAST_SHARE) == "sample"
    assert effort_for(LEAST_SHARE - 0.01) == "few"


@pytest.mark.parametrize(("share", "what"), [(0.98, "sample"), (0.31, "few")])
def test_the_answer_is_a_word_for_make_and_the_reason_is_for_people(
    share: float,
    what: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("tools.machine.share_of_cores", lambda: share)
    assert main() == 0
    said = capsys.readouterr()
    assert said.out == f"{what}\n"
    assert f"{share:.0%}" in said.err


def test_a_disk_without_room_for_the_tests_is_said_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    free = [machine.LEAST_FREE]
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=free[0]))
    assert machine.without_room([tmp_path]) == ""
    assert main(["disk"]) == 0
    free[0] -= 2**30
    assert machine.without_room([tmp_path]) == (
        f"the tests need 6 GiB of free disk, and {tmp_path} has 5.0: make room (`uv cache prune`, "
        "old clones) and run it again"
    )
    assert main(["disk"]) == 1
    assert "need 6 GiB" in capsys.readouterr().err
