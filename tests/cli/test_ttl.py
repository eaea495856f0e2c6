"""``firnline ttl``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from firnline.operations.registry import TTL
from tests.support.cli import LogOnlyTable, Outcome, content_of, settings_file
from tests.support.interrupted import interrupt

Firnline = Callable[..., Outcome]


@pytest.fixture
def table(tmp_path: Path) -> LogOnlyTable:
    made = LogOnlyTable(tmp_path / "events")
    made.append({"d=2013-01-01": [1_000, 3_000], "d=2013-01-02": [2_000], "d=2999-01-01": [5]})
    made.append({"d=soon": [7]})
    return made


@pytest.fixture
def settings(table: LogOnlyTable, tmp_path: Path) -> Path:
    return settings_with(table, tmp_path, most=0.7)


def settings_with(table: LogOnlyTable, folder: Path, most: float) -> Path:
    day = r"partition: 'd=(?P<day>\d{4}-\d{2}-\d{2})'"
    ttl = f"{{keep: 90d, {day}, max_removed_fraction: {most}}}"
    return settings_file(folder, f"tables: {{events: {{root: '{table.root}', ttl: {ttl}}}}}")


def test_a_dry_run_says_what_goes_and_why_the_rest_stays(
    firnline: Firnline, table: LogOnlyTable, settings: Path
) -> None:
    before = content_of(table.folder)
    data = firnline("ttl", "events", "--dry-run", "--json", "--settings", settings).data
    assert [p["partition"] for p in data["partitions"]] == ["d=2013-01-01", "d=2013-01-02"]
    assert data["kept"] == {
        "is not wholly past": 1,
        "its name does not match ttl.partition": 1,
    }
    assert [u["partition"] for u in data["undecided"]] == ["d=soon"]
    lines = firnline("ttl", "events", "--dry-run", "--settings", settings).out.splitlines()
    assert lines[2].split() == ["d=2013-01-01", "2", "20", "3.9", "KiB", "2013-01-02", "00:00:00Z"]
    assert lines[-1].startswith("3 parts with 30 rows (5.9 KiB) of events would go: wholly before")
    assert any(line.split()[:2] == ["d=soon", "1"] for line in lines)
    assert content_of(table.folder) == before


def test_ttl_drops_what_is_past_and_a_second_run_finds_nothing(
    firnline: Firnline, table: LogOnlyTable, settings: Path
) -> None:
    shown = firnline("ttl", "events", "--yes", "--settings", settings)
    assert shown.code == 0
    assert "dropped      3 parts" in shown.out
    assert "partitions   d=2013-01-01, d=2013-01-02\n" in shown.out
    parts = firnline("parts", table.root, "--json").data["partitions"]
    assert [p["partition"] for p in parts] == ["d=2999-01-01", "d=soon"]
    again = firnline("ttl", "events", "--yes", "--settings", settings)
    dry = f"firnline ttl events --settings {settings} --dry-run"
    assert again.out.splitlines()[-1] == f"Nothing to drop in events: `{dry}` says why."
    nothing = firnline("ttl", "events", "--dry-run", "--settings", settings).out
    assert "Nothing in events is wholly before " in nothing
    data = firnline("ttl", "events", "--json", "--yes", "--settings", settings).data
    assert (data["transaction"], data["parts"]) == (None, 0)


def test_nothing_goes_without_a_yes(
    firnline: Firnline, table: LogOnlyTable, settings: Path
) -> None:
    before = content_of(table.folder)
    shown = firnline("ttl", "events", "--settings", settings)
    assert shown.code == 2
    assert "nobody can be asked whether rows of events may go" in shown.sentence
    assert content_of(table.folder) == before


def test_more_than_half_of_a_table_goes_by_force_or_once_somebody_has_seen_it(
    firnline: Firnline, table: LogOnlyTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, settings = content_of(table.folder), settings_with(table, tmp_path, most=0.5)
    lines = firnline("ttl", "events", "--dry-run", "--settings", settings).out.splitlines()
    assert lines[-2] == (
        "That is 60 % of the table, more than ttl.max_removed_fraction allows (50 %): such a run "
        "needs --force, a yes to its question, or an approval in its DAG."
    )
    shown = firnline("ttl", "events", "--yes", "--settings", settings)
    assert shown.code == 2
    assert shown.sentence.startswith(
        "60 % of events is past its time to live, more than ttl.max_removed_fraction allows "
        "(50 %), so nothing was dropped; see with "
    )
    assert shown.sentence.endswith("; if all of this is to go, run it with --force")
    assert content_of(table.folder) == before
    forced = ("ttl", "events", "--yes", "--force", "--settings", settings)
    assert "dropped      3 parts" in firnline(*forced).out


def test_globs_bound_a_run(firnline: Firnline, table: LogOnlyTable, settings: Path) -> None:
    data = firnline(
        "ttl", "events", "--partitions", "*-02", "--json", "--yes", "--settings", settings
    ).data
    assert data["partitions"] == ["d=2013-01-02"]


def test_a_table_without_ttl_is_told_how_to_get_one(
    firnline: Firnline, table: LogOnlyTable
) -> None:
    shown = firnline("ttl", table.root)
    assert shown.code == 2
    assert shown.sentence == (
        "table events has no ttl: its rows are kept for ever; "
        "set ttl.keep for the table in the settings file"
    )


def test_ctrl_c_says_what_is_safe(
    firnline: Firnline, settings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupt(TTL, monkeypatch)
    shown = firnline("ttl", "events", "--yes", "--settings", settings)
    assert shown.code == 130
    assert "went in one transaction or not at all" in shown.sentence
