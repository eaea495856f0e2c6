"""``firnline append``: columns it adds, files it refuses, partitions that do not fit the rows."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.cli import Outcome, content_of

Firnline = Callable[..., Outcome]
Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """``write("a", id=[1])`` makes a Parquet file."""

    def made(name: str, columns: Mapping[str, Any] | None = None, **more: list[Any]) -> Path:
        path = tmp_path / f"{name}.parquet"
        pq.write_table(pa.table({**(columns or {}), **more}), path)
        return path

    return made


@pytest.fixture
def root(firnline: Firnline, tmp_path: Path, write: Write) -> str:
    """A table with a column ``id``."""
    url = f"file://{tmp_path}/t"
    assert "new column" not in firnline("append", url, write("first", id=[1])).out
    return url


def test_columns_that_an_append_adds_are_named(firnline: Firnline, root: str, write: Write) -> None:
    more = write("more", id=[2], idd=["x"], n=[1.5])
    shown = firnline("append", root, more)
    assert shown.out.splitlines()[1] == (
        "2 new columns in t: idd VARCHAR, n DOUBLE; null in the rows that were there before."
    )
    assert firnline("append", root, more, "--json").data["new_columns"] == {}
    again = firnline("append", root, write("last", id=[3], z=[True]), "--json")
    assert again.data["new_columns"] == {"z": "BOOLEAN"}


def test_new_fields_of_a_column_are_named_and_refused_like_columns(
    firnline: Firnline, root: str, write: Write
) -> None:
    firnline("append", root, write("a", id=[2], p=[{"a": 1}]))
    more = write("b", id=[3], p=[{"c": [{"d": 0.5}]}])
    shown = firnline("append", root, more, "--no-new-columns")
    assert shown.code == 2
    assert shown.sentence.startswith(f"table t has no column p.c, and {more} has it")
    assert firnline("append", root, more).out.splitlines()[1] == (
        "1 new column in t: p.c STRUCT(d DOUBLE)[]; null in the rows that were there before."
    )


def test_what_has_no_type_is_left_out_and_named(
    firnline: Firnline, root: str, write: Write
) -> None:
    rows = write("nulls", {"n": pa.nulls(1), "p": [{"a": 1, "b": None}]}, id=[2])
    assert firnline("append", root, rows).out.splitlines()[2] == (
        "Left out, since they hold only nulls and have no type yet: p.b, n."
    )
    lost = firnline("append", root, write("empty", {"n": [[]]}, id=[3]))
    assert lost.out.splitlines()[1].endswith("no type yet: n; 1 empty value became null.")
    again = firnline("append", root, write("some", {"n": [["x"]]}, id=[4]), "--json")
    assert again.data["new_columns"] == {"n": "VARCHAR[]"}
    assert again.data["untyped"] == {}


def test_new_columns_can_be_refused(
    firnline: Firnline, root: str, write: Write, tmp_path: Path
) -> None:
    before = content_of(tmp_path / "t")
    good, more = write("good", id=[2]), write("more", id=[2], idd=["x"])
    shown = firnline("append", root, good, more, "--no-new-columns")
    assert shown.code == 2
    assert shown.sentence == (
        f"table t has no column idd, and {more} has it; correct the file, or leave "
        "--no-new-columns out; nothing was written"
    )
    two = firnline("append", root, more, write("n", id=[2], n=[1]), "--no-new-columns")
    assert f"has no columns idd, n, and {more} and {tmp_path}/n.parquet have them" in two.sentence
    assert content_of(tmp_path / "t") == before
    assert firnline("append", root, good, "--no-new-columns").code == 0


def test_a_file_that_does_not_fit_is_a_wrong_call_since_nothing_was_begun(
    firnline: Firnline, root: str, write: Write, tmp_path: Path
) -> None:
    before = content_of(tmp_path / "t")
    text = tmp_path / "text.parquet"
    text.write_text("id,n")
    shown = firnline("append", root, text)
    assert (shown.code, f"{text} is not a Parquet file" in shown.sentence) == (2, True)
    keys = firnline("erase", root, "--keys", text, "--column", "id", "--yes")
    assert (keys.code, keys.sentence) == (
        2,
        f"{text} is not a Parquet file; write the keys as Parquet or CSV",
    )
    for ending, kind, step in (("csv", "CSV", "read_csv"), ("jsonl", "JSON", "json.loads")):
        sheet = text.rename(tmp_path / f"text.{ending}")
        told = firnline("append", root, sheet).sentence
        assert told.startswith(f"{sheet} is {kind} and not Parquet; append ")
        assert step in told
        text = sheet
    other = firnline("append", root, write("other", id=["x"]), "--json")
    assert (other.code, other.error["exit_code"]) == (2, 2)
    assert content_of(tmp_path / "t") == before


@pytest.mark.parametrize("path", ["id", "_log", "id=../x", "id=1/x", "id="])
def test_what_is_no_partition_is_refused(
    firnline: Firnline, tmp_path: Path, write: Write, path: str
) -> None:
    shown = firnline("append", f"file://{tmp_path}/new", write("a", n=[1]), "--partition", path)
    assert (shown.code, "write it like year=2013/month=01" in shown.sentence) == (2, True)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("link", [None, os.link, os.symlink])
def test_a_file_that_is_given_twice_is_refused(
    firnline: Firnline,
    root: str,
    write: Write,
    tmp_path: Path,
    link: Callable[[Path, Path], None] | None,
) -> None:
    rows, other = write("rows", id=[2]), tmp_path / "other.parquet"
    if link is None:
        other = rows
    else:
        link(rows, other)
    before = content_of(tmp_path / "t")
    shown = firnline("append", root, rows, other)
    assert shown.code == 2
    assert "is given twice" in shown.sentence
    assert content_of(tmp_path / "t") == before


def test_rows_of_another_partition_are_refused(
    firnline: Firnline, write: Write, tmp_path: Path
) -> None:
    url = f"file://{tmp_path}/c"
    rows = write("rows", customer=["a", "a", "b"], id=[1, 2, 3])
    shown = firnline("append", url, rows, "--partition", "customer=a")
    assert shown.code == 2
    assert shown.sentence == (
        "a row has 'b' in column 'customer', and its partition is to be 'customer=a'; give the "
        "rows of each customer a partition of their own, or state partition_by: [customer] in the "
        "table's settings; nothing was written"
    )
    assert not list((tmp_path / "c").rglob("*.parquet"))
    assert (
        firnline("append", url, write("a", customer=["a"]), "--partition", "customer=a").code == 0
    )
    assert firnline("append", url, write("n", id=[1]), "--partition", "customer=a").code == 0


def test_a_file_that_is_not_there_is_wrong_usage(
    firnline: Firnline, root: str, write: Write, tmp_path: Path
) -> None:
    gone = tmp_path / "gone.parquet"
    shown = firnline("append", root, write("rows", id=[2]), gone)
    assert (shown.code, shown.sentence) == (2, f"there is no file {gone}; correct the name")
    shown = firnline("append", root, tmp_path)
    assert (shown.code, shown.sentence.partition(";")[0]) == (
        2,
        f"{tmp_path} is a folder and not a file",
    )
    gone = tmp_path / "gone.csv"
    shown = firnline("erase", root, "--column", "id", "--keys", gone, "--yes")
    assert (shown.code, shown.sentence) == (2, f"there is no file {gone}; correct the name")


def test_many_files_show_progress(firnline: Firnline, root: str, write: Write) -> None:
    files = [write(f"f{n}", id=[n]) for n in range(12)]
    told = firnline("append", root, *files, "--json", "--progress", "json").err.splitlines()
    first, last = (json.loads(told[at])["progress"] for at in (0, -1))
    assert (first["action"], first["table"], first["unit"]) == ("appending to", "t", "row")
    assert (first["done"], first["total"], first["detail"]) == (
        0,
        12,
        "0 of 12 files, 0 of 12 rows",
    )
    assert (last["done"], last["detail"]) == (
        12,
        "12 of 12 files, 12 of 12 rows, writing the last parts",
    )
    assert firnline("append", root, *files, "--json").err == ""
    assert firnline("append", root, *files, "--progress", "none").err == ""


def test_a_scratch_folder_that_is_not_there_is_wrong_usage(
    firnline: Firnline, root: str, write: Write
) -> None:
    shown = firnline("append", root, write("rows", id=[2]), "--scratch", "/nowhere")
    assert shown.code == 2
    assert shown.sentence.startswith("--scratch /nowhere cannot be used: ")


def test_files_that_were_appended_once_are_not_appended_again(
    firnline: Firnline, root: str, write: Write, tmp_path: Path
) -> None:
    one, two = write("one", id=[2]), write("two", id=[3])
    first = firnline("append", root, one, two, "--once", "--json").data
    assert (first["rows"], first["repeated"]) == (2, False)
    before = content_of(tmp_path / "t")
    again = firnline("append", root, two, one, "--once")
    assert again.code == 0
    assert again.out.startswith("Nothing appended to t: this was appended already, on 20")
    assert content_of(tmp_path / "t") == before
    assert firnline("append", root, one, two, "--once", "--json").data["repeated"] is True
    assert firnline("append", root, one, "--once", "--json").data["rows"] == 1, "other files"
    write("two", id=[4])
    assert firnline("append", root, one, two, "--once", "--json").data["rows"] == 2, "other rows"
    assert firnline("append", root, one, two, "--json").data["rows"] == 2, "not asked for"


def test_a_key_stands_for_the_files(firnline: Firnline, root: str, write: Write) -> None:
    one, two = write("one", id=[2]), write("two", id=[3])
    assert firnline("append", root, one, "--key", "day 7", "--json").data["rows"] == 1
    assert firnline("append", root, two, "--key", "day 7", "--json").data["repeated"] is True
    both = firnline("append", root, two, "--key", "day 7", "--once")
    assert (both.code, both.sentence) == (
        2,
        "--once and --key each name the files; keep one; nothing was written",
    )
    assert firnline("append", root, two, "--key", "").code == 2


def test_who_wrote_it_is_shown_with_the_parts(
    firnline: Firnline, root: str, write: Write, tmp_path: Path
) -> None:
    firnline("append", root, write("a", id=[2, 3]), "--writer", "billing")
    firnline("append", root, write("b", id=[4]), "--writer", "billing")
    folder = tmp_path / "loose"
    folder.mkdir()
    write("loose/c", id=[5])
    firnline("import", root, f"file://{folder}", "--writer", "history-2025")
    shown = firnline("parts", root)
    lines = [line.split("  ") for line in shown.out.splitlines()]
    begin = lines.index(next(line for line in lines if line[0] == "written by"))
    shown_names = {line[0] for line in lines[begin + 2 : begin + 5]}
    assert shown_names == {"billing", "history-2025", "not stated"}
    found = firnline("parts", root, "--json").data["writers"]
    by_writer = {"".join(each["writers"]): (each["parts"], each["rows"]) for each in found}
    assert by_writer == {"billing": (2, 3), "history-2025": (1, 1), "": (1, 1)}


def test_the_history_shows_whose_appends_a_transaction_took_in(
    firnline: Firnline, root: str, write: Write
) -> None:
    firnline("append", root, write("b", id=[4]))
    assert firnline("merge", root, "--full").code == 0
    assert "took in" not in firnline("history", root).out
    firnline("append", root, write("a", id=[2, 3]), "--writer", "billing")
    firnline("append", root, write("b", id=[4]))
    for n in range(6):
        firnline("append", root, write(f"c{n}", id=[5]), "--writer", f"web-{n}")
    assert firnline("merge", root, "--full").code == 0
    shown = firnline("history", root).out
    assert "billing: 1 append, 2 rows" in shown
    assert "and 3 more: --json has them" in shown
    first, second = firnline("history", root, "--json").data["transactions"]
    assert first["appends"] == []
    assert second["appends"][0] == {
        "writer": "billing",
        "more": 0,
        "appends": 1,
        "parts": 1,
        "rows": 2,
    }
    assert second["appends"][-1]["writer"] == ""
    assert len(second["appends"]) == 8


def test_a_writer_has_a_name_that_a_key_can_hold(
    firnline: Firnline, root: str, write: Write
) -> None:
    refused = firnline("append", root, write("a", id=[2]), "--writer", "a_b")
    assert refused.code == 2
    assert "'a_b'" in refused.sentence
