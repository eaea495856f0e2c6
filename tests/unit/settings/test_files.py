"""Settings may be a folder with a file of each team."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

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
    (folder / "old").mkdir()
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


def pipe(path: Path) -> None:
    os.mkfifo(path)


def bound(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as it:
        it.bind(str(path))


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails a test that opens a pipe or a device: it would wait for ever."""
    real = Path.open

    def opened(self: Path, *args: Any, **how: Any) -> Any:
        assert self.is_file() or not self.exists(), f"{self} is opened"
        return real(self, *args, **how)

    monkeypatch.setattr(Path, "open", opened)


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize(
    ("make", "said"),
    [
        (Path.mkdir, r"b\.yaml cannot be read: it is a folder; put the file in its place"),
        (pipe, r"b\.yaml cannot be read: it is a named pipe; take it out of the folder"),
        (bound, r"b\.yaml cannot be read: it is a socket; take it out of the folder"),
        (lambda path: path.symlink_to("/dev/zero"), r"it is a device; take it out"),
        (lambda path: path.symlink_to("none"), r"No such file .*; put back what this link leads"),
    ],
)
def test_what_is_no_file_is_named_with_its_remedy_and_takes_no_other_file_out(
    write: Write, make: Callable[[Path], None], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Docker makes a folder of a bind mount that is missing; reading a pipe waits for ever."""
    folder = write(a=f"tables: {{{table('ta')}}}")
    make(folder / "b.yaml")
    monkeypatch.setenv("FIRNLINE_TABLES", str(folder))
    assert list(load_settings().tables) == ["ta"]
    with pytest.raises(SettingsError, match=said) as caught:
        load_settings(strict=True)
    assert "FIRNLINE_TABLES" not in str(caught.value)


def test_a_folder_in_the_place_of_what_all_share_takes_out_all(write: Write) -> None:
    folder = write(a=f"tables: {{{table('ta')}}}")
    (folder / "defaults.yaml").mkdir()
    with pytest.raises(SettingsError, match=r"defaults\.yaml cannot be read: it is a folder"):
        load_settings(folder)


@pytest.mark.parametrize("name", ["defaults.yml", "Defaults.YAML", "DEFAULTS.yml"])
def test_names_of_files_count_in_any_case_of_letters_and_with_both_endings(
    write: Write, name: str
) -> None:
    folder = write(a=f"tables: {{{table('ta')}}}")
    (folder / "B.YML").write_text(f"tables: {{{table('tb')}}}")
    (folder / name).write_text("defaults: {merge: {max_parts_per_group: 30}}")
    found = load_settings(folder, strict=True).tables
    assert {key: t.merge.max_parts_per_group for key, t in found.items()} == {"ta": 30, "tb": 30}


def test_one_file_alone_says_what_all_share(write: Write) -> None:
    folder = write(defaults="defaults: {}", a=f"tables: {{{table('ta')}}}")
    (folder / "defaults.yml").write_text("defaults: {}")
    with pytest.raises(SettingsError, match=r"has defaults\.yaml and defaults\.yml.*; keep one"):
        load_settings(folder)


def test_each_root_of_a_table_in_two_files_is_refused(write: Write) -> None:
    """Which of the two sections is meant, nobody knows."""
    folder = write(
        a=f"tables: {{{table('t')}, {table('ta')}}}",
        b="tables: {t: {root: 's3://b/second'}, u: {root: 's3://b/second/u'}}",
    )
    for root in ("s3://b/t", "s3://b/second"):
        with pytest.raises(SettingsError, match=r"tables\.t: is in a\.yaml and in b\.yaml"):
            find_table(root, folder)
    with pytest.raises(SettingsError, match=r"tables\.u\.root: is inside the root of t"):
        find_table("u", folder)
    assert find_table("s3://b/x", folder).root == "s3://b/x"


def test_a_table_in_two_files_with_one_root_has_that_one_mistake(write: Write) -> None:
    folder = write(a=f"tables: {{{table('t')}}}", b=f"tables: {{{table('t')}}}")
    with pytest.raises(SettingsError) as caught:
        find_table("t", folder)
    assert "tables.t.root" not in caught.value.message


def shut(monkeypatch: pytest.MonkeyPatch, below: Path, reason: int) -> None:
    """Make nothing below a folder answer, as behind a folder that may not be entered."""
    real = os.stat

    def refuse(path: str | Path, **how: bool) -> os.stat_result:
        if below in Path(path).parents:
            raise OSError(reason, os.strerror(reason), str(path))
        return real(path, **how)

    monkeypatch.setattr(os, "stat", refuse)


@pytest.mark.parametrize("reason", [errno.EACCES, errno.ESTALE, errno.ENOTCONN])
def test_settings_that_cannot_be_reached_are_a_mistake_that_names_them(
    write: Write, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, reason: int
) -> None:
    folder = write(a=f"tables: {{{table('ta')}}}")
    monkeypatch.setenv("FIRNLINE_TABLES", str(folder))
    shut(monkeypatch, tmp_path.parent, reason)
    said = f"{folder} cannot be read: {os.strerror(reason)}"
    for target in ("ta", "s3://b/ta"):
        with pytest.raises(SettingsError, match=said):
            find_table(target)
    with pytest.raises(SettingsError, match=said):
        load_settings(folder)


def test_a_usual_place_that_cannot_be_reached_is_not_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file that would be read in its place has other tables."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.delenv("FIRNLINE_TABLES", raising=False)
    monkeypatch.setenv("AIRFLOW_HOME", str(home))
    monkeypatch.chdir(tmp_path)
    shut(monkeypatch, home, errno.EACCES)
    with pytest.raises(SettingsError, match=r"home/include/tables\.yaml cannot be read: Perm"):
        find_table("s3://b/t")


def test_a_folder_that_may_be_listed_and_not_entered_says_so_of_each_file(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write(a=f"tables: {{{table('ta')}}}")
    shut(monkeypatch, folder, errno.EACCES)
    with pytest.raises(SettingsError, match=r"a\.yaml cannot be read: Perm.*; let this user"):
        load_settings(folder, strict=True)


@pytest.mark.parametrize("path", [5, b"tables.yaml", ["tables.yaml"], "a\0b"])
def test_what_is_no_path_names_no_settings(path: str) -> None:
    with pytest.raises(UsageError, match="names no settings") as caught:
        find_table("t", path)
    assert not isinstance(caught.value, SettingsError)


def test_settings_know_the_bytes_that_they_were_read_from(write: Write) -> None:
    folder = write(a=f"tables: {{{table('ta')}}}", b="tables: {")
    found = load_settings(folder)
    (a,) = found.contents
    content = found.contents[a]
    assert (a, content.raw) == (folder / "a.yaml", a.read_bytes())
    assert content.modified_ns == a.stat().st_mtime_ns
    assert "contents" not in repr(found)
