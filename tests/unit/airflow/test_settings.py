"""Airflow goes by the last good settings while the file has a mistake that concerns all tables."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from firnline.airflow.settings import copy_of, current_settings, environment, read_settings
from firnline.errors import SettingsError
from firnline.settings.load import load_settings

GOOD = "tables: {t: {root: 's3://b/t'}}\n"


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A settings file; copies are kept in a folder of the test."""
    monkeypatch.setenv("AIRFLOW__LOGGING__BASE_LOG_FOLDER", str(tmp_path / "logs"))
    path = tmp_path / "tables.yaml"
    path.write_text(GOOD)
    monkeypatch.setenv("FIRNLINE_TABLES", str(path))
    return path


@pytest.mark.parametrize("text", ["tables: {", "defaults: {merge: {slotz: 2}}", None])
def test_settings_that_do_not_read_leave_those_of_before_in_force(
    file: Path, text: str | None
) -> None:
    os.utime(file, (1_800_000_000, 1_800_000_000))
    assert current_settings().stale is None
    if text is None:
        file.unlink()
    else:
        file.write_text(text)
    found = current_settings()
    assert (list(found.tables), found.path) == (["t"], file)
    assert found.stale is not None
    assert found.stale.sentence.startswith(
        "the settings of 2027-01-15 08:00:00Z are in force, because "
    )
    assert str(file) in found.stale.sentence
    file.write_text("tables: {u: {root: 's3://b/u'}}\n")
    found = current_settings()
    assert (list(found.tables), found.stale) == (["u"], None)
    assert copy_of(file).read_text() == file.read_text()


def test_without_good_settings_of_before_the_mistake_is_an_error(file: Path) -> None:
    file.write_text("tables: {")
    with pytest.raises(SettingsError, match="line 2"):
        current_settings()
    assert not copy_of(file).exists()


def test_a_mistake_of_one_table_is_not_replaced_by_what_was_before(file: Path) -> None:
    current_settings()
    file.write_text("tables: {t: {root: 's3://b/t', merge: {slotz: 2}}, u: {root: 's3://b/u'}}\n")
    found = current_settings()
    assert (list(found.tables), list(found.broken), found.stale) == (["u"], ["t"], None)


def test_each_settings_file_has_a_copy_of_its_own(file: Path, tmp_path: Path) -> None:
    current_settings()
    other = tmp_path / "other.yaml"
    other.write_text("tables: {")
    with pytest.raises(SettingsError):
        read_settings(other)


def test_a_folder_of_logs_that_cannot_be_written_to_is_told_and_stops_nothing(
    file: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "logs").write_text("a file")
    assert list(current_settings().tables) == ["t"]
    assert "no copy of" in caplog.text
    assert file.read_text() == GOOD


def test_a_file_that_is_as_it_was_is_read_once(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is parsed every few seconds."""
    current_settings()
    assert copy_of(file).stat().st_mtime_ns == file.stat().st_mtime_ns
    monkeypatch.setattr(Path, "read_bytes", lambda _: pytest.fail("it is read again"))
    current_settings()


def test_jobs_go_by_the_settings_that_their_task_goes_by(file: Path) -> None:
    current_settings()
    assert environment() == {}
    file.write_text("tables: {")
    assert environment() == {"FIRNLINE_TABLES": str(copy_of(file))}
    assert list(load_settings(copy_of(file)).tables) == ["t"]
