"""Airflow goes by the last good settings while the file has a mistake that concerns all tables."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from firnline.airflow.settings import copy_of, current_settings, environment, read_settings
from firnline.errors import SettingsError
from firnline.settings.load import Settings, load_settings

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
    assert current_settings().unread == ()
    if text is None:
        file.unlink()
    else:
        file.write_text(text)
    found = current_settings()
    assert (list(found.tables), found.path) == (["t"], file)
    (told,) = [each.sentence for each in found.unread]
    assert told.startswith("the settings of 2027-01-15 08:00:00Z are in force, because ")
    assert str(file) in told
    file.write_text("tables: {u: {root: 's3://b/u'}}\n")
    found = current_settings()
    assert (list(found.tables), found.unread) == (["u"], ())
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
    assert (list(found.tables), list(found.broken), found.unread) == (["u"], ["t"], ())


def test_each_settings_file_has_a_copy_of_its_own(file: Path, tmp_path: Path) -> None:
    current_settings()
    other = tmp_path / "other.yaml"
    other.write_text("tables: {")
    with pytest.raises(SettingsError):
        read_settings(other)


@pytest.mark.long
def test_a_folder_of_logs_that_cannot_be_written_to_is_told_and_stops_nothing(
    file: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "logs").write_text("a file")
    assert list(current_settings().tables) == ["t"]
    assert "no copy of" in caplog.text
    assert file.read_text() == GOOD


def test_the_copy_of_a_file_that_is_as_it_was_is_not_written_again(file: Path) -> None:
    """It is parsed every few seconds."""
    current_settings()
    assert copy_of(file).stat().st_mtime_ns == file.stat().st_mtime_ns
    first = copy_of(file).stat().st_ino
    current_settings()
    assert copy_of(file).stat().st_ino == first


def test_a_change_that_keeps_length_and_time_is_what_comes_back(file: Path) -> None:
    """As that of `rsync -t`, or of an image: an older `ttl.keep` would delete rows."""
    file.write_text("tables: {t: {root: 's3://b/t', partition_by: [day(ts)], ttl: {keep: 10d}}}\n")
    os.utime(file, (1_800_000_000, 1_800_000_000))
    read_settings(file)
    file.write_text(file.read_text().replace("10d", "90d"))
    os.utime(file, (1_800_000_000, 1_800_000_000))
    assert read_settings(file).unread == ()
    file.write_text("tables: {")
    ttl = read_settings(file).tables["t"].ttl
    assert ttl is not None
    assert ttl.keep == 90 * 24 * 3_600_000


def test_a_file_that_is_written_after_it_was_read_is_not_kept_as_good(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_then_written(*args: Any, **how: Any) -> Settings:
        found = load_settings(*args, **how)
        file.write_text("tables: {t: {root")
        return found

    monkeypatch.setattr("firnline.airflow.settings.load_settings", read_then_written)
    assert read_settings(file).unread == ()
    assert copy_of(file).read_text() == GOOD


@pytest.mark.parametrize("reason", [errno.EACCES, errno.ESTALE, errno.ENOTCONN])
def test_a_file_that_cannot_be_reached_leaves_the_settings_of_before_in_force(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reason: int
) -> None:
    current_settings()
    shut(monkeypatch, tmp_path, reason, besides=tmp_path / "logs")
    found = current_settings()
    assert (list(found.tables), found.files) == (["t"], {"t": file})
    assert [os.strerror(reason) in each.sentence for each in found.unread] == [True]
    assert environment() == {"FIRNLINE_TABLES": str(copy_of(file))}


def test_without_a_copy_a_file_that_cannot_be_reached_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: Path
) -> None:
    shut(monkeypatch, tmp_path, errno.EACCES)
    with pytest.raises(SettingsError, match=f"{file} cannot be read: Permission denied"):
        current_settings()


def shut(
    monkeypatch: pytest.MonkeyPatch, below: Path, reason: int, *, besides: Path | None = None
) -> None:
    """Make nothing below a folder answer, as behind a folder that may not be entered."""
    real = os.stat

    def refuse(path: str | Path, **how: bool) -> os.stat_result:
        places = {Path(path), *Path(path).parents}
        if below in Path(path).parents and besides not in places:
            raise OSError(reason, os.strerror(reason), str(path))
        return real(path, **how)

    monkeypatch.setattr(os, "stat", refuse)


def test_jobs_go_by_the_settings_that_their_task_goes_by(file: Path) -> None:
    current_settings()
    assert environment() == {}
    file.write_text("tables: {")
    assert environment() == {"FIRNLINE_TABLES": str(copy_of(file))}
    assert list(load_settings(copy_of(file)).tables) == ["t"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the settings of two teams and what they share; it has been read once."""
    monkeypatch.setenv("AIRFLOW__LOGGING__BASE_LOG_FOLDER", str(tmp_path / "logs"))
    path = tmp_path / "settings"
    path.mkdir()
    (path / "defaults.yaml").write_text("defaults: {merge: {max_parts_per_group: 30}}\n")
    (path / "a.yaml").write_text("tables: {ta: {root: 's3://b/ta'}}\n")
    (path / "b.yaml").write_text("tables: {tb: {root: 's3://b/tb'}}\n")
    monkeypatch.setenv("FIRNLINE_TABLES", str(path))
    assert read_settings().unread == ()
    return path


@pytest.mark.parametrize("text", ["tables: {", "defaults: {merge: {slotz: 2}}"])
def test_a_mistake_in_a_file_of_a_folder_leaves_what_it_said_before_and_the_others_as_they_are(
    folder: Path, text: str
) -> None:
    (folder / "a.yaml").write_text(text)
    (folder / "b.yaml").write_text("tables: {tc: {root: 's3://b/tc'}}\n")
    found = read_settings()
    assert (sorted(found.tables), [each.path.name for each in found.unread]) == (
        ["ta", "tc"],
        ["a.yaml"],
    )
    assert found.tables["ta"].merge.max_parts_per_group == 30
    assert environment() == {"FIRNLINE_TABLES": str(copy_of(folder))}
    assert load_settings(copy_of(folder)).tables == found.tables, "jobs go by the same"


def test_a_new_file_with_a_mistake_takes_no_other_file_out(folder: Path) -> None:
    (folder / "c.yaml").write_text("tables: {")
    found = read_settings()
    assert sorted(found.tables) == ["ta", "tb"]
    assert [each.sentence.split(",")[0] for each in found.unread] == [
        f"the tables of {folder / 'c.yaml'} are missing"
    ]
    assert environment() == {}


def test_a_mistake_in_what_the_files_of_a_folder_share_leaves_what_it_said_before(
    folder: Path,
) -> None:
    (folder / "defaults.yaml").write_text("defaults: {merge: {slotz: 2}}")
    found = read_settings()
    assert {name: table.merge.max_parts_per_group for name, table in found.tables.items()} == {
        "ta": 30,
        "tb": 30,
    }


def test_a_folder_that_is_gone_or_empty_leaves_all_as_it_was(folder: Path) -> None:
    for file in folder.iterdir():
        file.unlink()
    for _ in range(2):
        found = read_settings()
        assert sorted(found.tables) == ["ta", "tb"]
        assert found.files["ta"] == folder / "a.yaml"
        assert [each.path for each in found.unread] == [folder]
        assert environment() == {"FIRNLINE_TABLES": str(copy_of(folder))}
        if folder.exists():
            folder.rmdir()


def test_a_file_that_was_taken_out_of_a_folder_does_not_come_back(folder: Path) -> None:
    (folder / "b.yaml").unlink()
    assert list(read_settings().tables) == ["ta"]
    (folder / "a.yaml").write_text("tables: {")
    assert list(load_settings(copy_of(folder)).tables) == list(read_settings().tables) == ["ta"]


@pytest.mark.parametrize("below", [True, False])
def test_a_folder_that_cannot_be_reached_or_entered_leaves_all_as_it_was(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, below: bool
) -> None:
    shut(monkeypatch, folder if below else tmp_path, errno.EACCES, besides=tmp_path / "logs")
    found = read_settings()
    assert {name: table.merge.max_parts_per_group for name, table in found.tables.items()} == {
        "ta": 30,
        "tb": 30,
    }
    assert found.files["ta"] == folder / "a.yaml"
    assert all("Permission denied" in each.sentence for each in found.unread)
    assert environment() == {"FIRNLINE_TABLES": str(copy_of(folder))}


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails a test that opens a pipe or a device: it would wait for ever."""
    real = Path.open

    def opened(self: Path, *args: Any, **how: Any) -> Any:
        assert self.is_file() or not self.exists(), f"{self} is opened"
        return real(self, *args, **how)

    monkeypatch.setattr(Path, "open", opened)


@pytest.mark.usefixtures("soon")
def test_a_pipe_in_the_place_of_a_file_leaves_what_it_said_before(folder: Path) -> None:
    """To read it would wait for ever, in the scheduler too."""
    (folder / "a.yaml").unlink()
    os.mkfifo(folder / "a.yaml")
    found = current_settings()
    assert sorted(found.tables) == ["ta", "tb"]
    (told,) = [each.sentence for each in found.unread]
    assert "a.yaml cannot be read: it is a named pipe" in told


@pytest.mark.parametrize("name", ["defaults.yaml", "Defaults.yml"])
def test_what_all_files_share_does_not_go_away_with_its_file(folder: Path, name: str) -> None:
    (folder / "defaults.yaml").rename(folder / name)
    read_settings()
    (folder / name).unlink()
    for _ in range(2):
        found = read_settings()
        merges = {each: table.merge.max_parts_per_group for each, table in found.tables.items()}
        assert merges == {"ta": 30, "tb": 30}
        (told,) = [each.sentence for each in found.unread]
        assert f"{folder / name} cannot be read: No such file" in told
        assert "`defaults: {}`" in told
        assert environment() == {"FIRNLINE_TABLES": str(copy_of(folder))}
        assert load_settings(copy_of(folder)).tables == found.tables, "jobs go by the same"
    (folder / "defaults.yaml").write_text("defaults: {}")
    found = read_settings()
    assert (found.tables["ta"].merge.max_parts_per_group, found.unread) == (2_000, ())
    assert sorted(each.name for each in copy_of(folder).iterdir()) == [
        "a.yaml",
        "b.yaml",
        "defaults.yaml",
    ]


def test_a_file_of_what_all_share_that_has_another_name_is_in_force_at_once(folder: Path) -> None:
    (folder / "defaults.yaml").unlink()
    (folder / "defaults.yml").write_text("defaults: {merge: {max_parts_per_group: 40}}")
    found = read_settings()
    assert (found.tables["ta"].merge.max_parts_per_group, found.unread) == (40, ())
    (folder / "defaults.yml").write_text("defaults: {")
    assert read_settings().tables["ta"].merge.max_parts_per_group == 40
