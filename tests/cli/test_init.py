"""`firnline init`: a table in the settings file, after a look at its store."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from firnline.append.append import Appender
from firnline.settings.load import TableSettings, load_settings
from firnline.table import open_table
from tests.support.cli import Outcome

LAYOUT = ("--partition-by", "day(ts)", "--sort-by", "customer", "--sort-by", "ts desc")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, which is the current one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FIRNLINE_TABLES", raising=False)
    return tmp_path


def test_a_table_is_written_into_include_of_the_current_folder(
    firnline: Callable[..., Outcome], place: Path
) -> None:
    root = f"file://{place}/events"
    found = firnline("init", "--root", root, *LAYOUT, "--connection", "lake", "--yes")
    assert (found.code, found.err) == (0, "")
    table = load_settings().table("events")
    assert (table.root, table.connection_id) == (root, "lake")
    assert [*map(str, table.partition_by), *map(str, table.sort_by)] == [
        "day(ts)",
        "customer",
        "ts desc",
    ]
    assert "firnline append events *.parquet" in found.out
    again = firnline("init", "events", "--root", root, "--yes")
    assert (again.code, again.sentence) == (
        2,
        "include/tables.yaml has a table 'events' already; give another name, or edit the file",
    )


def test_a_person_is_asked_for_what_is_not_given(
    firnline: Callable[..., Outcome], place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = io.StringIO(f"file://{place}/t\n\nday(ts), bucket(16, id)\n\nyes\n")
    monkeypatch.setattr(answers, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(sys, "stdin", answers)
    found = firnline("init")
    assert (found.code, found.err) == (0, "")
    assert "Name of the table [t]: " in found.out
    table = load_settings().table("t")
    assert [str(field) for field in table.partition_by] == ["day(ts)", "bucket(16, id)"]
    assert table.sort_by == ()


def test_anything_but_yes_changes_nothing(
    firnline: Callable[..., Outcome], place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = io.StringIO("\n\n\ny\n")
    monkeypatch.setattr(answers, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(sys, "stdin", answers)
    found = firnline("init", "--root", f"file://{place}/t")
    assert (found.code, "Nothing was changed." in found.out) == (1, True)
    assert not (place / "include").exists()


def test_a_dry_run_shows_the_lines_and_writes_nothing(
    firnline: Callable[..., Outcome], place: Path
) -> None:
    found = firnline("init", "events", "--root", f"file://{place}/e", *LAYOUT, "--dry-run")
    assert found.code == 0
    assert "    partition_by: [day(ts)]" in found.out
    assert not (place / "include").exists()


def test_the_layout_of_a_table_that_is_there_is_its_own(
    firnline: Callable[..., Outcome], place: Path
) -> None:
    root = f"file://{place}/t"
    settings = {"name": "t", "root": root, "partition_by": ["c"], "sort_by": ["a"]}
    table = open_table(TableSettings.model_validate(settings))
    Appender(table).append(pa.table({"a": [1], "c": ["x"]}))
    assert firnline("init", "--root", root, "--yes").code == 0
    written = load_settings().table("t")
    assert (str(written.partition_by[0]), str(written.sort_by[0])) == ("c", "a")
    refused = firnline("init", "other", "--root", root, "--sort-by", "c", "--yes")
    assert (refused.code, "states its layout itself" in refused.sentence) == (2, True)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ((), "nobody can be asked"),
        (("--yes",), "a table needs a root"),
        (("--root", "s4://x/y", "--yes"), "s4"),
        (("--root", "file:///tmp/x", "--sort-by", "", "--yes"), "not a column name"),
        (("a b", "--root", "file:///tmp/x", "--yes"), "a b"),
    ],
)
def test_mistakes_are_one_sentence_and_write_nothing(
    firnline: Callable[..., Outcome], place: Path, given: tuple[str, ...], said: str
) -> None:
    found = firnline("init", *given)
    assert found.code == 2 or "mistake" in found.err, found.err
    assert said in found.err
    assert "/tmp/tmp" not in found.err
    assert not (place / "include").exists()


def test_a_mistake_names_the_file_that_was_meant(
    firnline: Callable[..., Outcome], place: Path
) -> None:
    found = firnline("init", "t", "--root", f"file://{place}/t", "--sort-by", "", "--yes")
    assert found.sentence.startswith("include/tables.yaml with these lines: tables.t.sort_by[0]: ")
    assert found.sentence.endswith("; correct what was given; nothing was written")


def test_the_next_steps_can_be_copied(firnline: Callable[..., Outcome], place: Path) -> None:
    root = f"file://{place}/ä b"
    found = firnline("init", "t", "--root", root, "--settings", "my tables.yaml", "--yes")
    written = "firnline plan merge t --settings 'my tables.yaml'"
    assert written in found.out
    assert "firnline pools --settings 'my tables.yaml' > pools.json" in found.out
    assert f"root: {root}" in (place / "my tables.yaml").read_text()
