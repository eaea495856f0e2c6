"""``firnline read``."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firnline.appends.append import Appender
from firnline.settings.load import settings_for_root
from firnline.table import open_table
from tests.support.cli import Outcome, content_of

Firnline = Callable[..., Outcome]


@pytest.fixture
def root(tmp_path: Path) -> str:
    """Thirty rows in three parts; every third has no name."""
    root = f"file://{tmp_path}/events"
    appender = Appender(open_table(settings_for_root(root)))
    for first in range(0, 30, 10):
        ids = range(first, first + 10)
        names = [None if n % 3 == 0 else f"n{n}" for n in ids]
        rows = {"id": list(ids), "name": names, "tags": [[n] for n in ids]}
        appender.append(pa.table(rows))
    return root


def test_rows_are_shown_as_a_table_that_says_what_it_leaves_out(
    root: str, firnline: Firnline
) -> None:
    done = firnline("read", root, "--columns", "name, id", "--limit", "4")
    head, _, *rows, blank, summary = done.out.splitlines()
    assert (done.code, head.split(), len(rows), blank) == (0, ["name", "id"], 4, "")
    assert summary == (
        "The first 4 rows from 3 of 3 parts; --limit shows more, --output keeps them."
    )
    few = firnline("read", root, "--where", "id in (4, 17)").out.splitlines()
    assert few[-1] == "2 rows from 3 of 3 parts."
    assert len(firnline("read", root).out.splitlines()) == 2 + 20 + 2


def test_json_holds_the_rows_as_values_and_what_was_read(root: str, firnline: Firnline) -> None:
    data = firnline("read", root, "--where", "id = 9", "--json").data
    assert data["rows"] == [[9, None, [9]]]
    assert (data["columns"], data["parts"], data["more"]) == (["id", "name", "tags"], 3, False)


@pytest.mark.parametrize("command", [("read",), ("changes", "--since", "0")])
def test_json_has_values_where_it_can_and_text_elsewhere(
    tmp_path: Path, firnline: Firnline, command: tuple[str, ...]
) -> None:
    root = f"file://{tmp_path}/kinds"
    struct = {"agent": "y", "n": [1, None], "d": Decimal("1.50")}
    row: dict[str, Any] = {
        "small": 2**53,
        "big": 2**53 + 1,
        "ok": True,
        "f": 0.5,
        "nan": float("nan"),
        "inf": float("-inf"),
        "s": struct,
        "at": datetime.fromisoformat("2026-01-02T03:04:05"),
        "bytes": b"a\xff",
        "empty": "",
        "none": None,
    }
    maps = pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64()))
    no_map = pa.array([[]], pa.map_(pa.string(), pa.int64()))
    rows = pa.table({name: [value] for name, value in row.items()})
    rows = rows.set_column(10, "none", pa.array([None], pa.string()))
    rows = rows.append_column("m", maps).append_column("e", no_map)
    Appender(open_table(settings_for_root(root))).append(rows)
    data = firnline(command[0], root, *command[1:], "--json").data
    added = 3 if command[0] == "changes" else 0
    assert dict(zip(data["columns"][added:], data["rows"][0][added:], strict=True)) == {
        "small": 2**53,
        "big": str(2**53 + 1),
        "ok": True,
        "f": 0.5,
        "nan": "nan",
        "inf": "-inf",
        "s": {"agent": "y", "n": [1, None], "d": "1.50"},
        "at": "2026-01-02 03:04:05",
        "bytes": "a\\xFF",
        "empty": "",
        "none": None,
        "m": {"k": 1},
        "e": {},
    }
    screen = firnline("read", root, "--columns", "empty,none", "--vertical").out
    assert [line.split() for line in screen.splitlines()[1:3]] == [["empty"], ["none", "null"]]
    assert firnline("read", root, "--columns", "none", "--output", "-").out == 'none\n""\n'


@pytest.mark.parametrize(
    "options",
    [
        ("--output", "-", "--json"),
        ("--output", "-", "--vertical"),
        ("--output", "new.csv", "--vertical"),
        ("--json", "--vertical"),
    ],
)
def test_an_option_that_would_be_ignored_is_refused(
    root: str, firnline: Firnline, options: tuple[str, ...]
) -> None:
    refused = firnline("read", root, *options)
    said = refused.error["message"] if "--json" in options else refused.sentence
    assert (refused.code, refused.out, "do not go together" in said) == (2, "", True)


@pytest.mark.parametrize("command", ["read", "changes"])
def test_rows_without_a_column_are_refused(root: str, firnline: Firnline, command: str) -> None:
    for names, said in (("", "--columns is empty"), (",", "columns names no column")):
        refused = firnline(command, root, "--columns", names)
        assert (refused.code, said in refused.sentence) == (2, True)


def test_rows_go_to_csv_on_standard_output(root: str, firnline: Firnline) -> None:
    out = firnline("read", root, "--output", "-").out
    found = list(csv.DictReader(io.StringIO(out)))
    assert sorted(int(row["id"]) for row in found) == list(range(30))
    assert next(row for row in found if row["id"] == "4") == {
        "id": "4",
        "name": "n4",
        "tags": "[4]",
    }


def test_rows_go_to_files_that_are_whole_or_not_there(
    root: str, firnline: Firnline, tmp_path: Path
) -> None:
    parquet, text = tmp_path / "out.parquet", tmp_path / "out.csv"
    assert firnline("read", root, "--output", parquet).out == f"30 rows in {parquet}\n"
    assert sorted(pq.read_table(parquet)["id"].to_pylist()) == list(range(30))
    assert firnline("read", root, "--limit", "7", "--output", text, "--json").data["rows"] == 7
    assert len(text.read_text().splitlines()) == 8
    before = content_of(tmp_path)
    refused = firnline("read", root, "--output", parquet)
    assert (refused.code, refused.sentence.startswith(f"{parquet} exists;")) == (2, True)
    assert firnline("read", root, "--output", tmp_path / "out.xlsx").code == 2
    assert firnline("read", root, "--output", tmp_path / "no" / "out.csv").code == 2
    next((tmp_path / "events" / "_data").rglob("*.parquet")).unlink()
    gone = firnline("read", root, "--output", tmp_path / "new.csv")
    assert gone.code == 1
    assert "has no object any more" in gone.sentence
    assert before.keys() - content_of(tmp_path).keys() != set()
    assert not list(tmp_path.glob("*new*"))
    assert not list(tmp_path.glob(".new*"))


def test_the_past_is_read_by_transaction_or_time(root: str, firnline: Firnline) -> None:
    done = firnline("read", root, "--at", "3")
    assert (done.code, "has no transaction at all" in done.sentence) == (2, True)
    assert firnline("read", root, "--at", "2013-01-01T00:00:00Z").out.endswith(
        "0 rows from 0 of 0 parts.\n"
    )


@pytest.mark.parametrize(
    ("where", "told"),
    [
        ('name = "n1"', """`"n1"` in double quotes is a column, as in SQL"""),
        ('"name" = "n1"', "write 'n1' in single quotes if it is a text"),
        ("name = id", "compares `name` with `id`, two columns"),
    ],
)
def test_a_text_in_the_wrong_quotes_is_not_taken_for_another_mistake(
    root: str, firnline: Firnline, where: str, told: str
) -> None:
    done = firnline("read", root, "--where", where)
    assert (done.code, told in done.sentence) == (2, True)


def test_a_limit_that_no_table_has_rows_for_is_refused(root: str, firnline: Firnline) -> None:
    done = firnline("read", root, "--limit", "99999999999999999999")
    assert (done.code, "must be less than or equal to" in done.sentence) == (2, True)


@pytest.mark.parametrize("command", [("read", "--output"), ("changes", "--to")])
def test_a_folder_that_cannot_be_written_to_is_said_before_anything_is_read(
    firnline: Firnline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, str]
) -> None:
    def refuse(self: Path, *_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr("pathlib.Path.touch", refuse)
    out = tmp_path / "out.parquet"
    done = firnline(command[0], f"file://{tmp_path}/none", command[1], out)
    assert (done.code, done.sentence) == (
        2,
        f"{out} cannot be written: Permission denied; choose another folder",
    )


@pytest.mark.parametrize("command", ["read", "changes"])
def test_a_limit_may_be_any_number_that_leaves_room_for_one_more(
    firnline: Firnline, root: str, command: str
) -> None:
    assert firnline(command, root, "--limit", str(2**63 - 2)).code == 0
    done = firnline(command, root, "--limit", str(2**63 - 1))
    assert (done.code, "'--limit'" in done.sentence) == (2, True)
    assert firnline(command, root, "--limit", "abc").sentence == (
        f"invalid value for '--limit': must be a whole number; see `firnline {command} --help`"
    )


def test_an_option_without_its_value_leads_to_the_help_of_its_command(
    firnline: Firnline, root: str
) -> None:
    assert "see `firnline read --help`" in firnline("read", root, "--columns").sentence
    fix = firnline("schema", "fix", root, "--column")
    assert "see `firnline schema fix --help`" in fix.sentence
