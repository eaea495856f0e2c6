from __future__ import annotations

import threading
from pathlib import Path

import pytest

from firnline.airflow.page.watch import OneOf, Watch
from firnline.errors import SettingsError
from tests.support.programs import HUNG_SECONDS


def test_one_of_several_is_it_until_it_ends(tmp_path: Path) -> None:
    first, second = OneOf(tmp_path / "lock"), OneOf(tmp_path / "lock")
    assert first.is_me()
    assert first.is_me()
    assert not second.is_me()
    first.resign()
    assert second.is_me()
    assert not first.is_me()
    second.resign()


def test_a_link_in_the_place_of_the_lock_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="lock"):
        OneOf(tmp_path / "lock").is_me()
    assert not (tmp_path / "elsewhere").exists()


def test_what_is_asked_for_tells_the_locks_apart() -> None:
    one, other = OneOf.of("metrics of a"), OneOf.of("metrics of b")
    assert one.is_me()
    assert other.is_me()
    one.resign()
    other.resign()


def test_tables_are_looked_at_again_and_again_also_after_an_error(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    looks = threading.Semaphore(0)
    seen: list[int] = []

    def look() -> None:
        seen.append(len(seen))
        looks.release()
        if len(seen) == 1:
            raise SettingsError("the file is torn", next_step="write it whole")

    watch = Watch(look, OneOf(tmp_path / "lock"), 0.001)
    watch.start()
    for _ in range(3):
        assert looks.acquire(timeout=HUNG_SECONDS)
    watch.stop()
    assert "the file is torn" in caplog.text


def test_another_process_s_tables_are_not_looked_at_until_it_ends(tmp_path: Path) -> None:
    other, looked = OneOf(tmp_path / "lock"), threading.Event()
    assert other.is_me()
    watch = Watch(looked.set, OneOf(tmp_path / "lock"), 0.001)
    assert not watch.on_duty
    watch.start()
    assert not looked.is_set()
    other.resign()
    assert looked.wait(HUNG_SECONDS)
    assert watch.on_duty
    watch.stop()
    assert other.is_me()
    other.resign()
