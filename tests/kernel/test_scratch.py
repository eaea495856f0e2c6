from __future__ import annotations

import fcntl
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from firnline.clock import SystemClock
from firnline.errors import ScratchFullError
from firnline.ids import SystemIds
from firnline.kernel.staging import remove_abandoned, scratch_folder
from firnline.kernel.workplace import Workplace


def place(scratch: Path) -> Workplace:
    return Workplace(scratch, SystemIds(), SystemClock())


def test_the_folder_goes_away_with_its_task_also_after_an_error(tmp_path: Path) -> None:
    def fail() -> None:
        with place(tmp_path / "s").folder() as folder:
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
from firnline.kernel.workplace import Workplace
with Workplace(Path(sys.argv[1]), SystemIds(), SystemClock()).folder() as folder:
    (folder / "file").write_text("x")
    os.kill(os.getpid(), 9)
"""
    killed = subprocess.run([sys.executable, "-c", script, tmp_path], check=False)
    assert killed.returncode == -9
    (left,) = [path for path in tmp_path.iterdir() if path.is_dir()]
    with place(tmp_path).folder() as first:
        assert not left.exists()
        with place(tmp_path).folder() as second:
            assert first.is_dir()
            assert second != first
    assert not list(tmp_path.iterdir())


def test_folders_of_others_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "firnline-notes").mkdir()
    (tmp_path / "somebody.lock").touch()
    with place(tmp_path).folder():
        pass
    assert sorted(path.name for path in tmp_path.iterdir()) == ["firnline-notes", "somebody.lock"]


def test_a_scratch_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with (
        pytest.raises(ScratchFullError, match=f"{tmp_path}/file/s cannot be used.*--scratch"),
        place(tmp_path / "file" / "s").folder(),
    ):
        pass


def test_no_descriptor_stays_open(tmp_path: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(5):
        with place(tmp_path).folder():
            pass
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_folder_that_its_worker_uses_again_is_not_taken_for_abandoned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its name and its lock's are the same for every group, but the lock is another file."""
    folder = tmp_path / "firnline-1"
    real, groups = fcntl.flock, ExitStack()
    groups.enter_context(scratch_folder(folder))

    def flock(descriptor: int, how: int) -> None:
        if how & fcntl.LOCK_NB:  # the lock is open here: now the worker ends and begins
            groups.close()
            groups.enter_context(scratch_folder(folder))
        real(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", flock)
    remove_abandoned(tmp_path)
    assert folder.is_dir()
    groups.close()
    assert list(tmp_path.iterdir()) == []
