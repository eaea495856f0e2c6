"""`firnline demo`: a table to look around in, without Airflow and Spark."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from firnline.cli import sample
from firnline.cli.commands import demo
from firnline.flights import cut_hours, flights_file, read_flights
from tests.support.cli import Outcome


@pytest.fixture(autouse=True)
def two_days(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forty hours instead of months."""
    hours = cut_hours(read_flights(flights_file()))[:40]
    monkeypatch.setattr(demo, "_hours", lambda _months: hours)


def test_the_merge_changes_what_a_query_costs_and_not_what_it_finds(
    firnline: Callable[..., Outcome], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sample, "QUESTION", "dep_delay > 60")
    folder = tmp_path / "flights"
    data = firnline("demo", "--folder", folder, "--json").data
    assert (data["appends"], data["before"]["parts"], data["after"]["parts"]) == (40, 40, 1)
    assert data["before"]["rows"] == data["after"]["rows"] > 0
    assert data["before"]["requests"] == 40 + 2
    assert data["after"]["requests"] == 3
    settings = ("--settings", folder / "include" / "tables.yaml")
    checked = firnline("verify", "flights", "--deep", *settings)
    assert checked.code == 0, checked.err


def test_its_last_lines_are_commands_that_work(
    firnline: Callable[..., Outcome], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shown = firnline("demo").out
    assert "before the merge" in shown
    lines = [line.strip() for line in shown.partition("look around:\n")[2].splitlines()]
    monkeypatch.chdir(lines[0].removeprefix("cd "))
    for line in lines[1:]:
        words = [word.strip('"') for word in line.partition("--where")[0].split()]
        where = line.partition("--where ")[2].strip('"')
        extra = ["--yes"] if words[1] in ("delete", "restore") else []
        found = firnline(*words[1:], *(["--where", where] if where else []), *extra)
        assert found.code == 0, f"{line}: {found.err}"


def test_a_folder_with_something_in_it_is_left_alone(
    firnline: Callable[..., Outcome], tmp_path: Path
) -> None:
    (tmp_path / "mine.txt").write_text("x")
    found = firnline("demo", "--folder", tmp_path)
    assert (found.code, "not empty" in found.sentence) == (2, True)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
