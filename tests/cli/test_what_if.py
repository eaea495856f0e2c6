"""``firnline what-if``."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import firnline as package
from firnline import WhatIfOptions
from firnline.errors import UsageError
from tests.support.cli import Outcome, content_of, settings_file

Firnline = Callable[..., Outcome]
TABLE = "busy: {root: 'file://%s/busy', partition_by: [day(ts)], merge: {min_inputs: 2}}"


@pytest.fixture
def settings(tmp_path: Path, firnline: Firnline) -> Path:
    """A table of six parts of two days, four of which are merged into two."""
    path = settings_file(tmp_path, f"tables:\n  {TABLE % tmp_path}\n")
    rows = tmp_path / "rows.parquet"
    days = [datetime(2026, 1, day, tzinfo=UTC) for day in (1, 2)]
    pq.write_table(pa.table({"ts": days}), rows)
    for number in range(3):
        assert firnline("append", "busy", rows, "--settings", path).code == 0
        if number == 1:
            assert firnline("merge", "busy", "--settings", path).code == 0
    return path


def test_what_was_stands_beside_the_play_and_the_variant(
    firnline: Firnline, settings: Path, tmp_path: Path
) -> None:
    before = content_of(tmp_path)
    call = ("what-if", "busy", "--every", "1s", "--set", "merge.min_inputs=8")
    out = firnline(*call, "--settings", settings).out
    lines = out.splitlines()
    assert lines[0].startswith("busy: 6 parts (")
    assert lines[1] == "as it is: the settings in force; merges every 1s"
    assert lines[2] == "what if: merge.min_inputs=8; merges every 1s"
    assert lines[4].split() == ["what", "was", "as", "it", "is", "difference", "what", "if"]
    rows = {line[:32].strip(): line[32:].split() for line in lines[6:24]}
    assert rows["parts at the end"][0] == "4"
    assert rows["merges"][0] == "1"
    assert rows["merges"][-1] == "0"
    assert rows["write amplification"][-1] == "1.0"
    assert "Each of these parts is in the log, with its size and time." in out
    assert "Left out: storage, traffic, CPU, verify and orphan sweep; " in out
    assert content_of(tmp_path) == before


def test_the_data_has_all_of_it_and_what_was_sent(firnline: Firnline, settings: Path) -> None:
    call = ("what-if", "busy", "--every", "1s", "--put-price", "5", "--scans-a-day", "7", "--json")
    data = firnline(*call, "--settings", settings).data
    assert (data["what_if"], data["suggestion"], data["settings"]) == (None, None, {})
    assert data["arrivals"]["parts"] == 6
    assert data["arrivals"]["reconstructed"] == 0
    assert data["was"]["parts"] == 4
    assert data["prices"] == {"put_of_1000": 5.0, "get_of_1000": 0.0004}
    assert data["scans_a_day"] == 7
    assert data["start"] == data["since"] < data["end"]
    # The log: two LIST, and 2 log files; the history: a LIST, and a transaction.
    sent = data["requests_sent"]
    assert (sent["list"], sent["get"], sent["put"]) == (3, 3, 0)


def test_a_suggestion_ends_with_settings_to_copy_or_says_that_there_are_none(
    firnline: Firnline, settings: Path
) -> None:
    call = ("what-if", "busy", "--every", "1s", "--suggest", "--settings", settings)
    out = firnline(*call).out
    assert " with a scan of yesterday at 20 requests or fewer (" in out
    assert "scan sends" in out
    none = firnline(*call, "--most-requests", "1").out
    assert "None keeps a scan of yesterday at 1 request or fewer (" in none


def test_python_gives_the_same_answer(
    firnline: Firnline, settings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FIRNLINE_TABLES", str(settings))
    options = WhatIfOptions(every="1s", most_parts=4)  # type: ignore[arg-type] # as on the command line
    answer = package.what_if("busy", {"merge.min_inputs": 8}, options)
    assert answer.what_if is not None
    assert (answer.what_if.outcome.runs, answer.arrived.cut) == (0, True)
    assert "WhatIf of busy" in repr(answer)
    table = package.open_table("busy")
    again = package.what_if(table, {"merge.min_inputs": 8}, options)
    assert again.was.outcome.parts == answer.was.outcome.parts
    with pytest.raises(UsageError, match=r"merge\.min_input: is not a setting; did you mean"):
        package.what_if("busy", {"merge.min_input": 8})


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--set", "merge.min_inputs"], "--set 'merge.min_inputs' is not SETTING=VALUE"),
        (["--set", "a.b=1", "--set", "a.b=2"], "--set names the setting 'a.b' twice"),
        (["--set", "merge.min_inputs=1"], "busy.merge.min_inputs: must be greater than or equal"),
        (["--every", "15"], "has no unit"),
        (["--days", "0"], "days is 0, and the least is 1"),
    ],
)
def test_what_cannot_be_asked_is_a_sentence(
    firnline: Firnline, settings: Path, options: list[str], said: str
) -> None:
    done = firnline("what-if", "busy", *options, "--settings", settings)
    assert (done.code, done.out) == (2, "")
    assert said in done.sentence
