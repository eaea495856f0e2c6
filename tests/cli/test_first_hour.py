"""What somebody types who does not know the commands yet, and what the answer says."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import firnline as library
from firnline.cli import output
from firnline.cli.failures import TAKE_A_TABLE, TAKE_SETTINGS
from firnline.cli.words import _WORDS
from tests.support.cli import Outcome, settings_file

Firnline = Callable[..., Outcome]


@pytest.fixture
def root(tmp_path: Path) -> str:
    root = f"file://{tmp_path}/events"
    rows = {"id": [1, 2], "ok": [True, False], "user.agent": ["x", "y"]}
    library.append(root, pa.table({**rows, **{f"c{n:02}": [n, n] for n in range(20)}}))
    return root


@pytest.mark.parametrize("word", sorted(_WORDS))
def test_what_others_call_a_command_names_the_one_that_does_it(
    firnline: Firnline, word: str
) -> None:
    done = firnline(word, "events")
    assert done.code == 2
    assert done.sentence.startswith(f"no such command '{word}'; ")
    one = r"`firnline (?:--help|--version|([a-z-]+(?: check| show| run)?))"
    named = re.findall(one, _WORDS[word])
    assert named
    assert {*named, ""} <= {*TAKE_A_TABLE, *TAKE_SETTINGS, "COMMAND", ""}


def test_evolve_is_not_said_to_add_columns(firnline: Firnline) -> None:
    options = firnline("evolve", "--help").out
    assert "--add" not in options
    for word in ("alter", "rename", "add-column"):
        said = firnline(word).sentence
        assert "the first append that has a new column adds it" in said
        assert "evolve TABLE` widens, renames and drops columns" in said


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ("replace t f --from 3 --until 4", "--start"),
        ("replace t f --start 3 --until 4", "--end"),
        ("replace t f --since 3", "--start"),
        ("timeline t --since 3", "--start"),
        ("timeline t --to 3", "--end"),
        ("rewrite t --start 3", "--from"),
        ("rewrite t --end 3", "--until"),
        ("rewrite t --partition x", "--partitions"),
        ("changes t --from 3", "--since"),
        ("changes t --end 3", "--until"),
        ("changes t --partitions x", "--partition"),
        ("merge t --partition x", "--partitions"),
        ("plan merge t --partition x", "--partitions"),
        ("append t f --partitions x", "--partition"),
    ],
)
def test_the_name_that_another_command_has_for_an_option_is_answered_with_its_own(
    firnline: Firnline, arguments: str, name: str
) -> None:
    done = firnline(*arguments.split())
    assert done.code == 2
    assert re.fullmatch(rf"no such option: --\w+; this command calls it {name}", done.sentence)


def test_a_partition_that_is_an_argument_is_no_option(firnline: Firnline) -> None:
    assert firnline("drop", "t", "--partition", "x").sentence == (
        "no such option: --partition; this command takes partitions without an option, behind the "
        "table"
    )


@pytest.mark.parametrize("arguments", ["relocate t --start x", "restore t --until 3", "parts t -x"])
def test_an_option_of_another_meaning_is_not_proposed(firnline: Firnline, arguments: str) -> None:
    assert "calls it" not in firnline(*arguments.split()).sentence


def test_another_word_is_told_to_look_at_the_help(firnline: Firnline) -> None:
    assert firnline("frobnicate").sentence.endswith("see `firnline --help`")
    assert "Did you mean 'merge'" in firnline("merg").sentence


@pytest.mark.parametrize(
    ("arguments", "both"),
    [
        (("delete", "t", "--where", "id = 1", "--eager", "--lazy"), "--eager and --lazy"),
        (("read", "t", "--all-rows", "--dedup"), "--dedup and --all-rows"),
    ],
)
def test_both_sides_of_a_choice_are_refused(
    firnline: Firnline, arguments: tuple[str, ...], both: str
) -> None:
    done = firnline(*arguments)
    assert (done.code, done.sentence) == (
        2,
        f"{both} exclude each other; give one of them",
    )


def test_a_wide_table_names_the_columns_that_do_not_fit(
    root: str, firnline: Firnline, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = firnline("read", root).out
    assert "c19" in whole
    assert "more column" not in whole, "nothing is left out in a pipe"
    monkeypatch.setattr(output, "_PIPE_WIDTH", 60)
    told = " ".join(firnline("read", root).out.split())
    assert "13 more columns: c07, c08, " in told
    assert "c19; --columns chooses, --vertical shows all." in told


def test_a_wide_row_has_a_line_for_each_value(root: str, firnline: Firnline) -> None:
    lines = firnline("read", root, "--limit", "1", "--vertical").out.splitlines()
    assert lines[0] == "row 1"
    assert lines[3].split() == ["user.agent", "x"]
    assert len(lines) == 1 + 23 + 2


def test_figures_that_do_not_fit_are_named(
    root: str, firnline: Firnline, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert firnline("delete", root, "--where", "id = 1", "--yes").code == 0
    monkeypatch.setattr(output, "_PIPE_WIDTH", 50)
    told = " ".join(firnline("history", root).out.split())
    assert "2 more columns: rows, bytes; a wider terminal and --json have them." in told


def test_the_settings_of_a_clone_are_named_where_nobody_expects_them(
    firnline: Firnline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sample = tmp_path / "clone" / "tables.yaml"
    sample.parent.mkdir()
    sample.write_text("tables: {t: {root: 'memory://b/t'}}\n")
    monkeypatch.setattr("firnline.settings.load.BESIDE", sample)
    monkeypatch.delenv("FIRNLINE_TABLES", raising=False)
    monkeypatch.delenv("AIRFLOW_HOME", raising=False)
    monkeypatch.chdir(tmp_path)
    said = f"settings of {sample}, since this folder has none; --settings or"
    assert said in firnline("settings", "check").err + firnline("settings", "show", "t").err
    assert "settings of" not in firnline("settings", "show", "t", "--json").err
    assert "settings of" not in firnline("settings", "show", "t", "--settings", sample).err
    monkeypatch.chdir(sample.parent)
    assert "settings of" not in firnline("settings", "show", "t").err


CHANGING = (
    *("analyze", "append", "cleanup", "clone", "delete", "downgrade", "drop", "erase", "evolve"),
    *("import", "init", "merge", "mirror", "properties apply", "rebuild", "relocate"),
    *("repartition", "replace", "restore", "rewrite", "schema fix", "sweep", "ttl"),
)


@pytest.mark.parametrize("command", CHANGING)
def test_every_command_that_changes_something_takes_a_yes(firnline: Firnline, command: str) -> None:
    assert "--yes" in firnline(*command.split(), "--help").out


@pytest.mark.parametrize("command", ["parts", "read", "plan merge", "history", "verify", "health"])
def test_a_command_that_changes_nothing_takes_none(firnline: Firnline, command: str) -> None:
    assert "--yes" not in firnline(*command.split(), "--help").out


def test_an_interval_says_which_end_is_missing_or_reversed(firnline: Firnline, root: str) -> None:
    asked = ("rewrite", root, "--where", "id > 1", "--dry-run")
    assert "has --from and no --until" in firnline(*asked, "--from", "2026-11-01").sentence
    assert "has --until and no --from" in firnline(*asked, "--until", "2026-11-01").sentence
    reversed_ = firnline(*asked, "--from", "2026-11-02", "--until", "2026-11-01").sentence
    assert "ends (2026-11-01 00:00:00Z) where it begins (2026-11-02 00:00:00Z)" in reversed_


def test_a_column_in_other_letters_is_told_the_name_it_has(root: str) -> None:
    with pytest.raises(library.FirnlineError, match="rename it to 'id': in SQL both are one"):
        library.append(root, [{"ID": 3}])


def test_a_full_disk_behind_the_output_is_no_bug(root: str) -> None:
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        done = subprocess.run(
            [sys.executable, "-m", "firnline.cli.app", "read", root],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr.startswith("firnline: the output cannot be written: no space is left")


def test_a_timeline_goes_by_the_order_of_the_rows(firnline: Firnline, tmp_path: Path) -> None:
    root = f"file://{tmp_path}/t"
    text = f"tables: {{t: {{root: '{root}', cluster_by: [id, x], statistics: [id]}}}}"
    settings = settings_file(tmp_path, text)
    library.append(
        library.open_table("t", settings=settings), [{"id": 1, "x": 1}, {"id": 5, "x": 2}]
    )
    done = firnline("timeline", "t", "--settings", settings)
    assert (done.code, done.err) == (0, "")
