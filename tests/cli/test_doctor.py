"""`firnline doctor` as a command: its table, its exit code, and what it leaves behind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

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
