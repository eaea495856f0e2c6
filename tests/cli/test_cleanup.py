"""``firnline cleanup``: what goes, what waits until when, and what could not be deleted."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firnline.clock import SystemClock
from firnline.errors import StoreError
from firnline.operations.registry import CLEANUP
from firnline.store.base import Deleted
from firnline.store.client import ObjectClient
from tests.support.cli import Outcome, content_of, settings_file
from tests.support.interrupted import interrupt

Firnline = Callable[..., Outcome]


@pytest.fixture
def fresh(firnline: Firnline, tmp_path: Path) -> Path:
    """A settings file whose table ``e`` has just been merged."""
    rows = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"id": [1, 2, 3]}), rows)
    path = settings_file(tmp_path, f"tables: {{e: {{root: 'file://{tmp_path}/e'}}}}")
    for _ in range(4):
        assert firnline("append", "e", rows, "--settings", path).code == 0
    assert firnline("merge", "e", "--settings", path).code == 0
    return path


@pytest.fixture
def merged(fresh: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same, days ago."""
    now = SystemClock.now_ms
    monkeypatch.setattr(SystemClock, "now_ms", lambda self: now(self) + 5 * 86_400_000)
    return fresh


def test_what_was_replaced_is_deleted_and_the_report_says_so(
    firnline: Firnline, merged: Path, tmp_path: Path
) -> None:
    shown = firnline("cleanup", "e", "--settings", merged)
    assert shown.code == 0
    assert "deleted      4 data parts\n             4 log files" in shown.out
    assert "transaction  2" in shown.out
    assert len(list((tmp_path / "e/_data").rglob("*.parquet"))) == 1
    assert firnline("snapshot", "e", "--settings", merged, "--json").data["rows"] == 12
    again = firnline("cleanup", "e", "--settings", merged)
    assert again.out.startswith("Nothing to clean up in e.\n")
    assert again.err == ""


def test_a_dry_run_prints_the_plan_and_changes_nothing(
    firnline: Firnline, merged: Path, tmp_path: Path
) -> None:
    before = content_of(tmp_path / "e")
    shown = firnline("cleanup", "e", "--settings", merged, "--dry-run")
    assert shown.out.startswith("8 objects would be deleted, ")
    assert "4 data parts, 4 log files, 0 old transactions" in shown.out
    data = firnline("cleanup", "e", "--settings", merged, "--dry-run", "--json").data
    assert (data["table"], data["parts"], data["log_files"], data["waiting"]) == ("e", 4, 4, [])
    assert content_of(tmp_path / "e") == before


def test_what_waits_is_a_table_with_times(firnline: Firnline, fresh: Path) -> None:
    shown = firnline("cleanup", "e", "--settings", fresh)
    assert shown.out.startswith("Nothing to clean up in e.\n")
    assert "readers may still use them: the grace is not over" in shown.out
    (parts, logs) = firnline("cleanup", "e", "--settings", fresh, "--json").data["waiting"]
    assert (parts["what"], parts["count"], logs["what"], logs["count"]) == (
        "parts",
        4,
        "log files",
        4,
    )
    assert parts["first_ms"] > time.time() * 1000


def test_a_run_can_be_bounded(firnline: Firnline, merged: Path) -> None:
    data = firnline("cleanup", "e", "--settings", merged, "--max-deletes", "5", "--json").data
    assert (data["parts"], data["log_files"]) == (1, 4)
    assert data["waiting"][0]["count"] == 3
    assert firnline("cleanup", "e", "--settings", merged, "--max-deletes", "0").code == 2


def test_objects_that_cannot_be_deleted_are_listed_and_the_run_fails(
    firnline: Firnline, merged: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = ObjectClient.delete_batch

    def refuse(self: ObjectClient, keys: Sequence[str]) -> Sequence[Deleted]:
        locked = StoreError("the object is locked", next_step="unlock it")
        refused = [Deleted(k, locked) for k in keys if "/_data/" in k]
        return [*real(self, [k for k in keys if "/_log/" in k]), *refused]

    monkeypatch.setattr(ObjectClient, "delete_batch", refuse)
    shown = firnline("cleanup", "e", "--settings", merged)
    assert shown.code == 1
    assert "the object is locked" in shown.out
    assert shown.sentence.startswith("4 objects of e could not be deleted, for the reasons above")
    told = firnline("cleanup", "e", "--settings", merged, "--json")
    assert told.error["type"] == "CleanupFailedError"
    assert told.data["failed"] == 4


def test_there_has_to_be_a_table(firnline: Firnline, tmp_path: Path) -> None:
    shown = firnline("cleanup", f"file://{tmp_path}/nothing")
    assert shown.code == 2
    assert "there is no table at" in shown.sentence


def test_ctrl_c_says_what_is_safe(
    firnline: Firnline, merged: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupt(CLEANUP, monkeypatch)
    shown = firnline("cleanup", "e", "--settings", merged)
    assert shown.code == 130
    assert "what was deleted had no reader any more, e reads as before" in shown.sentence
