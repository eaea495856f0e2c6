"""``firnline cost``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.cli import Outcome, content_of, settings_file

Firnline = Callable[..., Outcome]


@pytest.fixture
def settings(tmp_path: Path, firnline: Firnline) -> Path:
    """A table of six small parts, and one without any."""
    roots = "".join(
        f"  {name}: {{root: 'file://{tmp_path}/{name}', merge: {{min_inputs: 2}}}}\n"
        for name in ("busy", "empty")
    )
    path = settings_file(tmp_path, f"fleet: {{schedule: '*/30 * * * *'}}\ntables:\n{roots}")
    rows = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"id": [1]}), rows)
    for _ in range(6):
        assert firnline("append", "busy", rows, "--settings", path).code == 0
    return path


def test_each_operation_has_its_runs_requests_money_and_source(
    firnline: Firnline, settings: Path
) -> None:
    out = firnline("cost", "busy", "--settings", settings).out
    lines = out.splitlines()
    assert lines[0].startswith("busy: 6 appends in the last 1h (6 parts, ")
    assert lines[0].endswith(" in 1 partition), by the log")
    rows = {line.split()[0]: line for line in lines[4:] if line and line[0] != " "}
    assert list(rows)[:6] == ["append", "planner", "merge", "cleanup", "verify", "all"]
    assert rows["append"].split()[1:6] == ["144", "4,320", "0", "8,640", "0"]
    assert "fleet.schedule */30 * * * *" in rows["planner"]
    assert rows["planner"].split()[1] == "48"
    assert "A read of all rows sends at least 14 requests now, and 4 after a merge: " in out
    assert "Prices: 0.005 USD for 1,000 PUT or LIST, 0.0004 for 1,000 GET" in out
    assert "Not counted: storage, traffic, CPU" in out


def test_the_data_has_what_is_printed_and_the_prices_that_were_given(
    firnline: Firnline, settings: Path
) -> None:
    call = ("cost", "busy", "--put-price", "5", "--get-price", "0", "--json")
    data = firnline(*call, "--settings", settings).data
    assert data["prices"] == {"put_of_1000": 5.0, "get_of_1000": 0.0}
    append = data["operations"][0]
    assert (append["operation"], append["runs_a_day"], append["usd"]) == ("append", 144, 64.8)
    assert append["requests"] == {"list": 4_320, "get": 0, "put": 8_640, "delete": 0}
    assert data["usd"] == pytest.approx(sum(each["usd"] for each in data["operations"]), abs=1e-3)
    assert data["read_now"]["requests"] == {"list": 2, "get": 12, "put": 0, "delete": 0}


def test_it_sends_the_requests_of_a_snapshot_and_changes_nothing(
    firnline: Firnline, settings: Path, tmp_path: Path
) -> None:
    before = content_of(tmp_path)
    sent = firnline("cost", "busy", "--json", "--settings", settings).data["requests_sent"]
    assert sent == firnline("snapshot", "busy", "--json", "--settings", settings).data["requests"]
    assert content_of(tmp_path) == before


def test_fewer_appends_of_the_same_rows_can_be_asked_for(
    firnline: Firnline, settings: Path
) -> None:
    less = firnline("cost", "busy", "--appends-per-day", "24", "--settings", settings).out
    first, *rest = less.splitlines()
    assert first.startswith("busy: as if the rows of the last 1h (")
    assert first.endswith(") came in 24 appends a day")
    assert rest[3].split()[:5] == ["append", "24", "720", "0", "1,440"]


def test_a_root_without_a_settings_file_has_the_default_schedules(
    firnline: Firnline, settings: Path, tmp_path: Path
) -> None:
    settings.unlink()
    data = firnline("cost", f"file://{tmp_path}/busy", "--json").data
    merge = next(each for each in data["operations"] if each["operation"] == "merge")
    assert "fleet.schedule @hourly" in merge["source"]


def test_what_cannot_be_told_is_a_sentence(firnline: Firnline, settings: Path) -> None:
    none = firnline("cost", "empty", "--settings", settings)
    assert (none.code, "there is no table at" in none.sentence) == (2, True)
    infinite = firnline("cost", "busy", "--put-price", "inf", "--settings", settings)
    assert (infinite.code, "--put-price" in infinite.sentence) == (2, True)
