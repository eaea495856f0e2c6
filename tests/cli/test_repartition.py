"""``firnline repartition``: what it would move, what it moved, and what it says when it cannot."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from firnline.appends.append import Appender
from firnline.settings.load import find_table
from firnline.state.snapshot import read_snapshot
from firnline.table import open_table
from tests.support.cli import Outcome, content_of, settings_file

DAY = 86_400_000_000
Firnline = Callable[..., Outcome]


def declared(tmp_path: Path, layout: str) -> Path:
    text = f"tables:\n  t: {{root: 'file://{tmp_path}/t', partition_by: [{layout}]}}\n"
    return settings_file(tmp_path, text)


@pytest.fixture
def settings(tmp_path: Path) -> Path:
    """A table of three days in two months, written by day; the settings say month."""
    appender = Appender(open_table(find_table("t", declared(tmp_path, "day(ts)"))))
    times = [day * DAY for day in (29, 30, 31)]
    appender.append(pa.table({"ts": pa.array(times, pa.timestamp("us")), "n": [1, 2, 3]}))
    return declared(tmp_path, "month(ts)")


def partitions(settings: Path) -> dict[str, int]:
    table = open_table(find_table("t", settings))
    found = read_snapshot(table.store, table.paths).partitions
    return {name: sum(m.n or 0 for m in markers) for name, markers in found.items()}


def test_the_layout_has_to_be_applied_first(firnline: Firnline, settings: Path) -> None:
    refused = firnline("repartition", "t", "--settings", settings)
    assert refused.code == 2
    assert "firnline properties apply" in refused.sentence


def test_a_dry_run_changes_nothing_and_a_run_moves_and_reports(
    firnline: Firnline, settings: Path
) -> None:
    assert firnline("properties", "apply", "t", "--yes", "--settings", settings).code == 0
    before = content_of(settings.parent / "t")
    plan = firnline("repartition", "t", "--dry-run", "--settings", settings)
    assert "3 parts of 3 partitions would be moved to partitions by month(ts)" in plan.out
    asked = firnline("repartition", "t", "--dry-run", "--json", "--settings", settings).data
    assert [p["partition"] for p in asked["partitions"]] == [
        "ts_day=1970-01-30",
        "ts_day=1970-01-31",
        "ts_day=1970-02-01",
    ]
    assert content_of(settings.parent / "t") == before
    some = ("--partitions", "*-01-*")
    done = firnline("repartition", "t", *some, "--settings", settings)
    assert done.code == 0, done.err
    assert "ts_day=1970-01-30              1  1 → 1     1" in done.out
    assert partitions(settings) == {"ts_day=1970-02-01": 1, "ts_month=1970-01": 2}
    rest = firnline("repartition", "t", "--json", "--settings", settings).data
    assert (len(rest["transactions"]), rest["parts_left"]) == (1, 0)
    assert partitions(settings) == {"ts_month=1970-01": 2, "ts_month=1970-02": 1}
    nothing = firnline("repartition", "t", "--settings", settings)
    assert nothing.out == "Nothing was moved in t, whose layout is month(ts).\n"
