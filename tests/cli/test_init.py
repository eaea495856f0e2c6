"""`firnline init`: a table in the settings file, after a look at its store."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firnline.appends.append import Appender
from firnline.cli.commands import init
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


@pytest.fixture
def answering(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Makes standard input a terminal at which somebody gives these answers."""

    def give(*lines: str) -> None:
        answers = io.StringIO("".join(f"{line}\n" for line in lines))
        monkeypatch.setattr(answers, "isatty", lambda: True, raising=False)
        monkeypatch.setattr(sys, "stdin", answers)

    return give


def test_a_person_is_asked_for_what_is_not_given(
    firnline: Callable[..., Outcome], place: Path, answering: Callable[..., None]
) -> None:
    answering(f"file://{place}/t", "", "day(ts), bucket(16, id)", "", "yes")
    found = firnline("init")
    assert (found.code, found.err) == (0, "")
    assert "Name of the table [t]: " in found.out
    table = load_settings().table("t")
    assert [str(field) for field in table.partition_by] == ["day(ts)", "bucket(16, id)"]
    assert table.sort_by == ()


def test_a_wrong_answer_is_asked_for_again(
    firnline: Callable[..., Outcome], place: Path, answering: Callable[..., None]
) -> None:
    (place / "include").mkdir()
    (place / "include" / "tables.yaml").write_text(f"tables:\n  a: {{root: 'file://{place}/a'}}\n")
    roots = ("", f"{place}/t", "s4://x/y", f"file://{place}/a/b", f"file://{place}/t")
    answering(*roots, "a", "no name", "b", "day(", "day(ts)", "ts, ts", "ts desc", "yes")
    found = firnline("init")
    assert (found.code, found.err) == (0, "")
    said = [line for line in found.out.splitlines() if line.endswith("Once more:")]
    for line, part in zip(
        said,
        [
            "a table needs a root",
            "no table can be at this root",
            "no table can be at this root",
            "inside the root of a",
            "has a table 'a' already",
            "no name",
            "partition_by",
            "sort_by",
        ],
        strict=True,
    ):
        assert part in line
        assert "/tmp/tmp" not in line
    table = load_settings().table("b")
    assert (str(table.partition_by[0]), str(table.sort_by[0])) == ("day(ts)", "ts desc")


def test_who_stops_answering_is_told_what_was_wrong_last(
    firnline: Callable[..., Outcome], place: Path, answering: Callable[..., None]
) -> None:
    answering("s4://x/y")
    found = firnline("init")
    assert (found.code, found.sentence) == (2, "a table needs a root; give --root")
    assert not (place / "include").exists()


def test_anything_but_yes_changes_nothing(
    firnline: Callable[..., Outcome], place: Path, answering: Callable[..., None]
) -> None:
    answering("", "", "", "y")
    found = firnline("init", "--root", f"file://{place}/t")
    assert (found.code, "Nothing was changed." in found.out) == (1, True)
    assert not (place / "include").exists()


@pytest.mark.parametrize("how", ["a file", "no right", "a folder"])
def test_a_file_that_cannot_be_written_is_refused(
    firnline: Callable[..., Outcome], place: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    if how == "a file":
        (place / "no").write_text("")
    elif how == "a folder":
        (place / "no" / "x.yaml.new").mkdir(parents=True)
    else:  # the tests may run as root, whom nothing is forbidden
        monkeypatch.setattr(os, "access", lambda *_: False)
    found = firnline("init", "t", "--root", f"file://{place}/t", "--settings", "no/x.yaml", "--yes")
    assert found.code == 2
    assert found.sentence.startswith("no/x.yaml cannot be written: ")
    assert found.sentence.endswith("; give another file with --settings")


def test_tables_in_one_line_are_refused_before_a_question(
    firnline: Callable[..., Outcome], place: Path, answering: Callable[..., None]
) -> None:
    (place / "flow.yaml").write_text("tables: {a: {root: 's3://b/a'}}\n")
    answering()
    found = firnline("init", "--settings", "flow.yaml")
    assert found.code == 2
    assert "\\n" not in found.sentence
    assert "write each table and each setting on a line of its own" in found.sentence


def test_a_new_file_and_a_new_folder_are_said_before_they_are_made(
    firnline: Callable[..., Outcome], place: Path
) -> None:
    given = ("t", "--root", f"file://{place}/t", "--settings", "no/dir/x.yaml")
    assert (
        "no/dir/x.yaml, a new file in the new folder no/dir:"
        in firnline("init", *given, "--dry-run").out
    )
    assert not (place / "no").exists()
    assert firnline("init", *given, "--yes").code == 0
    given = ("u", "--root", f"file://{place}/u", "--settings", "no/dir/x.yaml")
    assert "\nno/dir/x.yaml:\n" in firnline("init", *given, "--yes").out


@pytest.mark.parametrize("there", [True, False])
def test_pools_are_advised_only_where_airflow_is(
    firnline: Callable[..., Outcome], place: Path, monkeypatch: pytest.MonkeyPatch, there: bool
) -> None:
    monkeypatch.setattr(init, "find_spec", lambda _: object() if there else None)
    found = firnline("init", "t", "--root", f"file://{place}/t", "--yes")
    assert ("airflow pools import" in found.out) == there


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
        (("--root", "file:///tmp/x", "--sort-by", "", "--yes"), "--sort-by is empty"),
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
    found = firnline("init", "t", "--root", f"file://{place}/t", "--sort-by", "a\nb", "--yes")
    assert found.sentence.startswith("include/tables.yaml with these lines: tables.t.sort_by[0]: ")
    assert found.sentence.endswith("; correct what was given; nothing was written")


def test_the_next_steps_can_be_copied(firnline: Callable[..., Outcome], place: Path) -> None:
    root = f"file://{place}/ä b"
    found = firnline("init", "t", "--root", root, "--settings", "my tables.yaml", "--yes")
    written = "firnline plan merge t --settings 'my tables.yaml'"
    assert written in found.out
    assert "firnline pools --settings 'my tables.yaml' > pools.json" in found.out
    assert f"root: {root}" in (place / "my tables.yaml").read_text()


EVENTS = (
    '{"id": 1, "ts": "2026-01-01T00:00:00Z", "x": null, "o": {"a": 1, "n": null, "b": [1]}}\n'
    '{"id": 2, "ts": "2026-01-02T00:00:00Z", "m": 1, "o": {"z": [], "a": 2, "b": [1.5]}}\n'
    '{"id": 3, "ts": "2026-01-02T00:00:00Z", "m": "text", "o": {"a": 2, "b": []}}\n'
)
SAMPLES = {
    "events.jsonl": {
        "id": "BIGINT",
        "ts": "TIMESTAMP WITH TIME ZONE",
        "o": "STRUCT(a BIGINT, b DOUBLE[])",
    },
    "events.csv": {"id": "BIGINT", "day": "DATE", "v": "DOUBLE"},
    "events.parquet": {"id": "INTEGER", "tags": "VARCHAR[]"},
}


@pytest.fixture
def samples(place: Path) -> Path:
    """A folder with a sample in each format."""
    (place / "events.jsonl").write_text(EVENTS)
    (place / "events.csv").write_text("id,day,v\n1,2026-01-01,1\n2,2026-01-02,1.5\n")
    columns = {"id": pa.array([1], pa.int32()), "tags": pa.array([["a"]])}
    pq.write_table(pa.table(columns), place / "events.parquet")
    return place


@pytest.mark.parametrize("name", SAMPLES)
def test_a_sample_gives_the_table_its_columns(
    firnline: Callable[..., Outcome], samples: Path, name: str
) -> None:
    root = f"file://{samples}/events"
    found = firnline("init", "--root", root, "--from-sample", samples / name, "--yes")
    assert (found.code, found.err) == (0, "")
    assert load_settings().table("events").columns == SAMPLES[name]
    assert ("does not show the type of x, m:" in found.out) == name.endswith("jsonl")


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("a.xml", "<a/>", "ends in none of .parquet, .json"),
        ("a.jsonl", "{", "cannot be read: "),
        ("a.parquet", "no", "cannot be read: "),
        ("a.jsonl", '{"x": null}', "shows no column with a type"),
        ("gone.csv", None, "is no file"),
        ("gone.parquet", None, "cannot be read: "),
        ("a.csv", "", "shows no column with a type"),
        ("a.jsonl", "[1, 2]", "cannot be read: "),
        ("a.jsonl", '{"a": 1}\n{"A": 2}', "two of its keys are one name in SQL"),
    ],
)
def test_a_sample_that_shows_nothing_is_refused(
    firnline: Callable[..., Outcome], place: Path, name: str, text: str | None, says: str
) -> None:
    if text is not None:
        (place / name).write_text(text)
    root = f"file://{place}/events"
    found = firnline("init", "--root", root, "--from-sample", place / name, "--yes")
    assert found.code == 2
    assert says in found.sentence
    assert not (place / "include").exists()


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (['"2026-01-02 03:04:05+02"'], "VARCHAR"),
        (['"01-02-2026"'], "VARCHAR"),
        (['"2026-01-02"'], "DATE"),
        (['"2026-01-02"', '"2026-1-2"'], "VARCHAR"),
        (['"3:4:5"'], "VARCHAR"),
        (['"2026-01-02T03:04:05Z"'], "TIMESTAMP WITH TIME ZONE"),
        (["1"] * 30_000 + ["1.5"], "DOUBLE"),
        (['"2026-01-02"'] * 30_000 + ['"x"'], "VARCHAR"),
        (["18446744073709551616"], "DECIMAL(38,0)"),
    ],
)
def test_the_rows_of_a_sample_fit_the_columns_that_it_makes(
    firnline: Callable[..., Outcome], place: Path, values: list[str], kind: str
) -> None:
    sample = place / "a.jsonl"
    sample.write_text("".join(f'{{"x": {value}}}\n' for value in values))
    root = f"file://{place}/events"
    assert firnline("init", "--root", root, "--from-sample", sample, "--yes").code == 0
    table = open_table(load_settings().table("events"))
    assert table.settings.columns == {"x": kind}
    rows = [json.loads(line) for line in sample.read_text().splitlines()]
    assert Appender(table).append(rows).rows == len(rows)


def test_a_sample_of_numbers_beyond_64_bits_makes_a_column_that_rows_fit(
    firnline: Callable[..., Outcome], place: Path
) -> None:
    (place / "a.jsonl").write_text('{"n": 12345678901234567890}\n')
    root = f"file://{place}/events"
    assert firnline("init", "--root", root, "--from-sample", place / "a.jsonl", "--yes").code == 0
    table = open_table(load_settings().table("events"))
    assert table.settings.columns == {"n": "DECIMAL(38,0)"}
    assert Appender(table).append([{"n": 12345678901234567890}]).rows == 1


def test_a_table_that_is_there_has_its_own_columns(
    firnline: Callable[..., Outcome], samples: Path
) -> None:
    root = f"file://{samples}/events"
    Appender(open_table(TableSettings(name="events", root=root))).append(pa.table({"id": [1]}))
    sample = samples / "events.csv"
    found = firnline("init", "--root", root, "--from-sample", sample, "--yes")
    assert found.code == 2
    assert "states its layout itself, and its columns" in found.sentence


@pytest.fixture
def team(place: Path) -> Path:
    """The file of a new team, in a folder with those of others."""
    folder = place / "settings"
    folder.mkdir()
    (folder / "defaults.yml").write_text("defaults: {merge: {max_parts_per_group: 30}}\n")
    (folder / "a.yaml").write_text(f"tables: {{ta: {{root: 'file://{place}/lake/ta'}}}}\n")
    (folder / "values.yaml").write_text("image: {tag: 3}\n")
    (folder / "broken.yaml").write_text("tables: {")
    return folder / "team.yaml"


@pytest.mark.parametrize(
    ("name", "root", "said"),
    [
        ("ta", "lake/tb", r"a.yaml has a table 'ta' already; give another name"),
        ("tb", "lake/ta", "tables.tb.root: is the same as the root of ta"),
        ("tb", "lake/ta/tb", "tables.tb.root: is inside the root of ta"),
        ("tb", "lake", "tables.tb.root: contains the root of ta"),
    ],
)
def test_a_table_that_would_take_out_one_of_another_file_is_refused(
    firnline: Callable[..., Outcome], place: Path, team: Path, name: str, root: str, said: str
) -> None:
    given = (name, "--root", f"file://{place}/{root}", "--settings", team, "--yes")
    found = firnline("init", *given)
    assert found.code == 2
    assert said in found.sentence
    assert "/tmp" not in found.sentence.replace(str(place), "")
    assert not team.exists()


def test_a_table_of_a_new_file_is_checked_with_what_all_share(
    firnline: Callable[..., Outcome], place: Path, team: Path
) -> None:
    given = ("tb", "--root", f"file://{place}/lake/tb", "--settings", team)
    (team.parent / "defaults.yml").write_text("defaults: {merge: {min_inputs: 3}, approver: [a]}\n")
    found = firnline("init", *given, "--dry-run")
    assert (found.code, "defaults.yml: defaults.approver: is not" in found.sentence) == (2, True)
    (team.parent / "defaults.yml").write_text("defaults: {merge: {min_inputs: 3}}\n")
    assert firnline("init", *given, "--yes").code == 0
    assert sorted(load_settings(team.parent).tables) == ["ta", "tb"]


def test_a_proposed_name_is_one_that_no_file_has(
    firnline: Callable[..., Outcome], place: Path, team: Path, answering: Callable[..., None]
) -> None:
    answering(f"file://{place}/new/ta", "ta", "tc", "", "", "yes")
    found = firnline("init", "--settings", team)
    assert (found.code, "has a table 'ta' already. Once more:" in found.out) == (0, True)
    assert sorted(load_settings(team.parent).tables) == ["ta", "tc"]


@pytest.mark.parametrize("name", ["team.yaml.txt", "team", ".team.yaml"])
def test_a_file_that_its_folder_would_not_read_is_refused(
    firnline: Callable[..., Outcome], place: Path, team: Path, name: str
) -> None:
    path = team.with_name(name)
    found = firnline("init", "tb", "--root", f"file://{place}/tb", "--settings", path, "--yes")
    assert found.code == 2
    assert f"{team.parent} is a folder of settings, which does not read {name}" in found.sentence
    alone = firnline("init", "tb", "--root", f"file://{place}/tb", "--settings", name, "--yes")
    assert alone.code == 0, "where no other file has settings, a file is read by its name"


def test_files_that_are_there_for_other_tools_have_no_say(
    firnline: Callable[..., Outcome], place: Path
) -> None:
    (place / "compose.yml").write_text("services: {a: {}}\ntables: {t: {root: 'file:///x'}}\n")
    given = ("t", "--root", f"file://{place}/t", "--settings", "t.conf")
    assert firnline("init", *given, "--yes").code == 0
