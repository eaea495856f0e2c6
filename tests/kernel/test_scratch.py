from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from firnline.clock import SystemClock
from firnline.errors import ScratchFullError
from firnline.ids import SystemIds
from firnline.kernel.staging import scratch_folder


def test_the_folder_goes_away_with_its_task_also_after_an_error(tmp_path: Path) -> None:
    def fail() -> None:
        with scratch_folder(tmp_path / "s", SystemIds(), SystemClock()) as folder:
            (folder / "file").write_text("x")
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        fail()
    assert not list((tmp_path / "s").iterdir())


def test_what_a_killed_task_left_is_removed_and_what_a_living_one_uses_stays(
    tmp_path: Path,
) -> None:
    script = """
import os, sys
from pathlib import Path
from firnline.clock import SystemClock
from firnline.ids import SystemIds
from firnline.kernel.staging import scratch_folder
with scratch_folder(Path(sys.argv[1]), SystemIds(), SystemClock()) as folder:
    (folder / "file").write_text("x")
    os.kill(os.getpid(), 9)
"""
    killed = subprocess.run([sys.executable, "-c", script, tmp_path], check=False)
    assert killed.returncode == -9
    (left,) = [path for path in tmp_path.iterdir() if path.is_dir()]
    with scratch_folder(tmp_path, SystemIds(), SystemClock()) as first:
        assert not left.exists()
        with scratch_folder(tmp_path, SystemIds(), SystemClock()) as second:
            assert first.is_dir()
            assert second != first
    assert not list(tmp_path.iterdir())


def test_folders_of_others_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "firnline-notes").mkdir()
    (tmp_path / "somebody.lock").touch()
    with scratch_folder(tmp_path, SystemIds(), SystemClock()):
        pass
    assert sorted(path.name for path in tmp_path.iterdir()) == ["firnline-notes", "somebody.lock"]


def test_a_scratch_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with (
        pytest.raises(ScratchFullError, match=f"{tmp_path}/file/s cannot be used.*--scratch"),
        scratch_folder(tmp_path / "file" / "s", SystemIds(), SystemClock()),
    ):
        pass


def test_no_descriptor_stays_open(tmp_path: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(5):
        with scratch_folder(tmp_path, SystemIds(), SystemClock()):
            pass
    assert len(list(Path("/proc/self/fd").iterdir())) == before
