"""``firnline fleet``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.cli import Outcome, content_of, settings_file

Firnline = Callable[..., Outcome]


def tables(folder: Path, *, fleet: str = "{}", busy: str = "", torn: bool = False) -> Path:
    """A settings file with a table of six small parts, one of one part, and one by the clock."""
    names = ["busy", "content", *(["torn"] if torn else [])]
    lines = [f"  {name}: {{root: 'file://{folder}/{name}'{busy}}}" for name in names]
    own = f"  own: {{root: 'file://{folder}/own', merge: {{schedule: '@daily'}}}}"
    clocks = "defaults: {cleanup: {schedule: null}, verify: {schedule: null}}"
    text = "\n".join([f"fleet: {fleet}", clocks, "tables:", *lines, own, ""])
    return settings_file(folder, text)


@pytest.fixture
def filled(tmp_path: Path, firnline: Firnline) -> Path:
    """The folder of the tables."""
    path = tables(tmp_path, torn=True)
    for number in range(6):
        rows = tmp_path / f"{number}.parquet"
        pq.write_table(pa.table({"id": [number]}), rows)
        for name in ("busy", "own") if number else ("busy", "own", "content", "torn"):
            assert firnline("append", name, rows, "--settings", path).code == 0
    return tmp_path


def test_the_merges_that_would_be_started_are_shown(firnline: Firnline, filled: Path) -> None:
    shown = firnline("fleet", "--json", "--settings", tables(filled))
    assert shown.code == 0
    assert [(r["table"], r["parts_in"], r["saved"]) for r in shown.data["starts"]] == [
        ("busy", 6, 5)
    ]
    assert (shown.data["tables"], shown.data["idle"]) == (2, 1)
    text = firnline("fleet", "--settings", tables(filled)).out
    assert "6 → 1" in text
    assert "1 merge would be started: 5 requests of a full scan saved" in text
    assert "Nothing to do in 1 table." in text


def test_what_waits_has_its_reason(firnline: Firnline, filled: Path) -> None:
    quiet = tables(filled, fleet="{quiet_hours: '00:00-24:00', budget: 1GiB/day}")
    shown = firnline("fleet", "--settings", quiet)
    assert "no: quiet hours 00:00-24:00 UTC" in shown.out
    assert "0 merges would be started" in shown.out
    assert "0 B of 1.0 GiB were spent in the last 24 hours." in shown.out
    tight = tables(filled, fleet="{budget: 10B/day}")
    (row,) = firnline("fleet", "--json", "--settings", tight).data["waiting"]
    assert row["reason"].startswith("10 B are left of the budget of 10B/day, it needs ")


def test_a_table_that_cannot_be_read_is_shown_and_ends_with_1(
    firnline: Firnline, filled: Path
) -> None:
    (log_file,) = (filled / "torn" / "_log").iterdir()
    log_file.write_bytes(log_file.read_bytes()[:-20])
    path = tables(filled, torn=True)
    shown = firnline("fleet", "--settings", path)
    assert shown.code == 1
    assert "1 table could not be read" in shown.err
    assert "torn" in shown.out
    assert "1 merge would be started" in shown.out


def test_a_look_changes_nothing(firnline: Firnline, filled: Path) -> None:
    before = content_of(filled / "busy")
    firnline("fleet", "--settings", tables(filled))
    assert content_of(filled / "busy") == before


def test_settings_without_a_table_of_the_fleet_are_refused(
    firnline: Firnline, tmp_path: Path
) -> None:
    path = tables(tmp_path, busy=", merge: {schedule: null}")
    refused = firnline("fleet", "--settings", path)
    assert refused.code == 2
    assert "no table of the settings file has an operation with `schedule: fleet`" in refused.err
