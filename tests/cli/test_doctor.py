"""`firnline doctor` as a command: its table, its exit code, and what it leaves behind."""

from __future__ import annotations

import json
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


def test_each_mistake_is_a_row_and_all_other_tables_are_looked_at(
    firnline: Callable[..., Outcome], table: LogOnlyTable, tmp_path: Path
) -> None:
    folder = tmp_path / "settings"
    folder.mkdir()
    (folder / "a.yaml").write_text(
        f"tables:\n  events: {{root: 'file://{table.folder}'}}\n"
        "  bad: {root: 'file:///x', sort_bye: [a], merge: {slotz: 2}}\n"
    )
    (folder / "b.yaml").write_text("tabels: {}\ndefaults: 7\n")
    home = {"AIRFLOW_HOME": str(tmp_path / "none")}
    found = firnline("doctor", "--settings", folder, "--json", env=home)
    assert found.code == 1
    checks = {each["what"]: each for each in json.loads(found.out)["checks"]}
    assert checks["settings file"]["found"] == f"{folder}, 1 table, and 1 that has mistakes"
    assert checks["events, conditional puts"]["state"] == "ok"
    assert {name: each["state"] for name, each in checks.items() if name in {"bad", "b.yaml"}} == {
        "bad": "wrong",
        "b.yaml": "wrong",
    }
    said = f"{folder / 'a.yaml'} has 2 mistakes: tables.bad.merge.slotz: is not a setting"
    assert checks["bad"]["found"].startswith(said)
    assert "; tables.bad.sort_bye: is not a setting" in checks["bad"]["found"]
    assert checks["b.yaml"]["found"].startswith(f"{folder / 'b.yaml'} has 2 mistakes: defaults: ")
    assert not any("\n" in each["found"] for each in checks.values())
    assert "\\n" not in firnline("doctor", "--settings", folder, env=home).out
