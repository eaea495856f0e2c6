"""``firnline settings`` and ``firnline pools``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.cli import LogOnlyTable, Outcome, settings_file

Firnline = Callable[..., Outcome]

TWO_TABLES = """
defaults: {merge: {min_inputs: 8}}
tables:
  events: {root: s3://lake/events, sort_by: [ts desc], merge: {target_size: 1GiB}}
  users:
    root: file:///data/users
    merge: {schedule: null}
    spark: {conf: {spark.a: 1, spark.b: 2}}
"""


def test_a_settings_file_without_mistake_lists_its_tables(
    firnline: Firnline, tmp_path: Path
) -> None:
    path = settings_file(tmp_path, TWO_TABLES)
    shown = firnline("settings", "check", "--settings", path)
    assert shown.code == 0
    lines = [line.split() for line in shown.out.splitlines()]
    assert ["events", "s3://lake/events", "fleet", "fleet"] in lines
    assert ["users", "file:///data/users", "by", "hand", "fleet"] in lines
    assert shown.out.splitlines()[-1] == f"{path}: 2 tables, no mistake."
    assert firnline("settings", "check", "--settings", path, "--json").data["path"] == str(path)


def test_a_mirror_whose_settings_do_not_say_where_it_is_gets_a_note(
    firnline: Firnline, tmp_path: Path
) -> None:
    placed = "{root: s3://lake/a, mirror: [{iceberg: {catalog: lake, name: 'ns.{table}'}}]}"
    path = settings_file(
        tmp_path, f"tables: {{a: {placed}, b: {{root: s3://lake/b, mirror: [iceberg]}}}}"
    )
    shown = firnline("settings", "check", "--settings", path)
    assert shown.code == 0
    (note,) = firnline("settings", "check", "--settings", path, "--json").data["notes"]
    assert note.startswith("b: its Iceberg mirror has no catalog and no name here")
    assert "pyiceberg's configuration" in " ".join(shown.out.split())


def test_several_mistakes_are_told_at_once(firnline: Firnline, tmp_path: Path) -> None:
    path = settings_file(
        tmp_path, "tables: {a: {root: s3://b/a, merge: {min_inputs: 1}}, b: {rot: s3://b/b}}"
    )
    shown = firnline("settings", "check", "--settings", path)
    assert shown.code == 2
    lines = shown.err.splitlines()
    assert lines[0] == f"firnline: {path} has 3 mistakes:"
    assert lines[1].startswith("  tables.a.merge.min_inputs: must be greater than or equal to 2")
    assert "  tables.b.rot: is not a setting; did you mean root?" in lines
    assert lines[-1] == f"Correct the file and run `firnline settings check --settings {path}`."


def test_the_file_of_the_environment_is_read(
    firnline: Firnline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = settings_file(tmp_path, TWO_TABLES)
    monkeypatch.setenv("FIRNLINE_TABLES", str(path))
    assert len(firnline("settings", "check", "--json").data["tables"]) == 2


def test_settings_of_a_table_say_where_each_value_is_from(
    firnline: Firnline, tmp_path: Path
) -> None:
    path = settings_file(tmp_path, TWO_TABLES)
    lines = [
        line.split()
        for line in firnline("settings", "show", "events", "--settings", path).out.splitlines()
    ]
    assert ["merge.target_size", "file", "1GiB"] in lines
    assert ["merge.min_inputs", "file", "8"] in lines
    assert ["merge.kernel_memory", "-", "2GiB"] in lines
    assert ["sort_by", "file", "ts", "desc"] in lines
    assert ["ttl", "-", "-"] in lines


def test_settings_of_a_table_as_json_can_be_read_back(firnline: Firnline, tmp_path: Path) -> None:
    from firnline.settings.load import TableSettings, load_settings

    path = settings_file(tmp_path, TWO_TABLES)
    data = firnline("settings", "show", "users", "--settings", path, "--json").data
    assert TableSettings.model_validate(data) == load_settings(path).table("users")


def test_a_root_alone_has_default_settings(firnline: Firnline) -> None:
    data = firnline("settings", "show", "s3://lake/any/where", "--json").data
    assert (data["name"], data["root"]) == ("where", "s3://lake/any/where")


def test_show_says_where_a_mapping_comes_from(firnline: Firnline, tmp_path: Path) -> None:
    path = tmp_path / "tables.yaml"
    several = "import: {source: 's3://b/in', path_types: {day: DATE}}, columns: {day: DATE}"
    path.write_text(f"tables: {{t: {{root: 's3://b/t', {several}}}}}")
    out = firnline("settings", "show", "t", "--settings", path).out
    rows = [line.split() for line in out.splitlines()]
    assert ["import.path_types", "file", "day=DATE"] in rows
    assert ["columns", "file", "day=DATE"] in rows
    assert ["import.schedule", "-", "-"] in rows


def test_pools_are_what_airflow_imports(firnline: Firnline, tmp_path: Path) -> None:
    path = settings_file(tmp_path, TWO_TABLES)
    pools = json.loads(firnline("pools", "--settings", path).out)
    without = pools.pop("firnline.no_table")
    assert without["slots"] == 1
    assert sorted(pools) == ["events.cleanup", "events.merge", "users.cleanup", "users.merge"]
    assert {pool["slots"] for pool in pools.values()} == {1}


@pytest.mark.parametrize("broken", [b"\x01", b"\xff"])
def test_a_character_that_yaml_does_not_allow_is_found_by_its_line(
    firnline: Firnline, tmp_path: Path, broken: bytes
) -> None:
    path = tmp_path / "tables.yaml"
    path.write_bytes(b'tables:\n  t:\n    root: "' + broken + b'"\n')
    done = firnline("settings", "check", "--settings", path)
    assert (done.code, f"{path}, line 3: " in done.sentence) == (2, True)


def test_a_settings_file_that_is_not_there_is_corrected_where_it_is_named(
    firnline: Firnline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nope = tmp_path / "nope.yaml"
    missing = f"the settings file {nope} cannot be read: No such file or directory"
    done = firnline("settings", "check", "--settings", nope)
    assert (done.code, done.sentence) == (2, f"{missing}; correct --settings")
    named = firnline("parts", "t", env={"FIRNLINE_TABLES": str(nope)})
    assert (named.code, named.sentence) == (
        2,
        f"{missing}; correct FIRNLINE_TABLES, which names it",
    )
    monkeypatch.setattr("firnline.settings.load.settings_path", lambda: nope)
    neither = firnline("parts", "t", env={"FIRNLINE_TABLES": None})
    assert (neither.code, neither.sentence) == (
        2,
        (
            "there is no settings file: $FIRNLINE_TABLES names none, and here is neither "
            "include/tables.yaml nor tables.yaml; "
            "`firnline init` writes one; or give the root URL of a table"
        ),
    )


def test_debug_says_which_settings_file_has_the_table(
    firnline: Firnline, table: LogOnlyTable, tmp_path: Path
) -> None:
    path = settings_file(tmp_path, f"tables: {{t: {{root: '{table.root}'}}}}")
    for target in ("t", table.root):
        shown = firnline("parts", target, "--settings", path, "--debug")
        assert (shown.code, shown.err) == (0, f"settings: {path}\n")
    other = f"file://{tmp_path}/other"
    assert firnline("parts", other, "--debug").err.startswith("settings: none\n")
    for command in (["settings", "check"], ["fleet"], ["health"]):
        assert firnline(*command, "--settings", path, "--debug").err.startswith(
            f"settings: {path}\n"
        )


def test_a_mistake_is_looked_for_in_the_file_that_was_given(
    firnline: Firnline, tmp_path: Path
) -> None:
    path = settings_file(tmp_path, "tables: {t: {rout: x}}")
    assert (
        f"`firnline settings check --settings {path}`"
        in firnline("parts", "t", "--settings", path).err
    )


def test_a_line_break_in_a_root_is_named(firnline: Firnline, tmp_path: Path) -> None:
    path = settings_file(tmp_path, 'tables: {t: {root: "s3://b/x\\ny"}}')
    done = firnline("settings", "check", "--settings", path)
    assert (done.code, "has a control character in it" in done.sentence) == (2, True)


def test_a_mirror_that_cannot_have_the_columns_of_its_table_is_refused_if_tables_are_read(
    firnline: Firnline, tmp_path: Path
) -> None:
    path = settings_file(
        tmp_path, f"tables: {{t: {{root: 'file://{tmp_path}/t', mirror: [delta]}}}}"
    )
    rows = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"id": [1]}), rows)
    assert firnline("append", "t", str(rows), "--settings", path).code == 0
    assert firnline("settings", "check", "--tables", "--settings", path).code == 0
    pq.write_table(pa.table({"id": [2], "wide": pa.array([3], pa.uint64())}), rows)
    assert firnline("append", "t", str(rows), "--settings", path).code == 0
    assert firnline("settings", "check", "--settings", path).code == 0
    done = firnline("settings", "check", "--tables", "--settings", path)
    assert done.code == 2
    assert done.sentence.startswith(
        "column 'wide' of table t is UBIGINT, a type that Delta does not"
    )


def test_a_mistake_in_one_table_stops_what_names_it_and_nothing_else(
    firnline: Firnline, tmp_path: Path
) -> None:
    rows = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"id": [1]}), rows)
    bad = f"{{root: 'file://{tmp_path}/bad', merge: {{slotz: 2}}}}"
    path = settings_file(tmp_path, f"tables: {{bad: {bad}, good: {{root: 'file://{tmp_path}/g'}}}}")
    asked = ("--settings", path)
    said = "tables.bad.merge.slotz: is not a setting; did you mean slots?"
    assert firnline("append", "good", rows, *asked).code == 0
    assert firnline("merge", "good", *asked).code == 0
    for command in (("append", "bad", rows), ("parts", "bad"), ("parts", f"file://{tmp_path}/bad")):
        refused = firnline(*command, *asked)
        assert (refused.code, said in refused.err) == (2, True)
    assert firnline("settings", "check", *asked).code == 2
    health = {row["table"]: row for row in firnline("health", "--json", *asked).data["tables"]}
    assert health["good"]["score"] == 100
    assert (health["bad"]["score"], said in health["bad"]["reasons"][0]["text"]) == (0, True)
    planned = firnline("fleet", "--json", *asked)
    assert (planned.code, [row["table"] for row in planned.data["unreadable"]]) == (1, ["bad"])
    pools = firnline("pools", *asked)
    assert (pools.code, "good.merge" in pools.data, "bad.merge" in pools.data) == (0, True, False)
    assert f"warning: the pools of table bad are left out: {path}: {said}" in pools.err


def test_a_mistake_in_one_file_of_a_folder_stops_what_it_may_have_and_nothing_else(
    firnline: Firnline, tmp_path: Path
) -> None:
    rows, folder = tmp_path / "rows.parquet", tmp_path / "settings"
    pq.write_table(pa.table({"id": [1]}), rows)
    folder.mkdir()
    (folder / "a.yaml").write_text(f"tables: {{good: {{root: 'file://{tmp_path}/good'}}}}")
    (folder / "b.yaml").write_text("tables: {")
    asked, said = ("--settings", folder), f"{folder / 'b.yaml'}, line 2"
    assert firnline("append", "good", rows, *asked).code == 0
    assert firnline("merge", "good", *asked).code == 0
    for target in ("bad", f"file://{tmp_path}/bad"):
        refused = firnline("append", target, rows, *asked)
        assert (refused.code, said in refused.err) == (2, True)
    checked = firnline("settings", "check", *asked)
    assert (checked.code, said in checked.err) == (2, True)
    health = {row["table"]: row for row in firnline("health", "--json", *asked).data["tables"]}
    assert (health["good"]["score"], health["b.yaml"]["score"]) == (100, 0)
    planned = firnline("fleet", "--json", *asked)
    assert (planned.code, [row["table"] for row in planned.data["unreadable"]]) == (1, ["b.yaml"])
    assert "the pools of tables of b.yaml are left out" in firnline("pools", *asked).err
    refused = firnline("init", "bad", "--root", f"file://{tmp_path}/bad", "--yes", *asked)
    assert (refused.code, "is a folder of settings" in refused.sentence) == (2, True)


@pytest.mark.parametrize(
    ("notifier", "says"),
    [
        ("no.module.Here", "No module named 'no'"),
        ("firnline.clock.NoClass", "firnline.clock has no NoClass"),
    ],
)
def test_a_notifier_that_does_not_exist_is_a_mistake(
    firnline: Firnline, tmp_path: Path, notifier: str, says: str
) -> None:
    alerts = f"alerts: {{notifier: {notifier}}}"
    file = settings_file(tmp_path, f"tables: {{t: {{root: 'memory://b/t', {alerts}}}}}")
    shown = firnline("settings", "check", "--settings", file)
    assert shown.code == 2
    assert f"the notifier {notifier} of t cannot be imported" in shown.sentence
    assert says in shown.sentence


def test_without_airflow_a_notifier_is_told_to_be_tried_where_it_is(
    firnline: Firnline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("firnline.cli.notifiers.find_spec", lambda _: None)
    text = "tables: {t: {root: 'memory://b/t', alerts: {notifier: no.module.Here}}}"
    shown = firnline("settings", "check", "--settings", settings_file(tmp_path, text))
    assert shown.code == 0
    assert "`firnline alerts test t" in " ".join(shown.out.split())
