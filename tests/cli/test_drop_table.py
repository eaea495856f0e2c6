"""``firnline drop-table``."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.cli import Outcome, content_of, settings_file

Firnline = Callable[..., Outcome]
DAY = 86_400


@pytest.fixture
def root(tmp_path: Path, firnline: Firnline) -> Path:
    """The table ``flights`` of four rows, in a settings file."""
    rows = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"id": [1, 2, 3, 4]}), rows)
    settings_file(tmp_path, f"tables: {{flights: {{root: 'file://{tmp_path}/flights'}}}}")
    assert call(firnline, tmp_path, "append", "flights", rows).code == 0
    return tmp_path / "flights"


def call(firnline: Firnline, folder: Path, *words: object) -> Outcome:
    return firnline(*map(str, words), "--settings", folder / "tables.yaml")


def age(folder: Path, days: int) -> None:
    """Make the folder's objects older, by the clock of the store."""
    for path in folder.rglob("*"):
        modified = path.stat().st_mtime - days * DAY
        os.utime(path, (modified, modified))


class Terminal:
    """Somebody at a terminal who types a line."""

    def __init__(self, line: str) -> None:
        self.line = line

    def isatty(self) -> bool:
        return True

    def readline(self) -> str:
        return self.line


def test_the_plan_shows_what_it_holds_and_the_name_is_asked_for(
    firnline: Firnline, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = content_of(root)
    shown = call(firnline, root.parent, "drop-table", "flights", "--dry-run")
    assert shown.code == 0
    assert "in settings       " in shown.out
    assert "1 part with 4 rows" in shown.out
    for line in ("yes\n", "flight\n", " flights\n", ""):
        monkeypatch.setattr(sys, "stdin", Terminal(line))
        done = call(firnline, root.parent, "drop-table", "flights")
        assert (done.code, done.out.endswith("Nothing was changed.\n")) == (1, True)
        assert "Type the name of the table to agree, anything else to stop: " in done.out
    assert content_of(root) == before
    monkeypatch.setattr(sys, "stdin", Terminal("flights\n"))
    done = call(firnline, root.parent, "drop-table", "flights")
    assert done.code == 0
    assert "firnline restore flights --settings" in done.out
    assert "--to 0" in done.out


def test_a_script_needs_the_option_and_the_name(firnline: Firnline, root: Path) -> None:
    before = content_of(root)
    asked = call(firnline, root.parent, "drop-table", "flights", "--json")
    assert asked.error["next_step"] == "look with --dry-run, then give --yes and --name flights"
    for words in (["--yes"], ["--yes", "--name", "flight"], ["--name", "FLIGHTS", "--dry-run"]):
        done = call(firnline, root.parent, "drop-table", "flights", *words)
        assert done.code == 2, words
    assert content_of(root) == before
    done = call(firnline, root.parent, "drop-table", "flights", "--yes", "--name", "flights")
    assert (done.code, done.err) == (0, "")


def test_the_second_run_waits_and_then_deletes_everything(firnline: Firnline, root: Path) -> None:
    line = ("drop-table", "flights", "--yes", "--name", "flights")
    assert call(firnline, root.parent, *line).code == 0
    waits = call(firnline, root.parent, *line)
    assert waits.code == 0
    assert "flights was dropped by transaction 1." in waits.out
    assert "on, by the store's clock, the same command deletes every object" in waits.out
    asked = call(firnline, root.parent, "drop-table", "flights", "--json").data
    assert asked["phase"] == "wait", "nobody has to be asked"
    age(root, 2)
    shown = call(firnline, root.parent, "drop-table", "flights", "--dry-run")
    assert "would be deleted for good" in shown.out
    done = call(firnline, root.parent, *line)
    assert (done.code, done.err) == (0, "")
    assert "Nothing of flights is left below" in done.out
    assert "names the table: take it out" in done.out
    assert [path for path in root.rglob("*") if path.is_file()] == []
    gone = call(firnline, root.parent, *line)
    assert gone.code == 2
    assert "there is no table" in gone.sentence


def test_foreign_files_are_named_and_go_only_by_an_option(firnline: Firnline, root: Path) -> None:
    line = ("drop-table", "flights", "--yes", "--name", "flights")
    assert call(firnline, root.parent, *line).code == 0
    (root / "notes.txt").write_text("of somebody")
    age(root, 2)
    refused = call(firnline, root.parent, *line)
    assert refused.code == 2
    assert "1 object that firnline has not written: flights/notes.txt" in refused.sentence
    assert call(firnline, root.parent, *line, "--with-foreign").code == 0
    assert [path for path in root.rglob("*") if path.is_file()] == []
