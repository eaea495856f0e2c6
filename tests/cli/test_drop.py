"""``firnline drop``: list, look, ask, drop."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import pytest

from firnline.operations.registry import DROP
from tests.support.cli import LogOnlyTable, Outcome, content_of
from tests.support.interrupted import interrupt

Firnline = Callable[..., Outcome]


class Terminal:
    """Somebody who types, and what happens before the answer."""

    def __init__(self, text: str, meanwhile: Callable[[], object] = lambda: None) -> None:
        self._text, self._meanwhile = text, meanwhile

    def isatty(self) -> bool:
        return True

    def readline(self) -> str:
        self._meanwhile()
        return self._text


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    return lambda text: monkeypatch.setattr("sys.stdin", Terminal(text))


def listed(firnline: Firnline, table: LogOnlyTable) -> list[str]:
    return [p["partition"] for p in firnline("drop", table.root, "--json").data["partitions"]]


def test_without_a_partition_they_are_listed_with_rows_bytes_and_age(
    firnline: Firnline, table: LogOnlyTable
) -> None:
    before = content_of(table.folder)
    data = firnline("drop", table.root, "--json").data
    assert [(p["partition"], p["parts"], p["rows"]) for p in data["partitions"]] == [
        ("d=1", 2, 20),
        ("d=2", 2, 20),
    ]
    assert data["partitions"][1]["newest_ms"] == table.t
    lines = [line.split() for line in firnline("drop", table.root).out.splitlines()]
    assert lines[0] == ["partition", "parts", "rows", "bytes", "oldest", "newest"]
    assert lines[2][:5] == ["d=1", "2", "20", "3.9", "KiB"]
    assert lines[-1][:5] == ["2", "in", "all", "4", "40"]
    assert content_of(table.folder) == before


def test_a_dry_run_shows_the_totals_and_changes_nothing(
    firnline: Firnline, table: LogOnlyTable
) -> None:
    before = content_of(table.folder)
    shown = firnline("drop", table.root, "d=1", "--dry-run")
    assert shown.out.splitlines()[-1] == "2 parts with 20 rows (3.9 KiB) of events would go."
    data = firnline("drop", table.root, "d=1", "--dry-run", "--json").data
    assert (data["parts"], data["rows"], data["bytes"]) == (2, 20, 4000)
    assert content_of(table.folder) == before


def test_with_yes_nobody_is_asked(firnline: Firnline, table: LogOnlyTable) -> None:
    shown = firnline("drop", table.root, "d=1", "--yes")
    said = "firnline: table events gets its properties from the settings\n"
    assert (shown.code, shown.err) == (0, said)
    rows = dict(line.split(maxsplit=1) for line in shown.out.splitlines())
    assert (rows["dropped"], rows["rows"], rows["partitions"]) == ("2 parts", "20", "d=1")
    assert rows["transaction"] == "1"
    assert listed(firnline, table) == ["d=2"]
    (txn,) = firnline("history", table.root, "--json").data["transactions"]
    assert (txn["op"], txn["rows_deleted"]) == ("drop", 20)


def test_only_a_yes_drops(
    firnline: Firnline, table: LogOnlyTable, typed: Callable[[str], None]
) -> None:
    for answer in ("", "\n", "y\n", "no\n"):
        typed(answer)
        shown = firnline("drop", table.root, "d=1")
        assert shown.code == 1
        assert shown.out.splitlines()[-1].endswith("Nothing was changed.")
        assert listed(firnline, table) == ["d=1", "d=2"]
    typed("yes\n")
    shown = firnline("drop", table.root, "d=1")
    assert shown.code == 0
    assert "2 parts with 20 rows (3.9 KiB) of events would go.\nDo it? " in shown.out
    assert listed(firnline, table) == ["d=2"]


def test_what_changes_between_question_and_answer_is_not_dropped(
    firnline: Firnline, table: LogOnlyTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = Terminal("yes\n", lambda: table.append({"d=1": [5_000]}))
    monkeypatch.setattr("sys.stdin", late)
    shown = firnline("drop", table.root, "d=1")
    assert shown.code == 2
    assert "1 of 1 partition changed after the list was made: d=1 has 3 parts now" in shown.sentence
    assert listed(firnline, table) == ["d=1", "d=2"]


def test_where_nobody_can_be_asked_yes_has_to_be_given(
    firnline: Firnline, table: LogOnlyTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("yes\n"))
    shown = firnline("drop", table.root, "d=1")
    assert (shown.code, shown.out) == (2, "")
    assert "partitions of events may go; look with --dry-run, then give --yes" in shown.sentence
    assert firnline("drop", table.root, "d=1", "--json").error["type"] == "UsageError"
    assert listed(firnline, table) == ["d=1", "d=2"]


def test_a_partition_that_does_not_exist_is_named_with_its_neighbours(
    firnline: Firnline, table: LogOnlyTable
) -> None:
    shown = firnline("drop", table.root, "d=3", "--yes")
    assert shown.code == 2
    assert shown.sentence.startswith("there is no partition 'd=3'; give exact names, such as d=")


def test_the_table_without_partitions_is_a_dash(firnline: Firnline, tmp_path: Path) -> None:
    table = LogOnlyTable(tmp_path / "plain")
    table.append({"": [10]}, rows=None)
    assert firnline("drop", table.root).out.splitlines()[2].split()[:3] == ["-", "1", "?"]
    shown = firnline("drop", table.root, "-", "--yes").out
    assert "0, and those of 1 part that do not say" in shown
    assert firnline("drop", table.root).out == "plain has no live part.\n"


def test_ctrl_c_says_what_is_safe(
    firnline: Firnline, table: LogOnlyTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupt(DROP, monkeypatch)
    shown = firnline("drop", table.root, "d=1", "--yes")
    assert shown.code == 130
    assert "the partitions of events went together or not at all" in shown.sentence
