"""`firnline doctor` as a command: its table, its exit code, and what it leaves behind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.cli import LogOnlyTable, Outcome, content_of, settings_file


def test_one_table_with_a_row_for_each_check(
    firnline: Callable[..., Outcome], table: LogOnlyTable, tmp_path: Path
) -> None:
    path = settings_file(tmp_path, f"tables:\n  events: {{root: 'file://{table.folder}'}}\n")
    before = content_of(table.folder)
    home = {"AIRFLOW_HOME": str(tmp_path / "none")}
    found = firnline("doctor", "--settings", path, env=home)
    assert (found.code, found.err) == (0, "")
    lines = found.out.splitlines()
    assert lines[0].split() == ["check", "state", "found", "next", "step"]
    assert any(line.startswith("events, conditional puts  ok") for line in lines)
    assert content_of(table.folder) == before


def test_a_new_installation_without_a_settings_file_is_not_wrong(
    firnline: Callable[..., Outcome], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from firnline.settings import load

    monkeypatch.setattr(load, "settings_path", lambda: tmp_path / "tables.yaml")
    env = {"AIRFLOW_HOME": str(tmp_path / "none"), "FIRNLINE_TABLES": None}
    found = firnline("doctor", env=env)
    assert (found.code, found.err) == (0, "")
    (row,) = [line for line in found.out.splitlines() if line.startswith("settings file")]
    assert row.split()[2] == "missing"
    assert "firnline init" in found.out
    # One that somebody named has to be there.
    for named in ({"FIRNLINE_TABLES": str(tmp_path / "tables.yaml")}, {}):
        given = () if named else ("--settings", str(tmp_path / "tables.yaml"))
        assert firnline("doctor", *given, env=env | named).code == 1
    assert firnline("doctor", "events", env=env).code == 1


def test_what_is_wrong_ends_with_an_exit_code_and_the_next_step(
    firnline: Callable[..., Outcome], tmp_path: Path
) -> None:
    path = settings_file(tmp_path, "tables:\n  events: {root: 'file:///x', sort_bye: [a]}\n")
    found = firnline("doctor", "--settings", path, env={"AIRFLOW_HOME": str(tmp_path / "none")})
    assert found.code == 1
    assert "sort_bye" in found.out
    assert found.sentence.startswith("1 check found something wrong")
    mistyped = firnline("doctor", "evnts", "--settings", settings_file(tmp_path, "tables: {}\n"))
    assert (mistyped.code, "no table 'evnts'" in mistyped.out) == (1, True)
