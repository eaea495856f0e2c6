from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from firnline.errors import SettingsError, UsageError
from firnline.operations.dag_ids import dag_id, parse_dag_id
from firnline.operations.registry import DAGS
from firnline.settings.load import (
    MergeSettings,
    find_table,
    load_settings,
    settings_for_root,
    settings_path,
)
from firnline.settings.model import TableSettings
from tests.support.calls import calls_of
from tests.support.tables import loaded, mistakes

SHIPPED = Path(__file__).parents[3] / "include" / "tables.yaml"


def test_a_table_needs_nothing_but_a_root(tmp_path: Path) -> None:
    table = loaded(tmp_path, "tables: {t: {root: 's3://lake/t/'}}").table("t")
    assert table.root == table.asset_uri == "s3://lake/t"
    assert (table.merge_pool, table.cleanup_pool) == ("t.merge", "t.cleanup")
    assert (table.merge.target_size, table.merge.min_inputs) == (512 * 2**20, 4)
    assert (table.locking, table.ttl, table.connection_id) == ("fenced", None, None)


def test_defaults_hold_for_every_table_that_says_nothing_else(tmp_path: Path) -> None:
    settings = loaded(
        tmp_path,
        """
        defaults:
          connection_id: lake
          merge: {target_size: 1GiB, min_inputs: 8}
          spark: {conf: {spark.a: 1, spark.b: 2}}
        tables:
          one: {root: s3://b/one}
          two:
            root: s3://b/two
            connection_id: null
            merge: {min_inputs: 2}
            spark: {conf: {spark.b: 3}}
        """,
    )
    one_, two = settings.table("one"), settings.table("two")
    assert (one_.merge.target_size, one_.merge.min_inputs) == (2**30, 8)
    assert (two.merge.target_size, two.merge.min_inputs) == (2**30, 2)
    assert (one_.connection_id, two.connection_id) == ("lake", None)
    assert two.spark.conf == {"spark.a": "1", "spark.b": "3"}


@pytest.mark.parametrize(
    ("first", "second", "how"),
    [
        ("s3://b/x", "s3://b/x/", "the same as"),
        ("s3://b/x", "s3://b/x/y", "inside"),
        ("s3://b/x/y/z", "s3://b/x", "inside"),
        ("file:///a/b", "file:///a/b/c", "inside"),
        ("file:///a", "file:///a/b", "inside"),
    ],
)
def test_tables_inside_each_other_are_refused(
    tmp_path: Path, first: str, second: str, how: str
) -> None:
    text = f"tables: {{one: {{root: '{first}'}}, two: {{root: '{second}'}}}}"
    assert f"is {how} the root of" in mistakes(tmp_path, text)


def test_neighbours_are_no_overlap(tmp_path: Path) -> None:
    roots = ["s3://b/x", "s3://b/xy", "s3://b/x-y", "s3://c/x", "gs://b/x", "file:///b/x"]
    tables = ", ".join(f"t{n}: {{root: '{root}'}}" for n, root in enumerate(roots))
    assert len(loaded(tmp_path, f"tables: {{{tables}}}").tables) == len(roots)


def test_every_mistake_is_listed_at_once(tmp_path: Path) -> None:
    said = mistakes(
        tmp_path,
        """
        tabels: {}
        defaults: {merge: {target_size: 3}, root: s3://b/x}
        tables:
          a: {root: s3://b/a, merge: {min_inputs: 1, order: up}}
          b: {merge: 1}
          c: 3
          4: {root: s3://b/4}
          "d/e": {root: s3://b/d}
        """,
    )
    for field in [
        "tabels: ",
        "defaults.merge.target_size: ",
        "defaults.root: ",
        "tables.a.merge.min_inputs: ",
        "tables.a.merge.order: ",
        "tables.b.merge: ",
        "tables.b.root: is missing",
        "tables.c: ",
        "tables.4: ",
        "tables.d/e: ",
    ]:
        assert f"\n  {field}" in said
    assert "has 10 mistakes" in said


def test_a_mistake_in_the_defaults_is_told_once(tmp_path: Path) -> None:
    tables = ", ".join(f"t{n}: {{root: 's3://b/t{n}'}}" for n in range(50))
    said = mistakes(tmp_path, f"defaults: {{commit_ttl: 1}}\ntables: {{{tables}}}")
    assert said.count("commit_ttl") == 1


def test_a_thousand_mistakes_do_not_fill_the_screen(tmp_path: Path) -> None:
    said = mistakes(tmp_path, f"tables: {{{', '.join(f't{n}: 1' for n in range(1000))}}}")
    assert len(said.splitlines()) < 30
    assert "and 980 more" in said


def test_a_table_can_put_right_what_the_defaults_leave_open(tmp_path: Path) -> None:
    settings = loaded(
        tmp_path,
        "defaults: {version: v, merge: {max_bytes_per_run: 10MiB}}\n"
        "tables: {t: {root: s3://b/t, primary_key: [id], merge: {target_size: 5MiB}}}",
    )
    assert settings.table("t").version == "v"


def test_a_variable_in_the_root_is_expanded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "tables: {t: {root: '${LAKE_ROOT}/t', connection_id: '${LAKE_CONN:-}'}}"
    monkeypatch.setenv("LAKE_ROOT", "s3://lake")
    table = loaded(tmp_path, text).table("t")
    assert (table.root, table.connection_id) == ("s3://lake/t", None)
    monkeypatch.delenv("LAKE_ROOT")
    assert "tables.t.root: the environment variable LAKE_ROOT is not set" in mistakes(
        tmp_path, text
    )


def test_an_unknown_table_names_those_there_are(tmp_path: Path) -> None:
    settings = loaded(tmp_path, "tables: {flights: {root: s3://b/f}, weather: {root: s3://b/w}}")
    with pytest.raises(UsageError, match=r"no table 'flight'.*use one of flights,.*root URL"):
        settings.table("flight")
    with pytest.raises(UsageError, match="flights, weather"):
        settings.table("q")
    with pytest.raises(UsageError, match="add it under tables"):
        loaded(tmp_path, "tables: {}").table("q")


def test_the_shipped_file_loads_in_an_empty_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FIRNLINE_FLIGHTS_ROOT", "FIRNLINE_FLIGHTS_CONNECTION"):
        monkeypatch.delenv(name, raising=False)
    flights = load_settings(SHIPPED).table("flights")
    assert flights.root.startswith("file:///")
    assert [str(field) for field in flights.partition_by] == ["month(sched_dep)"]
    assert [field.column for field in flights.sort_by] == ["carrier", "sched_dep"]
    monkeypatch.setenv("FIRNLINE_FLIGHTS_ROOT", "s3://lake/flights")
    monkeypatch.setenv("FIRNLINE_FLIGHTS_CONNECTION", "lake")
    flights = load_settings(SHIPPED).table("flights")
    assert (flights.root, flights.connection_id) == ("s3://lake/flights", "lake")


def test_the_file_is_found_where_the_environment_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FIRNLINE_TABLES", raising=False)
    assert settings_path() == SHIPPED
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tables.yaml").touch()
    assert settings_path() == tmp_path / "tables.yaml"
    own = tmp_path / "include" / "tables.yaml"
    own.parent.mkdir()
    own.touch()
    assert settings_path() == own, "that of the current folder before the one beside the package"
    monkeypatch.setenv("FIRNLINE_TABLES", str(tmp_path / "x.yaml"))
    assert settings_path() == tmp_path / "x.yaml"
    with pytest.raises(SettingsError, match=r"x\.yaml cannot be read: No such .*; correct FIRN"):
        load_settings()


def test_any_root_can_be_a_table_without_a_file() -> None:
    assert settings_for_root("file:///data/my table/").name == "my-table"
    assert settings_for_root("s3://b/x/flights").root == "s3://b/x/flights"
    assert settings_for_root("memory://scratch").merge == MergeSettings()


@pytest.mark.parametrize(
    ("end", "name"),
    [("-rf", "rf"), (".hidden", "hidden"), ("a..b", "a..b"), ("--", "table"), ("ä", "table")],
)
def test_the_name_of_a_table_by_its_root_is_one_that_a_settings_file_may_have(
    end: str, name: str
) -> None:
    assert settings_for_root(f"memory://x/{end}").name == name


@pytest.mark.parametrize("name", [".", "..", "-rf", "--yes", "-", ".hidden", "a/b", "a b", "", "ä"])
def test_a_name_that_is_an_option_a_folder_or_hidden_is_refused(name: str, tmp_path: Path) -> None:
    path = tmp_path / "tables.yaml"
    path.write_text(json.dumps({"tables": {name: {"root": "memory://x"}}}))
    with pytest.raises(SettingsError) as raised:
        load_settings(path, strict=True)
    assert (
        f"tables.{name}: is not a table name; use letters, digits, '.', '_' and '-', at most 200 "
        "of them, with a letter, a digit or '_' in front"
    ) in str(raised.value)
    with pytest.raises(ValidationError, match="name"):
        TableSettings.model_validate({"name": name, "root": "memory://x"})


@pytest.mark.parametrize("name", ["a", "7", "_a", "a-b", "a.b", "a..", "x" * 200])
def test_other_names_are_segments_of_paths_arguments_and_ids_of_dags(
    name: str, tmp_path: Path
) -> None:
    path = tmp_path / "tables.yaml"
    path.write_text(json.dumps({"tables": {name: {"root": "memory://x"}}}))
    assert list(load_settings(path).tables) == [name]
    assert (tmp_path / name).resolve() == tmp_path.resolve() / name
    for operation in DAGS:
        parsed = parse_dag_id(dag_id(operation.dag, name))
        assert parsed is not None
        assert parsed.table == name


@pytest.mark.parametrize("url", ["s3://b", "file://x/y", "ftp://a/b", "s3://k:s3cr3t@b/t", ""])
def test_what_is_no_root_is_a_usage_error(url: str) -> None:
    with pytest.raises(UsageError, match="no table can be at this root") as raised:
        settings_for_root(url)
    assert "s3cr3t" not in str(raised.value)


@pytest.mark.parametrize("url", ["s3://k:s3cr3t@b/t", "s3:/k:s3cr3t@b/t"])
def test_a_secret_in_what_names_a_table_is_not_repeated(url: str) -> None:
    with pytest.raises(UsageError, match="a root holds no credentials") as raised:
        find_table(url)
    assert "s3cr3t" not in str(raised.value)


def test_the_path_of_a_folder_is_answered_with_its_root() -> None:
    for refused in (settings_for_root, find_table):
        with pytest.raises(UsageError, match=r"write file:///data/my lake$"):
            refused("/data/my lake")


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("~/x", "write file:///home/ana/x"),
        ("$LAKE/x", r"\$LAKE in .* is not filled in here; .* \$\{NAME\}"),
        ("s3://lake/{{ ds }}", r"\{\{ ds \}\} in .* is not filled in here"),
        ("arn:aws:s3:::lake/x", "write s3://lake/x"),
        ("abfss://lake@account.dfs.core.windows.net/x", "write az://lake/x"),
        ("dbfs:/x", "the file system of Databricks is no store"),
    ],
)
def test_what_is_almost_a_root_is_answered_in_a_settings_file_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: str, said: str
) -> None:
    monkeypatch.setenv("HOME", "/home/ana")
    path = tmp_path / "tables.yaml"
    path.write_text(f"tables: {{t: {{root: '{written}'}}}}")
    with pytest.raises(SettingsError, match=rf"tables\.t\.root: .*{said}"):
        load_settings(path, strict=True)
    path.write_text(f"tables: {{t: {{root: 's3://lake/t', import: {{source: '{written}'}}}}}}")
    if "lake@" not in written:
        with pytest.raises(SettingsError, match=r"tables\.t\.import\.source.*; write"):
            load_settings(path, strict=True)


def test_a_dollar_within_a_name_is_no_variable() -> None:
    assert settings_for_root("file:///data/US$sales/x_$folder$").root.endswith("x_$folder$")


def test_a_command_finds_tables_by_name_and_by_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "tables.yaml"
    path.write_text("tables: {t: {root: 's3://b/t', sort_by: [a]}}")
    monkeypatch.setenv("FIRNLINE_TABLES", str(path))
    assert find_table("t") == find_table("s3://b/t/")
    assert find_table("s3://b/other").sort_by == ()
    with pytest.raises(UsageError, match="no table 'x'"):
        find_table("x")
    path.unlink()
    assert find_table("s3://b/t").sort_by == ()


def tables(number: int, path: Path) -> Path:
    table: dict[str, Any] = {
        "partition_by": ["month(ts)", "bucket(16, user)"],
        "sort_by": ["carrier", "ts desc"],
        "merge": {"target_size": "128MiB", "schedule": "15 * * * *"},
        "cleanup": {"grace": "48h"},
        "ttl": {"keep": "90d", "column": "ts"},
    }
    blocks = (
        f"  table_{n}:\n    root: s3://lake/warehouse/table_{n}\n"
        + "".join(f"    {key}: {json.dumps(value)}\n" for key, value in table.items())
        for n in range(number)
    )
    path.write_text("defaults: {merge: {min_inputs: 5}}\ntables:\n" + "".join(blocks))
    return path


@pytest.mark.long
def test_the_work_to_load_tables_grows_as_their_number_and_no_faster(tmp_path: Path) -> None:
    few, many = (tables(number, tmp_path / f"{number}.yaml") for number in (25, 100))
    assert len(load_settings(few).tables) == 25  # and what is made once is made
    assert calls_of(lambda: load_settings(many)) < 6 * calls_of(lambda: load_settings(few))


@pytest.mark.long
def test_reading_the_settings_imports_nothing_heavy() -> None:
    code = (
        "import sys, firnline.settings.load; "
        "heavy = {'boto3', 'duckdb', 'obstore', 'pandas', 'numpy', 'pyarrow', 'pyspark', 'airflow',"
        " 'sqlglot', 'msgspec', 'tenacity'}; print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
