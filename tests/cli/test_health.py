"""``firnline health``."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firnline.settings.files import Content, read_file
from tests.support.cli import Outcome, content_of, settings_file

Firnline = Callable[..., Outcome]


@pytest.fixture
def settings(tmp_path: Path, firnline: Firnline) -> Path:
    """A table of six small parts, one without any, and one of which the log is damaged."""
    roots = "".join(
        f"  {name}: {{root: 'file://{tmp_path}/{name}'}}\n" for name in ("busy", "empty", "torn")
    )
    path = settings_file(tmp_path, f"tables:\n{roots}")
    for number in range(6):
        rows = tmp_path / f"{number}.parquet"
        pq.write_table(pa.table({"id": [number]}), rows)
        for name in ("busy", "torn"):
            assert firnline("append", name, rows, "--settings", path).code == 0
    log_file = next((tmp_path / "torn" / "_log").iterdir())
    log_file.write_bytes(log_file.read_bytes()[:-20])
    return path


def test_all_tables_are_shown_the_worst_first(firnline: Firnline, settings: Path) -> None:
    shown = firnline("health", "--json", "--settings", settings)
    rows = shown.data["tables"]
    assert [(row["table"], row["score"]) for row in rows] == [
        ("empty", 0),
        ("torn", 0),
        ("busy", 58),
    ]
    assert rows[0]["figures"] is None
    assert rows[0]["reasons"][0]["text"].startswith("there is no table at file://")
    assert rows[1]["figures"] is None
    assert rows[1]["reasons"][0]["text"].startswith("cannot be read: ")
    assert rows[2]["reasons"] == [
        {"points": 42, "text": "6 parts, 5 requests a scan, wait for a merge"}
    ]


def test_a_score_below_what_is_asked_for_ends_with_1(firnline: Firnline, settings: Path) -> None:
    asked = ("health", "busy", "--settings", settings)
    assert firnline(*asked).code == 0
    alarmed = firnline(*asked, "--below", "70")
    assert alarmed.code == 1
    assert "1 table below a score of 70: busy" in alarmed.err
    assert "-42 6 parts, 5 requests a scan, wait for a merge" in alarmed.out
    assert firnline("health", "--settings", settings).code == 1  # one cannot be read


def test_a_root_without_a_table_is_refused_as_by_every_command(
    firnline: Firnline, settings: Path
) -> None:
    refused = firnline("health", "empty", "--settings", settings)
    assert (refused.code, refused.out) == (2, "")
    assert refused.err == firnline("history", "empty", "--settings", settings).err
    beside = firnline("health", "busy", "empty", "--settings", settings)
    assert beside.code == 1
    assert "1 table below a score of 1: empty" in beside.err
    assert re.search(r"empty +0 .*there is no table at", beside.out)


def test_the_settings_are_read_once_for_all_tables(
    firnline: Firnline, settings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[Path] = []

    def counted(path: Path, *, next_step: str | None) -> Content:
        read.append(path)
        return read_file(path, next_step=next_step)

    monkeypatch.setattr("firnline.settings.load.read_file", counted)
    assert len(firnline("health", "--json", "--settings", settings).data["tables"]) == 3
    assert len(read) == 1


def test_a_look_changes_nothing(firnline: Firnline, settings: Path) -> None:
    before = content_of(settings.parent / "busy")
    firnline("health", "busy", "--settings", settings)
    assert content_of(settings.parent / "busy") == before


def test_a_name_that_is_not_in_the_settings_is_refused(firnline: Firnline, settings: Path) -> None:
    wrong = firnline("health", "busy", "bsy", "--settings", settings)
    assert wrong.code == 2
    assert "bsy" in wrong.err


def test_a_table_that_is_named_comes_with_its_details_and_savings(
    firnline: Firnline, settings: Path
) -> None:
    assert (
        "busy: no maintenance transaction yet."
        in firnline("health", "busy", "--settings", settings).out
    )
    assert firnline("merge", "busy", "--settings", settings).code == 0
    shown = firnline("health", "busy", "--settings", settings)
    assert "busy: merges save every scan 5 requests, clean-ups 0 B, since" in shown.out
    (row,) = firnline("health", "busy", "--json", "--settings", settings).data["tables"]
    assert row["detail"]["savings"]["requests"] == 5
    (merge,) = row["detail"]["transactions"]
    assert (merge["op"], merge["undone"]) == ("merge", None)
    rows = firnline("health", "--json", "--settings", settings).data["tables"]
    assert all("detail" not in row for row in rows)
