"""``firnline analyze`` on a folder: what it prints, before and after."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from firnline.appends.append import Appender
from firnline.settings.load import settings_for_root
from firnline.table import open_table
from tests.support.cli import Outcome, settings_file

Firnline = Callable[..., Outcome]


@pytest.fixture
def settings(tmp_path: Path) -> Path:
    """A table that kept bounds of nothing, and settings that name a column since."""
    root = f"file://{tmp_path}/events"
    for number in range(3):
        rows = {"x": [number, number + 1], "f": [0.5, 1.5]}
        Appender(open_table(settings_for_root(root))).append(pa.table(rows))
    return settings_file(tmp_path, f"tables: {{events: {{root: '{root}', statistics: [x, f]}}}}")


def test_a_column_that_only_the_settings_name_is_told(firnline: Firnline, settings: Path) -> None:
    told = firnline("analyze", "events", "--settings", settings).out
    advice = f"`firnline properties apply events --settings {settings}`"
    assert f"{advice} makes the table keep their bounds" in told
    assert "The log has the statistics of events that footers can have." in told


def test_a_column_that_the_table_does_not_have_is_told_as_that(
    firnline: Firnline, settings: Path
) -> None:
    settings.write_text(settings.read_text().replace("[x, f]", "[y]"))
    told = firnline("analyze", "events", "--settings", settings).out
    assert "events has no column y, which the setting statistics names: correct it there" in told
    assert "properties apply" not in told


def test_the_plan_counts_the_footers_and_the_report_what_was_stated(
    firnline: Firnline, settings: Path
) -> None:
    asked = ("--settings", settings)
    assert firnline("properties", "apply", "events", "--yes", *asked).code == 0
    plan = firnline("analyze", "events", "--dry-run", *asked).out
    assert "No footer has bounds of f" in plan
    assert "The footers of 3 parts of events would be read, with about 3 requests." in plan
    data = firnline("analyze", "events", "--dry-run", "--json", *asked).data
    assert (data["parts"], data["lacking"]) == (3, {"x": 3})
    done = firnline("analyze", "events", *asked).out
    lines = {line.split("  ")[0]: line.split()[-1] for line in done.splitlines() if "  " in line}
    assert lines["parts that state more"] == "3"
    assert lines["transactions"] == "2"
    again = firnline("analyze", "events", "--json", *asked).data
    assert (again["parts"], again["plan"]["parts_complete"]) == (0, 3)


def test_a_part_that_cannot_be_read_is_an_error_after_the_others(
    firnline: Firnline, settings: Path, tmp_path: Path
) -> None:
    asked = ("--settings", settings)
    firnline("properties", "apply", "events", "--yes", *asked)
    part = next((tmp_path / "events/_data").rglob("*.parquet"))
    part.write_bytes(b"x" * part.stat().st_size)
    ended = firnline("analyze", "events", *asked)
    assert ended.code == 1
    assert part.name in ended.out
    assert "1 of the parts of table events could not be analyzed, 2 were" in ended.err


def test_parts_without_hash_ranges_are_told_and_read_with_hashes(
    firnline: Firnline, tmp_path: Path
) -> None:
    root = f"file://{tmp_path}/users"
    for number in range(3):
        rows = pa.table({"id": [number, number + 10]})
        Appender(open_table(settings_for_root(root))).append(rows)
    declared = f"tables: {{users: {{root: '{root}', cluster_by: {{columns: [id], method: hash}}}}}}"
    asked = ("--settings", settings_file(tmp_path, declared))
    assert firnline("properties", "apply", "users", "--yes", *asked).code == 0
    told = firnline("analyze", "users", *asked).out
    assert "3 parts state no hash range of hash(id): with --hashes these columns are read." in told
    plan = firnline("analyze", "users", "--hashes", "--dry-run", *asked).out
    assert "hash(id)" in plan
    assert "and of 3 the columns to hash, of 3 parts of users would be read" in plan
    done = firnline("analyze", "users", "--hashes", *asked).out
    assert "hash(id)" in done
    again = firnline("analyze", "users", "--hashes", *asked).out
    assert (
        "The log has the statistics of users that footers can have, and its hash ranges." in again
    )
