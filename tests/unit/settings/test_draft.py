"""A table that is added to a settings file: the rest of the file stays as people wrote it."""

from __future__ import annotations

from pathlib import Path

import pytest

from firnline.errors import UsageError
from firnline.settings.draft import add_table
from firnline.settings.load import load_settings

VALUES = {"root": "s3://b/new", "partition_by": ["day(ts)", "bucket(16, id)"], "sort_by": ["a: b"]}
FILE = """\
# ours
defaults:
  merge: {target_size: 1GiB}  # large

tables:  # all of them
    # the first
    old:
        root: s3://b/old

# plans
fleet:
  schedule: "@daily"
"""


def loaded(text: str, folder: Path) -> dict[str, dict[str, object]]:
    path = folder / "tables.yaml"
    path.write_text(text)
    tables = load_settings(path).tables
    return {name: table.model_dump(mode="json") for name, table in tables.items()}


def test_a_new_file_has_the_table(tmp_path: Path) -> None:
    found = loaded(add_table("", "new", VALUES), tmp_path)
    assert [found["new"][key] for key in VALUES] == list(VALUES.values())


def test_a_table_comes_behind_the_others_and_nothing_else_changes(tmp_path: Path) -> None:
    text = add_table(FILE, "new", VALUES)
    found = loaded(text, tmp_path)
    assert list(found) == ["old", "new"]
    assert found["new"]["merge"]["target_size"] == "1GiB"  # type: ignore[index]
    added = [line for line in text.splitlines() if line not in FILE.splitlines()]
    assert len(added) == 1 + len(VALUES)
    assert [line for line in text.splitlines() if line not in added] == FILE.splitlines()
    assert text.index("new:") < text.index("# plans")


@pytest.mark.parametrize("text", ["defaults: {}\n", "# nothing yet\ndefaults: {}", "tables:\n"])
def test_a_file_without_tables_gets_them(text: str, tmp_path: Path) -> None:
    assert list(loaded(add_table(text, "new", VALUES), tmp_path)) == ["new"]


def test_a_second_table_goes_behind_the_first(tmp_path: Path) -> None:
    text = add_table(add_table("", "a", {"root": "s3://b/a"}), "1e3", {"root": "s3://b/n"})
    assert list(loaded(text, tmp_path)) == ["a", "1e3"], "a name that YAML reads as a number"


def test_tables_in_one_line_are_left_to_a_person() -> None:
    with pytest.raises(UsageError) as caught:
        add_table("tables: {old: {root: s3://b/old}}\n", "new", VALUES)
    assert str(caught.value) == (
        "the settings file writes tables in one line or otherwise than as a block; write each "
        "table and each setting on a line of its own, as in docs/settings.md"
    )
