"""Settings may be a folder with a file of each team."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from firnline.errors import SettingsError, UsageError
from firnline.settings.load import find_table, find_with_file, load_settings

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write files of a folder, each named by its stem; return the folder."""

    def write(**files: str) -> Path:
        for stem, text in files.items():
            (tmp_path / f"{stem}.yaml").write_text(text)
        return tmp_path

    return write


def table(name: str, more: str = "") -> str:
    """Return the section of a table."""
    return f"{name}: {{root: 's3://b/{name}'{more}}}"


def test_a_table_has_the_defaults_of_its_file_and_below_them_those_of_all(write: Write) -> None:
    folder = write(
        defaults="defaults: {merge: {max_parts_per_group: 30, compression_level: 9}}\n"
        "fleet: {concurrency: 2}",
        a=f"defaults: {{merge: {{max_parts_per_group: 40}}}}\ntables: {{{table('ta')}}}",
        b=f"tables: {{{table('tb', ', merge: {compression_level: 1}')}}}",
    )
    found = load_settings(folder)
    merges = {
        name: (t.merge.max_parts_per_group, t.merge.compression_level)
        for name, t in found.tables.items()
    }
    assert merges == {"ta": (40, 9), "tb": (30, 1)}
    assert found.fleet.concurrency == 2
    assert find_with_file("ta", folder)[1] == folder / "a.yaml"
    assert find_with_file("s3://b/tb", folder)[1] == folder / "b.yaml"


def test_a_folder_needs_no_defaults_and_other_files_in_it_do_not_count(write: Write) -> None:
    folder = write(a=f"tables: {{{table('ta')}}}")
    (folder / ".b.yaml").write_text("tables: {")
    (folder / "README.md").write_text("tables: {")
    (folder / "old.yaml").mkdir()
    (folder / "c.yml").write_text(f"tables: {{{table('tc')}}}")
    assert list(load_settings(folder, strict=True).tables) == ["ta", "tc"]


@pytest.mark.parametrize("text", ["tables: {", "defaults: {merge: {slotz: 2}}", "tabels: {}"])
def test_a_mistake_in_a_file_takes_out_its_tables_alone(write: Write, text: str) -> None:
    folder = write(a=f"tables: {{{table('ta')}}}", b=text)
    assert list(load_settings(folder).tables) == ["ta"]
    assert find_table("ta", folder).name == "ta"
    with pytest.raises(SettingsError, match=r"no table 'tb' in .*, and .*b\.yaml"):
        find_table("tb", folder)
    with pytest.raises(SettingsError, match=r"b\.yaml"):
        load_settings(folder, strict=True)


def test_the_fleet_is_settled_in_one_place(write: Write) -> None:
    folder = write(a="fleet: {concurrency: 2}")
    with pytest.raises(SettingsError, match=r"a\.yaml: fleet: .*; move it to defaults\.yaml"):
        load_settings(folder, strict=True)


def test_a_mistake_in_what_all_share_takes_out_all(write: Write) -> None:
    folder = write(defaults="defaults: {merge: {slotz: 2}}", a=f"tables: {{{table('ta')}}}")
    with pytest.raises(SettingsError, match=r"defaults\.yaml: defaults\.merge\.slotz"):
        load_settings(folder)


def test_a_table_of_two_files_is_none(write: Write) -> None:
    folder = write(a=f"tables: {{{table('t')}, {table('ta')}}}", b=f"tables: {{{table('t')}}}")
    found = load_settings(folder)
    assert (list(found.tables), list(found.broken)) == (["ta"], ["t"])
    with pytest.raises(SettingsError, match=r"tables\.t: is in a\.yaml and in b\.yaml"):
        found.table("t")


def test_roots_of_two_files_that_overlap_take_both_tables_out(write: Write) -> None:
    folder = write(
        a=f"tables: {{{table('t')}, {table('ta')}}}", b="tables: {u: {root: s3://b/t/u}}"
    )
    found = load_settings(folder)
    assert (list(found.tables), sorted(found.broken)) == (["ta"], ["t", "u"])
    with pytest.raises(SettingsError, match=r"b\.yaml: tables\.u\.root: is inside the root of t"):
        found.table("u")


def test_all_mistakes_of_all_files_are_told_together(write: Write) -> None:
    folder = write(
        a=f"tables: {{{table('ta', ', merge: {slotz: 2}')}}}", b="tabels: {}", c="tables: {"
    )
    with pytest.raises(SettingsError) as caught:
        load_settings(folder, strict=True)
    message = caught.value.message
    assert "has 3 mistakes" in message
    assert "a.yaml: tables.ta.merge.slotz: is not a setting; did you mean slots?" in message
    assert "b.yaml: tabels: is not a setting" in message
    assert f"{folder / 'c.yaml'}, line 2" in message


def test_a_folder_without_settings_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="has no settings: no file in it ends in"):
        load_settings(tmp_path)


def test_a_table_that_is_in_no_file_is_no_table(write: Write) -> None:
    with pytest.raises(UsageError, match="no table 'x'"):
        find_table("x", write(a=f"tables: {{{table('ta')}}}"))


def test_a_root_that_a_file_with_a_mistake_may_have_is_refused(write: Write) -> None:
    """Without its settings a clean-up would not know its grace."""
    folder = write(a=f"tables: {{{table('ta')}}}", b="tables: {")
    assert find_table("s3://b/ta", folder).name == "ta"
    with pytest.raises(SettingsError, match=r"b\.yaml"):
        find_table("s3://b/tb", folder)


def test_a_folder_that_the_environment_names_has_the_table_of_a_root(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write(a="tables: {t: {root: 's3://b/t', cleanup: {grace: 9d}}}")
    monkeypatch.setenv("FIRNLINE_TABLES", str(folder))
    assert find_table("s3://b/t").cleanup.grace == 9 * 24 * 3_600_000
