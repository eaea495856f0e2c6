from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from firnline.airflow.kept import SettingsFile
from firnline.clock import SystemClock
from firnline.errors import SettingsError
from firnline.settings.load import Settings, load_settings


class Later(SystemClock):
    """Any change of a file is long past."""

    def now_ms(self) -> int:
        return super().now_ms() + 3_600_000


class Counted:
    def __init__(self, path: Path, clock: SystemClock | None = None) -> None:
        self.read = 0
        self.settings = SettingsFile(clock or Later(), self.load, lambda: path)

    def load(self, path: Path) -> Settings:
        self.read += 1
        return load_settings(path)

    def names(self) -> list[str]:
        return list(self.settings().tables)


def write(path: Path, name: str) -> None:
    path.write_text(f"tables:\n  {name}: {{root: 's3://b/{name}'}}\n", encoding="utf-8")


def test_a_file_is_read_once_as_long_as_it_is_the_same(tmp_path: Path) -> None:
    path = tmp_path / "tables.yaml"
    write(path, "one")
    counted = Counted(path)
    assert [counted.names(), counted.names()] == [["one"], ["one"]]
    assert counted.read == 1
    assert counted.settings() is counted.settings()


def test_a_change_in_place_and_another_file_in_its_place_are_seen(tmp_path: Path) -> None:
    path, other = tmp_path / "tables.yaml", tmp_path / "other.yaml"
    write(path, "one")
    counted = Counted(path)
    counted.names()
    write(path, "two")
    assert counted.names() == ["two"]
    write(other, "six")
    other.replace(path)
    assert counted.names() == ["six"]


def test_a_copy_with_the_old_time_and_the_old_size_is_seen(tmp_path: Path) -> None:
    path, other = tmp_path / "tables.yaml", tmp_path / "other.yaml"
    write(path, "one")
    old = path.stat()
    counted = Counted(path)
    counted.names()
    write(other, "two")
    shutil.copyfile(other, path)
    os.utime(path, ns=(old.st_atime_ns, old.st_mtime_ns))
    assert counted.names() == ["two"]


def test_a_file_that_was_just_written_is_not_trusted(tmp_path: Path) -> None:
    """It may be written again without a new time."""
    path = tmp_path / "tables.yaml"
    write(path, "one")
    counted = Counted(path, SystemClock())
    counted.names()
    counted.names()
    assert counted.read == 2


def test_a_file_that_does_not_read_is_an_error_until_it_does(tmp_path: Path) -> None:
    path = tmp_path / "tables.yaml"
    counted = Counted(path)
    with pytest.raises(SettingsError):
        counted.names()
    write(path, "one")
    assert counted.names() == ["one"]
    path.write_text("tables: 7\n", encoding="utf-8")
    with pytest.raises(SettingsError):
        counted.names()
